"""A release: noisy numbers and the guarantee that produced them. The far side of the wall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.after.allowance import BiasBound
from dpmodels.arrays import Array

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Release:
    """What left the private stage.

    Attributes
    ----------
    values : mapping of str to array
        Released numbers by step name (or a name the method documents). Everything here went
        through :class:`dpmodels.privacy.run.Run` or is public.
    guarantee : Guarantee
    design : Design
        The design with all intervals known (bought ones filled in).
    reply : bool
        False: the private test did not pass (or ranges could not be bought).
    why : str
        For a no-reply, which *kind* of step ended the run ("ranges", "test"): an output of the
        mechanism, paid for, and safe to print.
    detail : object
        The method's own frozen record (public numbers derived from released ones).
    """

    values: Mapping[str, npt.NDArray[np.float64]]
    guarantee: Guarantee
    design: Design
    reply: bool = True
    why: str = ""
    detail: Any = field(default=None)


# -- An estimate: post-processing of a release, in the user's units


#: Statistics whose errors take rows for independent.
_OF_ROWS = frozenset({"sigma_se", "r_squared_se", "r_squared_low", "r_squared_high"})
_ALIKE = (
    "Rows of one person may depend on each other in any way: sampling variances, in tests and "
    "intervals too, are {m} times those of unrelated rows (max_rows={m}), which is always enough "
    "and mostly too much. One row a person, max_rows=1, has no such factor."
)


@dataclass(frozen=True)
class Estimate:
    """Coefficients and what is known of their errors.

    Attributes
    ----------
    names : tuple of str
        Coefficient names ("Intercept" first), length p.
    params : (p,) array
        NaN after a no-reply.
    vcov_sampling, vcov_privacy : (p, p) array or None
        The two parts; None where not released.
    bias : (p,) array or None
        Bound on what clipping may have moved; intervals allow for it. None: no such bound.
    released : bool
    stats : mapping
        Released or public scalars ("sigma", "ridge", ...), for ``glance`` and the summary.
    notes : tuple of str
        Sentences for the summary, from released and public numbers only.
    warnings : tuple of str
        Shown as warnings too ("the fit is noise-dominated").
    arrays : mapping
        Released arrays worth keeping (the noisy moment matrix, draws of a bootstrap, ...).
    use_t : float or None
        Degrees of freedom if a t reference is right; None: normal.
    bias_bound : BiasBound or None
        The same bound of any combination of coefficients. None: that of a combination is
        ``sum |l_j| bias_j``.
    untested : (p,) bool array or None
        Coefficients whose error does not hold all there is (not determined at this budget, or a
        ridge's bias): no z and no p are given for them, the interval stays. None: none.
    """

    names: tuple[str, ...]
    params: Array
    vcov_sampling: Array | None = None
    vcov_privacy: Array | None = None
    bias: Array | None = None
    released: bool = True
    stats: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    arrays: Mapping[str, Array] = field(default_factory=dict)
    use_t: float | None = None
    bias_bound: BiasBound | None = None
    untested: npt.NDArray[np.bool_] | None = None

    def bias_of(self, L: Array) -> Array | None:
        """Return (k,) bounds on the bias of ``L b``, L (k, p); None: there is no bound.

        The smaller of the combination's own and of the sum over its coefficients.
        """
        if self.bias is None:
            return None
        by_parts = np.abs(L) @ np.nan_to_num(np.asarray(self.bias))
        if self.bias_bound is None:
            return np.asarray(by_parts)
        return np.minimum(by_parts, self.bias_bound.of(np.asarray(L, dtype=float)))

    def of_alike_rows(self, m: int) -> Estimate:
        """Return the estimate where up to m rows go together in any way; made of single rows.

        Sampling variances m times as large are enough whatever m rows of one person have to do
        with each other (``units/theory.md``, 7). Scalars whose errors are of single rows go.
        """
        V = self.vcov_sampling
        if m <= 1 or not self.released or (V is None and "low" not in self.arrays):
            return self
        return replace(
            self,
            vcov_sampling=None if V is None else m * V,
            stats={k: v for k, v in self.stats.items() if k not in _OF_ROWS},
            notes=(*self.notes, _ALIKE.format(m=m)),
        )

    @classmethod
    def silent(
        cls, names: Sequence[str], *notes: str, stats: Mapping[str, float] | None = None
    ) -> Estimate:
        """Return what there is to say after a no-reply: the names, and why."""
        blank = np.full(len(names), np.nan)
        return cls(tuple(names), blank, released=False, stats=dict(stats or {}), notes=notes)
