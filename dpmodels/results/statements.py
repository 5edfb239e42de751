"""Statements about one fit: tests inside margins, and numbers as text."""

from __future__ import annotations

from typing import Any

from dpmodels.results.contrasts import contrast
from dpmodels.results.joint import inline, margins_of
from dpmodels.results.record import Record


class Statements:
    """Tests of hypotheses inside margins, and sentences for running text.

    Privacy
    -------
    Post-processing of released numbers: costs nothing, however often.
    """

    __slots__ = ()
    _record: Record

    def hypotheses(
        self, hypothesis: Any = None, *, equivalence: Any = None, level: float | None = None
    ) -> Any:
        """Test combinations of coefficients, or that they are inside public margins.

        Parameters
        ----------
        hypothesis : str, list of str, mapping or array, optional
            As in ``contrast``, or the name of a coefficient. Default: every slope.
        equivalence : (float, float), optional
            Margins: two one-sided tests (Schuirmann 1987). None for one of them: non-inferiority.
        level : float, optional
            Tests are at ``1 - level``. Default: the ``level`` of the fit.

        Returns
        -------
        Equivalence, or Combinations without ``equivalence``
            The first has ``tidy()`` with both one-sided P values and the verdict in words.

        Raises
        ------
        RequestError
            The margins are not two numbers in ascending order, or a name is not a coefficient.
        NotReleasedError
            The fit has no total standard errors.

        Privacy
        -------
        Post-processing: costs nothing. The bound of the bias is taken against each claim.
        """
        margins = None if equivalence is None else margins_of(equivalence)
        level = self._record.call.level if level is None else level
        names = self._record.estimate.names
        if isinstance(hypothesis, str) and hypothesis in names:
            hypothesis = {hypothesis: {hypothesis: 1.0}}
        elif hypothesis is None:
            slopes = [name for name in names if name != "Intercept"] or names
            hypothesis = {name: {name: 1.0} for name in slopes}
        rows = contrast(self._record, hypothesis, level)
        return rows if margins is None else rows.hypotheses(equivalence=margins)

    def inline(
        self, name: str, *, level: float | None = None, exponentiate: bool = False, digits: int = 2
    ) -> str:
        """Return one coefficient as text: ``"0.361 (95 % CI 0.312 to 0.410, P < .001)"``.

        Parameters
        ----------
        name : str
            A coefficient.
        level : float, optional
            Default: the ``level`` of the fit.
        exponentiate : bool
            Print exp of the estimate and of the ends: an odds, rate or hazard ratio.
        digits : int
            Decimals. There are more if the standard error would show fewer than two digits, as on
            the page.

        Returns
        -------
        str
            A coefficient that is not tested has no P: the text says so.

        Raises
        ------
        RequestError
            The name is not a coefficient.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        level = self._record.call.level if level is None else level
        return inline(self._record, name, level=level, exponentiate=exponentiate, digits=digits)
