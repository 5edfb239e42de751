"""Several fits side by side, and the guarantee of the table as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError, did_you_mean
from dpmodels.results import formats as f
from dpmodels.results.fit import Fit
from dpmodels.results.summary import greek, pair, response_of

if TYPE_CHECKING:
    from dpmodels.privacy.guarantee import Guarantee

__all__ = ["Etable", "etable", "joint_line", "modelsummary"]

#: Other names of the types, as in ``summary(fmt)``.
_ALSO = {"markdown": "md", "latex": "tex"}
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
}


@dataclass(frozen=True)
class Etable:
    """A table of fits, all text.

    Attributes
    ----------
    heads : tuple of (str, str)
        Number with method, and response, one pair a fit.
    rows : tuple of (name, cells, brackets)
        One a coefficient; ``brackets`` are the standard errors under the cells.
    stats : tuple of (label, cells)
    notes : tuple of str
        The last is the guarantee of the table.
    """

    heads: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    stats: tuple[tuple[str, tuple[str, ...]], ...]
    notes: tuple[str, ...]

    def render(self, kind: str) -> str:
        """Return the table as text, md, html, tex or typst."""
        from dpmodels.results.render import etable as renderers

        return renderers.RENDERERS[kind](self)

    def to_frame(self) -> Any:
        """Return the table as a DataFrame of text; the notes are in ``attrs["notes"]``."""
        import pandas as pd

        index, lines = [], []
        for name, cells, brackets in self.rows:
            index += [name, ""]
            lines += [cells, brackets]
        for label, cells in self.stats:
            index.append(label)
            lines.append(cells)
        columns = pd.MultiIndex.from_tuples(self.heads)
        frame = pd.DataFrame([list(line) for line in lines], index=index, columns=columns)
        frame.attrs["notes"] = list(self.notes)
        return frame

    def __str__(self) -> str:
        return self.render("text")

    def __repr__(self) -> str:
        return self.render("text")

    def _repr_html_(self) -> str:
        return self.render("html")

    def _repr_latex_(self) -> str:
        return self.render("tex")


def etable(
    fits: Fit | Iterable[Fit],
    type: str | None = None,
    *,
    se: str = "total",
    stats: Sequence[str] | None = None,
    digits: int = 3,
) -> Any:
    """Show several fits side by side.

    Parameters
    ----------
    fits : list of Fit
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

    Returns
    -------
    Etable, str or DataFrame

    Privacy
    -------
    Post-processing: costs nothing. The last line is the guarantee of all fits of the table
    together, if they were made from the same data.
    """
    if isinstance(type, Fit):
        raise RequestError("etable takes a list: etable([fit1, fit2])")
    type = _ALSO.get(type or "", type)
    fits = [fits] if isinstance(fits, Fit) else list(fits)
    for fit in fits:
        if not isinstance(fit, Fit):
            raise RequestError(f"etable takes a list of fits, got {fit.__class__.__name__}")
    if not fits:
        raise RequestError("etable needs at least one fit")
    for name, value, known in (("se", se, ("total", "split")), ("type", type or "text", TYPES)):
        if value not in known:
            raise RequestError(
                f"{name}={value!r} is not one of {list(known)}.{did_you_mean(value, known)}"
            )
    names = list(dict.fromkeys(n for fit in fits for n in fit._record.estimate.names))
    columns = [_cells(fit, se, digits) for fit in fits]
    rows = tuple(
        (
            name,
            tuple(column.get(name, ("-", ""))[0] for column in columns),
            tuple(column.get(name, ("-", ""))[1] for column in columns),
        )
        for name in names
    )
    table = Etable(
        heads=tuple(
            (f"({k}) {fit.method}", response_of(fit._record)) for k, fit in enumerate(fits, 1)
        ),
        rows=rows,
        stats=tuple(
            (_LABELS.get(key, key), tuple(_stat(fit, key, digits) for fit in fits))
            for key in (_DEFAULT_STATS if stats is None else stats)
        ),
        notes=(_legend(se), joint_line(fits)),
    )
    if type is None:
        return table
    return table.to_frame() if type == "df" else table.render(type)


modelsummary = etable


def _legend(se: str) -> str:
    what = "(sampling | privacy)" if se == "split" else "total"
    return f"Std. errors in brackets: {what}."


def _cells(fit: Fit, se: str, digits: int) -> dict[str, tuple[str, str]]:
    """Coefficient name -> (estimate, bracket)."""
    parts = (fit.bse,) if se == "total" else (fit.bse_sampling, fit.bse_privacy)
    inside = zip(*(f.column(part, digits) for part in parts), strict=True)
    shown = f.column(fit.params, digits)
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
    promises = list({id(fit._record): fit.privacy for fit in fits}.values())
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
