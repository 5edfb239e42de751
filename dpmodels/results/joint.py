"""Joint tests of a fit: Wald, F, term-wise tables. From coefficients and their covariance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.after.regression import inverse_and_rank
from dpmodels.after.wald import Hypothesis, Wald, read_hypothesis, wald
from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, choice
from dpmodels.results import formats as f
from dpmodels.results import inference
from dpmodels.tables import Column, Layout, Result, Row, Table, also

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.results.record import Record

_LAYOUT = Layout(width=0, grows=True, wrap=True, notes=76)
_GONE = (
    "No statistic and p: a coefficient of the hypothesis is not determined at this budget. More "
    "rows, a larger ε or fewer terms would help."
)
_WIDE = Layout(width=76, wrap=True)


def places_of(record: Record) -> list[tuple[int, ...]]:
    """Return the places of the coefficients of each column of the design, found by their names.

    A model without an intercept of its own (hazards, effects of people, thresholds) has one fewer;
    of categories each column has one a level, ``"level:column"``.
    """
    names, own = record.estimate.names, record.design.names
    if names[: len(own)] == own or not set(own) - {"Intercept"}:
        return [(j,) for j in range(len(names))]
    if set(own) - {"Intercept"} <= set(names):
        return [(names.index(name),) if name in names else () for name in own]
    levels = [str(level) for level in record.design.levels]
    each = [tuple(f"{level}:{name}" for level in levels[1:]) for name in own]
    if {name for some in each for name in some} == set(names):
        return [tuple(names.index(name) for name in some) for some in each]
    return [(j,) for j in range(len(names))]


def terms_of(record: Record) -> dict[str, tuple[int, ...]]:
    """Return term -> places of its coefficients, under its name and that of its factor alone."""
    at = places_of(record)
    out: dict[str, tuple[int, ...]] = {}
    for term in record.design.terms:
        places = tuple(k for j in range(len(at))[term.columns] for k in at[j])
        if not places or term.name in ("1", "Intercept"):
            continue
        out[term.name] = places
        inside = term.name.removeprefix("C(").removesuffix(")").partition(",")[0]
        if term.name.startswith("C(") and ":" not in term.name:
            out.setdefault(inside, places)
    return out


def checked_errors(record: Record) -> None:
    """Refuse what needs a covariance where none was released."""
    est = record.estimate
    if not est.released:
        raise NotReleasedError("this fit got no reply: there is nothing to test")
    if est.vcov_sampling is None or est.vcov_privacy is None:
        raise NotReleasedError(
            "tests need total standard errors, which this fit does not have. Fit with "
            "inference=True, by a method that gives them (dp.methods(), column 'inference')"
        )


def hypothesis_of(record: Record, given: Any) -> Hypothesis:
    """Read a hypothesis, and refuse one that touches a coefficient without errors."""
    checked_errors(record)
    names = record.estimate.names
    found = read_hypothesis(given, names, terms_of(record))
    lost = np.isnan(np.diag(inference.covariance(record.estimate)))
    touched = [
        n for n, bad, w in zip(names, lost, np.abs(found.L).max(0), strict=True) if bad & (w > 0)
    ]
    if touched:
        raise RequestError(
            f"{', '.join(touched)}: not determined in this fit, so no combination with it is "
            "either (the notes of fit.summary() say why). Drop it from the hypothesis"
        )
    return found


def _known(record: Record) -> tuple[Array, Array | None]:
    """Return (covariance, bias) with zeros where a coefficient has none."""
    est = record.estimate
    bias = None if est.bias is None else np.nan_to_num(np.asarray(est.bias))
    return np.nan_to_num(inference.covariance(est)), bias


@dataclass(frozen=True)
class JointTest(Result):
    """A joint test of linear hypotheses.

    Attributes
    ----------
    statistic, df, pvalue : float, int, float
        chi2, or F if ``use_f``.
    use_f : bool
        ``statistic`` is divided by ``df``.
    df_denom : float or None
        Of an F reference with finite degrees of freedom.
    noncentrality : float
        What bounded bias may add (``fit.bias_bound``); the p-value allows for it.
    hypotheses : tuple of str
    """

    statistic: float
    df: int
    pvalue: float
    use_f: bool
    df_denom: float | None
    noncentrality: float
    hypotheses: tuple[str, ...]

    def table(self) -> Table:
        """Return the test as a table."""
        letter = "F" if self.use_f else "chi2"
        note = (
            "The p-value allows for the bias bound of the fit: reference noncentral chi2, "
            f"noncentrality {self.noncentrality:.3g}."
        )
        cells = ("Wald", f.number(self.statistic, 4), str(self.df), f.p_value(self.pvalue))
        return Table(
            facts=tuple(("" if k else "Hypothesis", h) for k, h in enumerate(self.hypotheses)),
            columns=(Column(left=True, width=8), Column(letter, width=10), Column("df", width=4),
                     Column(f"P>{letter}", width=9)),
            rows=(Row(cells),),
            notes=(_GONE,) if math.isnan(self.pvalue) else (note,) if self.noncentrality else (),
            layout=_WIDE,
        )  # fmt: skip

    def tidy(self) -> pd.DataFrame:
        """Return one row: ``term, statistic, df, df_denom, p_value``."""
        import pandas as pd

        row = ("; ".join(self.hypotheses), self.statistic, self.df, self.df_denom, self.pvalue)
        return pd.DataFrame([row], columns=["term", "statistic", "df", "df_denom", "p_value"])

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the reference density, its upper 5 %, and the statistic (needs matplotlib)."""
        from scipy import stats

        from dpmodels.tables.pictures import new_axes

        x = self.statistic * (self.df if self.use_f else 1)
        free = (
            stats.ncx2(self.df, self.noncentrality) if self.noncentrality else (stats.chi2(self.df))
        )
        ax = new_axes(ax, (5.6, 3.0))
        at = np.linspace(0.0, max(float(free.ppf(0.999)), 1.1 * x), 400)[1:]
        color = style.get("color", "C0")
        ax.plot(at, free.pdf(at), color=color)
        cut = float(free.ppf(0.95))
        tail = at[at >= cut]
        ax.fill_between(tail, free.pdf(tail), color=color, alpha=0.3, label="upper 5 %")
        said = f.p_value(self.pvalue)
        said = said if said.startswith("<") else f"= {said}"
        ax.axvline(x, color="0.2", linestyle="--", label=f"statistic, p {said}")
        ax.set_xlabel(f"chi2, {self.df} degrees of freedom")
        ax.set_yticks([])
        ax.legend(fontsize="small", frameon=False)
        return ax


def _joint(record: Record, L: Array, q: Array) -> Wald:
    V, bias = _known(record)
    est = record.estimate
    one = wald(L, np.nan_to_num(est.params), V, q, bias=bias, bias_of=est.bias_of, free=est.use_t)
    if est.untested is None or not (np.abs(L[:, est.untested]) > 0).any():
        return one
    # not determined at this budget: neither z nor p of a single one, nor of several together
    return replace(one, statistic=math.nan, pvalue=math.nan)


def joint_test(record: Record, given: Any, *, use_f: bool) -> JointTest:
    """Return the Wald test of a hypothesis."""
    found = hypothesis_of(record, given)
    one = _joint(record, found.L, found.q)
    if one.df < len(found.L):
        raise RequestError(
            f"the {len(found.L)} parts of this hypothesis are {one.df} different ones: drop those "
            "that follow from the others"
        )
    return JointTest(
        one.statistic / one.df if use_f else one.statistic, one.df, one.pvalue, use_f,
        record.estimate.use_t, one.noncentrality, found.labels,
    )  # fmt: skip


@dataclass(frozen=True)
class AnovaTable(Result):
    """A table of tests, one row a term (or a comparison).

    Attributes
    ----------
    title : str
    rows_ : tuple of (str, float, int, float)
        Name, chi2, degrees of freedom, p-value.
    notes : tuple of str
    """

    title: str
    rows_: tuple[tuple[str, float, int, float], ...]
    notes: tuple[str, ...]

    def tidy(self) -> pd.DataFrame:
        """Return one row a term: ``term, df, statistic, p_value``."""
        import pandas as pd

        rows = [(name, df, x, p) for name, x, df, p in self.rows_]
        return pd.DataFrame(rows, columns=["term", "df", "statistic", "p_value"])

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw what each term explains: chi2 over its degrees of freedom (needs matplotlib)."""
        from dpmodels.tables.pictures import forest

        frame = self.tidy().assign(estimate=lambda t: t["statistic"] / t["df"])
        label = "chi2 / df (about 1 where nothing is there)"
        return forest(frame, ax, xlabel=label, zero=1.0, title=self.title, **style)

    @also.method
    def to_frame(self) -> pd.DataFrame:
        """Return the table as a DataFrame with columns ``df, chi2, F, p_value``."""
        import pandas as pd

        rows = [(df, x, x / df, p) for _, x, df, p in self.rows_]
        index = pd.Index([name for name, *_ in self.rows_], name="term")
        return pd.DataFrame(rows, columns=["df", "chi2", "F", "p_value"], index=index)

    def table(self) -> Table:
        """Return the table."""
        rows = [
            Row((name, str(df), f.number(x, 4), f.number(x / df, 4), f.p_value(p)))
            for name, x, df, p in self.rows_
        ]
        width = max([16, *(len(name) + 1 for name, *_ in self.rows_)])
        columns = (Column(left=True, width=width), Column("df", width=4), Column("chi2", width=10),
                   Column("F", width=10), Column("P>chi2", width=9))  # fmt: skip
        return Table(
            title=self.title, columns=columns, rows=tuple(rows), notes=self.notes, layout=_LAYOUT
        )


def _factors(term: str) -> set[str]:
    return {part.strip() for part in term.split(":")}


def _later(record: Record, kind: int) -> Mapping[str, list[int]]:
    """Return term -> coefficients that its test leaves out.

    None (III), those of terms that contain it (II), all after it (I).
    """
    at = places_of(record)
    terms = [
        (t.name, tuple(k for j in range(len(at))[t.columns] for k in at[j]))
        for t in record.design.terms
        if t.name not in ("1", "Intercept")
    ]
    out = {}
    for k, (name, _) in enumerate(terms):
        if kind == 1:
            others = [places for _, places in terms[k + 1 :]]
        elif kind == 2:
            others = [p for other, p in terms if _factors(name) < _factors(other)]
        else:
            others = []
        out[name] = [j for places in others for j in places]
    return out


def anova_table(record: Record, kind: int = 3) -> AnovaTable:
    """Return a Wald test a term."""
    checked_errors(record)
    choice("typ", {1: "1", 2: "2", 3: "3"}.get(kind, kind), ("1", "2", "3"))
    V, _ = _known(record)
    nan = np.isnan(np.diag(inference.covariance(record.estimate)))
    p, rows, lost = len(record.estimate.names), [], []
    own = terms_of(record)
    gone = record.estimate.untested
    untested = set() if gone is None else set(np.flatnonzero(gone).tolist())
    for name, later in _later(record, kind).items():
        L = np.eye(p)[list(own[name])]
        if nan[list(own[name])].any() or (untested & set(own[name])):
            lost.append(name)
            continue
        if later:
            K = np.eye(p)[later]
            L = L - (L @ V @ K.T) @ inverse_and_rank(K @ V @ K.T)[0] @ K
        one = _joint(record, L, np.zeros(len(L)))
        rows.append((name, one.statistic, one.df, one.pvalue))
    roman = {1: "I", 2: "II", 3: "III"}[kind]
    notes = [
        f"Type {roman}, by Wald tests from coefficients and their total covariance: privacy noise "
        "is inside. Sums of squares are not compared: their noise would make F invalid."
    ]
    if kind == 3 and any(":" in name for name, *_ in rows):
        notes.append(
            "With interactions, type III depends on the coding of factors: C(g, Sum) makes main "
            "effects averages over the other factor."
        )
    if record.estimate.bias is not None:
        notes.append("P-values allow for the bias bound of the fit.")
    if lost:
        notes.append(f"Not determined at this budget, so not tested: {', '.join(lost)}.")
    return AnovaTable("Analysis of variance", tuple(rows), tuple(notes))
