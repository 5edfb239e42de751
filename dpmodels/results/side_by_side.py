"""Several fits side by side, and the guarantee of the table as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError, choice, did_you_mean
from dpmodels.results import formats as f
from dpmodels.results.choose import chosen, labelled
from dpmodels.results.fit import Fit
from dpmodels.results.formats import greek, pair
from dpmodels.results.notes import STARS
from dpmodels.results.summary import response_of
from dpmodels.tables import RULE, Column, Layout, Row, Shown, Table
from dpmodels.tables.files import check_file, write_file
from dpmodels.tables.text import ascii_text

if TYPE_CHECKING:
    from dpmodels.privacy.guarantee import Guarantee

__all__ = ["Etable", "etable", "joint_line", "modelsummary"]

#: Other names of the types, as in ``summary(fmt)``.
_ALSO = {"markdown": "md", "latex": "tex"}
_LAYOUT = Layout(width=0, grows=True, outer="-", mark="", wrap=True, notes=76)
TYPES = ("text", "md", "html", "tex", "typst", "df")
_DEFAULT_STATS = ("nobs", "eps_delta", "relation", "reply")
_LABELS = {
    "nobs": "Observations",
    "eps_delta": "ε, δ",
    "eps": "ε",
    "delta": "δ",
    "relation": "Neighbours",
    "reply": "Reply",
    "method": "Method",
    "df": "Coefficients",
    "row_norm_bound": "Row norm bound",
    "level": "Level",
    "formula": "Formula",
    "sigma": "Residual std. dev.",
    "r_squared": "R²",
    "adj_r_squared": "Adjusted R²",
}


class Etable(Shown):
    """A table of fits, all text.

    Attributes
    ----------
    fits : tuple of str
        Number with method, and response, on two lines: one a fit.
    rows : tuple of Row
        Two a coefficient (estimates, and brackets with the standard errors), a rule, and the
        facts of the fits.
    notes : tuple of str
        The last is the guarantee of the table.
    """

    def __init__(
        self, fits: Sequence[str], rows: Iterable[Row], notes: tuple[str, ...], title: str = ""
    ) -> None:
        self.fits, self.rows, self.notes, self.title = tuple(fits), tuple(rows), notes, title

    def table(self) -> Table:
        """Return the table: a bare one unless it has a title."""
        longest = max(len(ascii_text(row.cells[0])) for row in self.rows if row.cells)
        names = Column(left=True, width=max(16, longest + 1))
        columns = (names, *(Column(label, width=14) for label in self.fits))
        return Table(
            title=self.title, columns=columns, rows=self.rows, notes=self.notes, layout=_LAYOUT
        )

    def to_frame(self) -> Any:
        """Return the table as a DataFrame of text; the notes are in ``attrs["notes"]``."""
        import pandas as pd

        lines = [row.cells for row in self.rows if row.cells]
        columns = pd.MultiIndex.from_tuples([tuple(fit.split("\n", 1)) for fit in self.fits])
        index = [name for name, *_ in lines]
        frame = pd.DataFrame([cells[1:] for cells in lines], index=index, columns=columns)
        frame.attrs["notes"] = list(self.notes)
        return frame

    def __repr__(self) -> str:
        return self.as_text()


def etable(
    *fits: Fit | Iterable[Fit] | str,
    type: str | None = None,
    se: str = "total",
    stats: Sequence[str] | None = None,
    digits: int = 3,
    labels: Mapping[str, str] | None = None,
    order: Any = None,
    keep: Any = None,
    drop: Any = None,
    stars: bool = False,
    title: str = "",
    file: Any = None,
) -> Any:
    """Show several fits side by side.

    Parameters
    ----------
    *fits : Fit, or a list of them
        ``etable(m1, m2)`` and ``etable([m1, m2])`` are the same; a text behind them is ``type``.
    type : {"text", "md", "html", "tex", "typst", "df"}, optional
        None: an object that prints as text and shows as HTML in a notebook. Else a string, or
        a DataFrame for ``"df"``.
    se : {"total", "split"}
        Standard errors in brackets: total, or ``(sampling|privacy)``.
    stats : list of str, optional
        Lines under the coefficients: "nobs", "eps_delta", "relation", "reply", "method", "df",
        or any column of ``fit.glance()``.
    digits : int
        Decimals.
    labels : mapping, optional
        Coefficient (or part of an interaction, or response) -> what is printed.
    order, keep, drop : str or list of str, optional
        Coefficients, or regular expressions of them: these first, only these, all but these.
    stars : bool
        Significance stars, with their legend. After a search over models they mean little.
    title : str
    file : path, optional
        Write the table there: ``.tex``, ``.html``, ``.md``, ``.typ``, ``.txt`` or ``.docx`` (needs
        python-docx).

    Returns
    -------
    Etable, str or DataFrame

    Privacy
    -------
    Post-processing: costs nothing. The last line is the guarantee of all fits of the table
    together, if they were made from the same data.
    """
    given, type = _given(fits, type)
    type = _ALSO.get(type or "", type)
    choice("se", se, ("total", "split"))
    choice("type", type or "text", TYPES)
    path = None if file is None else check_file(file)
    names = chosen(
        dict.fromkeys(n for fit in given for n in fit._record.estimate.names),
        order=order, keep=keep, drop=drop,
    )  # fmt: skip
    columns = [_cells(fit, se, digits, stars) for fit in given]
    rows = [
        Row((text, *(column.get(name, ("-", ""))[k] for column in columns)))
        for name in names
        for k, text in enumerate((labelled(name, labels), ""))
    ]
    facts = [
        Row((_LABELS.get(key, key), *(_stat(fit, key, digits) for fit in given)))
        for key in (_DEFAULT_STATS if stats is None else stats)
    ]
    table = Etable(
        [
            f"({k}) {fit.method}\n{labelled(response_of(fit._record), labels)}"
            for k, fit in enumerate(given, 1)
        ],
        [*rows, RULE, *facts],
        (_legend(se), *((STARS,) if stars else ()), *_about(given), joint_line(given)),
        str(title),
    )
    if path is not None:
        write_file(table, path)
    if type is None:
        return table
    return table.to_frame() if type == "df" else table.render(type)


def _given(
    fits: Sequence[Fit | Iterable[Fit] | str], type: str | None
) -> tuple[list[Fit], str | None]:
    """Return the fits of a call, however they were given, and the type."""
    some: list[Any] = list(fits)
    last = some[-1] if some else None
    if isinstance(last, str):
        if type is not None:
            raise RequestError("etable takes the type once: etable([fit1, fit2], type='tex')")
        type = some.pop()
    found: list[Fit] = []
    for one in some:
        several = isinstance(one, Iterable) and not isinstance(one, (Fit, str))
        for fit in one if several else [one]:
            if not isinstance(fit, Fit):
                raise RequestError(
                    f"etable takes fits, got {fit.__class__.__name__}: etable(fit1, fit2), or a "
                    "list of them"
                )
            found.append(fit)
    if not found:
        raise RequestError("etable needs at least one fit")
    return found, type


modelsummary = etable


def _legend(se: str) -> str:
    what = "(sampling | privacy)" if se == "split" else "total"
    return f"Std. errors in brackets: {what}."


def _about(fits: Sequence[Fit]) -> tuple[str, ...]:
    """Say what stars and intervals rest on where it is not the standard error alone."""
    if all(fit._record.estimate.bias is None for fit in fits):
        return ()
    return ("Total errors, p-values and intervals allow for the bias bound of clipping.",)


def _cells(fit: Fit, se: str, digits: int, stars: bool) -> dict[str, tuple[str, str]]:
    """Coefficient name -> (estimate, bracket)."""
    error = fit.errors()["error"]
    parts = (error,) if se == "total" else (fit.bse_sampling, fit.bse_privacy)
    inside = zip(*(f.column(part, digits) for part in parts), strict=True)
    shown = f.column(fit.params, digits)
    if stars:
        shown = [a + f.stars(p) for a, p in zip(shown, fit.pvalues, strict=True)]
    return {
        name: (number, f"({'|'.join(words)})")
        for name, number, words in zip(fit._record.estimate.names, shown, inside, strict=True)
    }


def _stat(fit: Fit, key: str, digits: int) -> str:
    promise = fit.privacy
    words = {
        "eps_delta": f"{promise.eps:g}, {promise.delta:g}",
        "reply": "released" if fit.released else "NO REPLY",
        "nobs": "private" if fit.nobs is None else str(fit.nobs),
        "level": f"{fit.level:g}",
        "formula": fit.formula,
        "eps": f"{promise.eps:g}",
        "delta": f"{promise.delta:g}",
    }
    if key in words:
        return words[key]
    row = fit.glance().iloc[0]
    if key not in row.index:
        known = [*words, *row.index]
        raise RequestError(f"stats: no {key!r} in {known}.{did_you_mean(key, known)}")
    value = row[key]
    if isinstance(value, str):
        return value
    return str(int(value)) if key == "df" else f.number(float(value), digits)


def joint_line(fits: Sequence[Fit]) -> str:
    """Return the sentence on the guarantee of all fits together.

    The sum of the pairs holds however the calls were chosen. The exact composition of the
    mechanisms is smaller, but holds only for parameters fixed before the first output.
    """
    promises = list({id(fit.privacy): fit.privacy for fit in fits}.values())
    seeded = [str(k) for k, fit in enumerate(fits, 1) if fit.privacy.seeded]
    if seeded:
        return f"NOT PRIVATE: the noise of fit {', '.join(seeded)} was seeded."
    if len(promises) == 1:
        return f"Privacy of the table: {greek(promises[0].statement())}."
    if len({(p.relation, p.unit) for p in promises}) > 1:
        return (
            "Fits on the same data add up; these promise privacy for different neighbours or "
            "units, so the table as a whole has no single statement."
        )
    eps, delta = sum(p.eps for p in promises), sum(p.delta for p in promises)
    line = f"Fits on the same data add up: the table as a whole is {pair(eps, delta)}-DP"
    exact = _exact(promises, delta)
    if exact < eps:
        line += f" (sums); {pair(round(exact, 4), delta)}-DP"
        line += " if all were declared before the first ran"
    return line + "."


def _exact(promises: Sequence[Guarantee], delta: float) -> float:
    """Return eps of the tightest composition of all steps at ``delta``."""
    from dpmodels.privacy.guarantee import joint

    # shown rounded: to the side that stays true
    return joint(promises).eps_at(delta) + 5e-5
