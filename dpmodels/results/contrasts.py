"""Linear combinations of coefficients with intervals: t tests, contrasts, adjusted means."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, choice, did_you_mean, shown
from dpmodels.results import formats as f
from dpmodels.results import inference
from dpmodels.results.design_facts import interval_of
from dpmodels.results.joint import checked_errors, hypothesis_of
from dpmodels.tables import Column, Layout, Row, Shown, Table

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.results.fit import Fit
    from dpmodels.results.record import Record

__all__ = ["Combinations", "combine", "contrast", "emmeans", "predictors", "t_tests"]

_LAYOUT = Layout(width=0, grows=True, wrap=True, notes=76)


@dataclass(frozen=True, eq=False)
class Combinations(Shown):
    """Estimates of ``L b - q`` with errors, intervals and p-values.

    Attributes
    ----------
    labels : tuple of str
    L, effect, sd, bias, error : arrays
        Rows of weights, estimates, total standard errors, bounds on the bias, and the errors that
        z, p and intervals rest on (printed): these hold both.
    untested : array or None
        Rows with a coefficient that is not determined: no z and p.
    statistic, pvalue, low, high : arrays
    level : float
    record : Record
    what : str
        Header of the estimates.
    notes : tuple of str
    """

    labels: tuple[str, ...]
    L: Array
    effect: Array
    sd: Array
    bias: Array
    statistic: Array
    pvalue: Array
    low: Array
    high: Array
    level: float
    record: Record
    what: str
    notes: tuple[str, ...]
    error: Array
    untested: npt.NDArray[np.bool_] | None = None

    def conf_int(self, level: float | None = None) -> Array:
        """Return (k, 2) ends of intervals; half widths allow for bounded bias."""
        level = self.level if level is None else level
        est = self.record.estimate
        bias = None if est.bias is None else self.bias
        half = inference.half_width(self.sd, bias, level, est.use_t)
        return np.column_stack([self.effect - half, self.effect + half])

    def summary_frame(self) -> pd.DataFrame:
        """Return one row a combination, broom's column names."""
        import pandas as pd

        return pd.DataFrame(
            {
                "term": list(self.labels),
                "estimate": self.effect,
                "std_error": self.error,
                "statistic": self.statistic,
                "p_value": self.pvalue,
                "conf_low": self.low,
                "conf_high": self.high,
            }
        )

    to_frame = summary_frame

    def pairs(self) -> Combinations:
        """Return all differences between two rows, first less second (no adjustment)."""
        both = list(itertools.combinations(range(len(self.labels)), 2))
        if not both:
            raise RequestError("pairs() needs at least two rows")
        L = np.array([self.L[i] - self.L[j] for i, j in both])
        labels = tuple(f"{self.labels[i]} - {self.labels[j]}" for i, j in both)
        return combine(self.record, L, np.zeros(len(L)), labels, self.level, "Difference")

    def table(self) -> Table:
        """Return the table."""
        low_name, high_name = inference.bound_names(self.level)
        cells = zip(
            self.labels, f.column(self.effect, 4), f.column(self.error, 4),
            f.tested(f.column(self.statistic, 2), self.untested),
            f.tested([f.p_value(p) for p in self.pvalue], self.untested),
            f.column(self.low, 4, self.high), f.column(self.high, 4, self.low), strict=True,
        )  # fmt: skip
        width = max(12, *(len(label) + 1 for label in self.labels))
        heads = (self.what, "Std. Error", "z", "P>|z|", low_name, high_name)
        columns = (Column(left=True, width=width), *(Column(h, width=10) for h in heads))
        notes = self.notes
        if self.record.estimate.bias is not None:
            notes = (*notes, "Intervals and p-values allow for the bias bound of the fit.")
        return Table(columns=columns, rows=tuple(map(Row, cells)), notes=notes, layout=_LAYOUT)

    def __repr__(self) -> str:
        return self.as_text()


def combine(
    record: Record, L: Array, q: Array, labels: tuple[str, ...], level: float, what: str,
    notes: tuple[str, ...] = (),
) -> Combinations:  # fmt: skip
    """Return estimates, errors and intervals of ``L b - q``; NaN where one is not determined."""
    from dataclasses import replace

    est = record.estimate
    V = inference.covariance(est)
    lost = np.isnan(np.diag(V))
    effect = L @ np.nan_to_num(np.asarray(est.params)) - q
    sd = np.sqrt(np.einsum("ij,jk,ik->i", L, np.nan_to_num(V), L))
    sd[(np.abs(L[:, lost]) > 0).any(axis=1)] = np.nan
    found = est.bias_of(L)
    bias = np.zeros(len(L)) if found is None else found
    untested = None
    if est.untested is not None:
        untested = np.asarray((np.abs(L[:, est.untested]) > 0).any(axis=1), dtype=bool)
    one = replace(
        est, names=labels, params=effect, vcov_sampling=np.diag(sd**2),
        vcov_privacy=np.zeros((len(L), len(L))), bias=found, bias_bound=None, untested=untested,
    )  # fmt: skip
    low, high = inference.conf_int(one, level)
    return Combinations(
        labels, L, effect, sd, bias, inference.statistics(one), inference.p_values(one), low, high,
        level, record, what, notes, inference.deciding(one), untested,
    )  # fmt: skip


def t_tests(record: Record, given: Any, level: float) -> Combinations:
    """Return one test a row of a hypothesis."""
    found = hypothesis_of(record, given)
    return combine(record, found.L, found.q, found.labels, level, "Estimate")


def contrast(record: Record, given: Any, level: float) -> Combinations:
    """Return weighted sums of coefficients: a mapping of weights, or of labels to such."""
    checked_errors(record)
    if not isinstance(given, Mapping) or not given:
        raise RequestError(
            "contrast takes weights by coefficient, {'age': 10, 'bmi': -1}, or several with "
            "labels, {'old': {'age': 10}, 'heavy': {'bmi': 5}}"
        )
    several = all(isinstance(v, Mapping) for v in given.values())
    listed = dict(given) if several else {"contrast": given}
    names = record.estimate.names
    rows = []
    for weights in listed.values():
        row = np.zeros(len(names))
        for name, w in weights.items():
            if name not in names:
                raise RequestError(
                    f"no coefficient {shown(name)}.{did_you_mean(name, names)} "
                    f"Coefficients: {', '.join(names)}"
                )
            if isinstance(w, bool) or not isinstance(w, (int, float)) or not np.isfinite(w):
                raise RequestError(f"the weight of {name!r} must be a number, got {shown(w)}")
            row[names.index(name)] = w
        rows.append(row)
    L = np.array(rows)
    hypothesis_of(record, L)
    return combine(record, L, np.zeros(len(L)), tuple(map(str, listed)), level, "Contrast")


def emmeans(
    fit: Fit, specs: Any, *, at: Mapping[str, Any] | None, what: str, level: float
) -> Combinations:
    """Return adjusted means over a public grid."""
    record = fit._record
    checked_errors(record)
    choice("what", what, ("link", "mean"))
    if isinstance(specs, str):
        wanted = [s.strip() for s in specs.replace("*", "+").replace(":", "+").split("+")]
    else:
        wanted = list(specs) if isinstance(specs, (list, tuple)) else []
    given = dict(at or {})
    known = predictors(fit)
    for name in [*wanted, *given]:
        if name not in known:
            raise RequestError(
                f"{shown(name)} is no predictor of this fit.{did_you_mean(name, known)} "
                f"Predictors: {', '.join(known)}"
            )
    if not wanted:
        raise RequestError(f"emmeans takes the name of a factor, as in emmeans({known[0]!r})")
    axes, middles = {}, []
    for name in known:
        axes[name], middle = _axis(fit, name, given.get(name), name in wanted)
        middles += [f"{name} = {middle:.4g}"] if middle is not None else []
    groups = list(itertools.product(*(axes[name] for name in wanted)))
    rest = [name for name in known if name not in wanted]
    others = list(itertools.product(*(axes[name] for name in rest)))
    if len(groups) * len(others) > 100_000:
        raise RequestError("the grid has more than 100 000 cells: hold some variables with at=")
    cells = [(*g, *o) for g in groups for o in others]
    grid = {name: [c[k] for c in cells] for k, name in enumerate([*wanted, *rest])}
    X = np.asarray(fit.design.matrix(grid), dtype=float)
    L = X.reshape(len(groups), len(others), -1).mean(axis=1)
    labels = tuple(", ".join(f"{n} = {v}" for n, v in zip(wanted, g, strict=True)) for g in groups)
    notes = ["Means over a public grid, equal weights to the levels of other factors."]
    if middles:
        notes.append(
            f"Held at the middle of its public range, or as at= says: {', '.join(middles)}."
        )
    link = fit.kind.link_name(fit.options)
    if link != "identity":
        scale = (
            "back-transformed (ends of intervals too)" if what == "mean" else "on the link scale"
        )
        notes.append(f"Link {link}: {scale}; averages are taken on the link scale.")
    found = combine(record, L, np.zeros(len(L)), labels, level, "Mean", tuple(notes))
    return found if what == "link" or link == "identity" else _on_mean(fit, found)


def _on_mean(fit: Fit, found: Combinations) -> Combinations:
    from dataclasses import replace

    from dpmodels.families import LINKS

    link = LINKS[fit.kind.link_name(fit.options)]
    return replace(
        found,
        effect=link.inverse(found.effect),
        sd=np.abs(link.slope(found.effect)) * found.sd,
        low=link.inverse(found.low),
        high=link.inverse(found.high),
    )


def predictors(fit: Fit) -> list[str]:
    """Return the variables of the right side."""
    program = fit.design.program
    used: set[str] = set()
    for product in program.products:
        for atom in product.atoms:
            used |= atom.source.variables
    return [name for name in fit.design.variables if name in used]


def _axis(fit: Fit, name: str, given: Any, wanted: bool) -> tuple[list[Any], float | None]:
    """Return the points of one variable of the grid, and the middle if it is held there."""
    variable = fit.design.schema[name]
    if given is not None:
        points = list(given) if isinstance(given, (list, tuple, np.ndarray)) else [given]
        bad = [p for p in points if variable.codes and p not in variable.codes]
        if bad:
            known = [str(c) for c in variable.codes]
            raise RequestError(
                f"at: {shown(bad[0])} is no level of {name!r}.{did_you_mean(str(bad[0]), known)}"
            )
        return points, None
    if variable.codes:
        return list(variable.codes), None
    if variable.kind == "binary":
        return [0, 1], None
    if wanted:
        raise RequestError(
            f"{name!r} is a number: say at which values, emmeans({name!r}, at={{{name!r}: [...]}})"
        )
    ends = variable.interval or interval_of(fit.design, name)
    if ends is None:
        raise RequestError(f"the range of {name!r} is not public: hold it, at={{{name!r}: value}}")
    middle = (float(ends[0]) + float(ends[1])) / 2.0
    return [middle], middle
