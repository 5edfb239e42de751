"""Joint intervals, adjusted P values, equivalence tests and sentences from released numbers.

Nothing here reads data. Let ``e_j = estimate_j - truth_j = bias_j + SE_j Z_j`` with ``|bias_j| <=
b_j`` and Z ~ N(0, R), R the correlation of the estimates. With q the level quantile of
``max_j |Z_j|``,

    |e_j| <= b_j + SE_j |Z_j| <= b_j + q SE_j   for all j at once, with probability ``level``.

Intervals of level ``1 - alpha / k`` hold together too (Bonferroni). :func:`widths_of` uses the way
with the smaller sum of widths. That choice depends on R, SE and b alone, not on the estimates.

R is exact for what one fit released. Where the covariance of blocks of estimates is not known it is
set to 0, which makes q too large, never too small (Royen 2014, Gaussian correlation inequality).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, check_among, choice, shown
from dpmodels.families import LINKS
from dpmodels.lazy import pd, special
from dpmodels.records import OPEN_ENDS, Estimate
from dpmodels.results import inference
from dpmodels.results.record import Record
from dpmodels.tables.content import Column
from dpmodels.tables.numbers import by_row, places
from dpmodels.tables.table import Result, Table, forest, named_rows
from dpmodels.verbs import verb_of

#: Points on the sphere by which a quantile is computed, and how many are held at once.
_POINTS, _AT_ONCE = 8192, 512
#: Fractions of this number shift the Sobol points, so that none is at 0.
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
#: With more intervals than this the quantile is bounded by Sidak and Scheffe instead of computed.
_MOST_COMPUTED = 5000
#: Names printed in a note before "and 3 more".
_LISTED = 6


# -- The quantile of the largest of several correlated normals.


def joint_quantile(factor: Array, level: float, use_t: float | None = None) -> float:
    """Return q with ``P(max_j |Z_j| <= q) = level`` for ``Z_j = factor_j' g / |factor_j|``.

    Let r be the rank. A normal vector g is a length ``rho`` times a direction u, which are
    independent, so ``P(max |Z_j| <= q) = E F_r(q^2 / m(u)^2)`` with ``m(u) = max_j |a_j' u|`` and
    F_r the distribution function of chi-square with r degrees of freedom (with a t reference: of r
    times F). The mean over u is taken at fixed quasi-random points, so that the same fit always
    gives the same q.

    Parameters
    ----------
    factor : array, (k, p)
        Rows whose inner products are the covariance of the k estimates.
    level : float
    use_t : float, optional
        Degrees of freedom of a t reference.

    Returns
    -------
    float
        Between the quantile of one interval and that of k independent ones.
    """
    z = inference.quantile(level, use_t)
    k = len(factor)
    if k < 2:
        return z
    rows = factor / np.linalg.norm(factor, axis=1, keepdims=True)
    _, sizes, turn = np.linalg.svd(rows, full_matrices=False)
    rank = int((sizes > sizes[0] * 1e-10).sum())
    rows = rows @ turn[:rank].T
    sidak = inference.quantile(level ** (1.0 / k), use_t)
    if use_t is None:
        scheffe = math.sqrt(float(special.chdtri(rank, 1.0 - level)))
    else:
        scheffe = math.sqrt(rank * float(special.fdtri(rank, use_t, level)))
    most = max(z, min(sidak, scheffe))
    if k > _MOST_COMPUTED or rank == 1:
        return z if rank == 1 else most
    longest = _largest(rows)

    def covered(q: float) -> float:
        square = (q / longest) ** 2
        if use_t is None:
            return float(np.mean(special.chdtr(rank, square))) - level
        return float(np.mean(special.fdtr(rank, use_t, square / rank))) - level

    low, high = z, most
    while high - low > 1e-8:
        middle = (low + high) / 2.0
        low, high = (middle, high) if covered(middle) < 0.0 else (low, middle)
    return high


def _largest(rows: Array) -> Array:
    """Return ``max_j |a_j' u|`` at fixed points u of the unit sphere, (points,)."""
    from scipy.stats import qmc

    d = rows.shape[1]
    points = qmc.Sobol(d, scramble=False).random(_POINTS)
    points = np.mod(points + np.mod(np.arange(1, d + 1) * _GOLDEN, 1.0) + 0.5 / _POINTS, 1.0)
    normal = special.ndtri(np.clip(points, 1e-12, 1.0 - 1e-12))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    parts = (normal[at : at + _AT_ONCE] for at in range(0, _POINTS, _AT_ONCE))
    largest = np.concatenate([np.abs(part @ rows.T).max(axis=1) for part in parts])
    return np.maximum(largest, 1e-300)


def factor_of(V: Array) -> Array:
    """Return (k, k) rows whose inner products are a covariance; tiny negative parts are cut."""
    values, axes = np.linalg.eigh((V + V.T) / 2.0)
    return np.asarray(axes * np.sqrt(np.maximum(values, 0.0)))


@dataclass(frozen=True)
class Widths:
    """Half widths of intervals that hold together."""

    half: Array  # (k,) half widths, NaN where there is no error
    count: int  # Intervals that hold together
    critical: float  # Multiple of the standard error
    each: float  # Level of each interval alone under Bonferroni, NaN otherwise


def widths_of(
    se: Array, bias: Array | None, factor: Array | None, level: float, use_t: float | None = None
) -> Widths:
    """Return half widths of joint intervals, by the largest of k normals or by Bonferroni.

    Parameters
    ----------
    se : array, (k,)
        Standard errors, NaN where there is none.
    bias : array, (k,), optional
        Bounds of the bias.
    factor : array, (k, p), optional
        Rows whose inner products are the covariance. None: not known, so Bonferroni is used.
    level : float
    use_t : float, optional
        Degrees of freedom of a t reference.
    """
    finite = np.isfinite(se)
    k = int(finite.sum())
    plain = inference.half_width(se, bias, level, use_t)
    z = inference.quantile(level, use_t)
    if k < 2:
        return Widths(plain, k, z, math.nan)
    each = 1.0 - (1.0 - level) / k
    split = inference.half_width(se, bias, each, use_t)
    by_split = Widths(split, k, inference.quantile(each, use_t), each)
    if factor is None:
        return by_split
    moves = finite & (se > 0.0)
    q = joint_quantile(factor[moves], level, use_t) if moves.any() else z
    # a t reference widens the part of the bias too, as in a plain interval
    allowed = 0.0 if bias is None else np.nan_to_num(bias) * (z / inference.quantile(level))
    together = Widths(np.maximum(allowed + q * se, plain), k, q, math.nan)
    return together if np.nansum(together.half) <= np.nansum(split) else by_split


def _names(names: Sequence[str]) -> str:
    others = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + others


def note_of(
    widths: Widths, level: float, *, biased: bool, not_tested: Sequence[str] = (),
    of: str = "intervals", tests: bool = True,
) -> str:  # fmt: skip
    """Return the sentence on the joint statement and its exceptions."""
    counted = widths.count - len(not_tested)
    if widths.count == 0:
        return "No interval: this fit has no total standard errors."
    if widths.count < 2:
        return f"One interval: the joint {100 * level:g} % interval is the plain one."
    way = (
        f"each at level {100 * widths.each:.4g} % (Bonferroni)"
        if math.isfinite(widths.each)
        else f"estimate -+ {'(b + ' * biased}{widths.critical:.3f} SE{')' * biased}"
        f"{', b the bound of the bias' * biased}"
    )
    note = f"The {counted} {of} hold together with probability {100 * level:g} %: {way}."
    if not_tested:
        note += f" Not among them, as they are not determined (n/d): {_names(not_tested)}."
    return note + (" P is of each row alone." if tests else "")


# -- Joint intervals of coefficients, combinations, tables, predictions and curves.


def conf_int(est: Estimate, level: float) -> tuple[Array, Array, str]:
    """Return lower and upper ends of joint intervals of all coefficients, and their note.

    Coefficients without a standard error have no interval. Those that are not tested count towards
    k, so that the choice of the others is not a choice by the data, but the note does not claim
    that their intervals hold.
    """
    V, se = inference.covariance(est), inference.standard_errors(est)
    finite = np.isfinite(se)
    inside = V[np.ix_(finite, finite)]
    factor = None
    if np.isfinite(inside).all():
        factor = np.zeros((len(se), int(finite.sum())))
        factor[finite] = factor_of(inside)
    widths = widths_of(se, est.bias, factor, level, est.use_t)
    side = est.arrays.get(OPEN_ENDS, np.zeros(len(se)))
    low = np.where(side < 0.0, -np.inf, est.params - widths.half)
    high = np.where(side > 0.0, np.inf, est.params + widths.half)
    gone = np.zeros(len(se), dtype=bool) if est.untested is None else est.untested & finite
    biased = est.bias is not None and bool((np.nan_to_num(est.bias) > 0.0).any())
    return low, high, note_of(widths, level, biased=biased, not_tested=_which(est.names, gone))


def ends_of(record: Record, level: float) -> tuple[Array, Array, str]:
    """Return lower and upper ends of joint intervals of a result of any kind, and their note."""
    tidy = verb_of(record.call.verb).load("tidy") if record.estimate.released else None
    if tidy is None:
        return conf_int(record.estimate, level)
    each, note = level_of(record, level)
    frame = tidy(record, True, each)
    return frame["conf_low"].to_numpy(), frame["conf_high"].to_numpy(), note


def _rounded(each: float) -> float:
    """Return a level with two digits of its tail, rounded so that the interval is not narrower."""
    tail = 1.0 - each
    unit = 10.0 ** (math.floor(math.log10(tail)) - 1)
    return 1.0 - math.floor(tail / unit * (1.0 + 1e-9)) * unit


def level_of(record: Record, level: float) -> tuple[float, str]:
    """Return the level at which each interval of survival curves is printed, and a note.

    It corresponds to the quantile of the largest of all released points, on the scale of log
    survival. Other results with their own kind of intervals are refused.
    """
    verb, est = verb_of(record.call.verb), record.estimate
    load = verb.load("tidy")
    assert load is not None
    frame = load(record, True, level)
    k = int(np.isfinite(frame["conf_low"].to_numpy(dtype=float)).sum())
    if verb.kind != "SurvivalCurves":
        each = 1.0 - (1.0 - record.call.level) / max(k, 1)
        raise RequestError(
            f"joint= is not for results of {verb.name}. Type level={_rounded(each):g} in the call: "
            f"its {k} intervals then hold together with probability {100 * record.call.level:g} %"
        )
    if k < 2:
        return level, note_of(Widths(np.zeros(k), k, 0.0, math.nan), level, biased=False)
    each = 1.0 - (1.0 - level) / k
    S, V = np.asarray(est.params), inference.covariance(est)
    moves = (S > 0.0) & (np.diag(V) > 0.0)
    inside = V[np.ix_(moves, moves)] / np.outer(S[moves], S[moves])
    if moves.any() and np.isfinite(inside).all():
        q = joint_quantile(factor_of(inside), level)
        each = max(min(2.0 * float(special.ndtr(q)) - 1.0, each), level)
    each = _rounded(each)
    return each, (
        f"{100 * level:g} % joint bands: the true curves are inside at all {k} released points of "
        f"all groups together with this probability. Each interval alone is of {100 * each:g} %."
    )


def joined(means: Any, adjust: Any = None) -> Any:
    """Return combinations with joint intervals for all rows; P of each row alone."""
    if adjust not in (None, "none"):
        raise RequestError(
            f"joint=True and adjust={shown(adjust)} are two adjustments of the same intervals. "
            "Give one of them"
        )
    est, link = means.record.estimate, link_of(means)
    at, sd = on_link(means, link)
    V = np.nan_to_num(inference.covariance(est))
    factor = None if means.extra is not None else means.L @ factor_of(V)
    bias = None if est.bias is None else means.bias
    widths = widths_of(sd, bias, factor, means.level, est.use_t)
    gone = np.isfinite(sd) & (False if means.untested is None else means.untested)
    note = note_of(
        widths, means.level, biased=bias is not None and bool((bias > 0.0).any()),
        not_tested=_which(means.labels, gone), tests=means.on_scale is None,
    )  # fmt: skip
    low, high = (np.asarray(link.inverse(at + sign * widths.half)) for sign in (-1.0, 1.0))
    # the last note is that of an adjustment, which joint intervals replace
    notes = means.notes if means.adjust == "none" else means.notes[:-1]
    out = replace(means, low=low, high=high, notes=notes, joint=note, adjust="none")
    if means.on_scale is not None:
        return out
    alone = replace(
        est, names=means.labels, params=at, vcov_sampling=np.diag(sd**2),
        vcov_privacy=np.zeros((len(sd), len(sd))), bias=bias, bias_bound=None,
        untested=means.untested,
    )  # fmt: skip
    return replace(out, pvalue=inference.p_values(alone))


def _which(names: Sequence[str], chosen: Any) -> list[str]:
    """Return the names at which a mask is true."""
    return [name for name, yes in zip(names, chosen, strict=True) if yes]


def on_link(means: Any, link: Any) -> tuple[Array, Array]:
    """Return estimates and standard errors on the scale on which they were averaged."""
    if means.on_scale is None:
        return means.effect, means.sd
    with np.errstate(divide="ignore", invalid="ignore"):
        return means.on_scale, means.sd / np.abs(link.slope(means.on_scale))


def link_of(means: Any) -> Any:
    """Return the link on whose scale means were averaged, the identity if on that of L."""
    call = means.record.call
    name = verb_of(call.verb).link_name(call.options) if means.on_scale is not None else "identity"
    return LINKS[name]


# -- P values of several tests.


#: Adjustments of P values, by the names of R's p.adjust, and what a note calls them.
P_ADJUST = {
    "bonferroni": "Bonferroni",
    "holm": "Holm",
    "BH": "Benjamini and Hochberg",
    "BY": "Benjamini and Yekutieli",
}


def adjusted_p(p: Any, adjust: str) -> Array:
    """Return P values adjusted for their number; NaN stays and is not counted.

    Parameters
    ----------
    p : array, (k,)
    adjust : {"BH", "BY", "holm", "bonferroni"}
        The first two bound the expected share of false rejections, BY under any dependence. The
        others bound the probability of any false rejection.
    """
    choice("adjust", adjust, tuple(P_ADJUST))
    values = np.array(p, dtype=float)
    tested = np.flatnonzero(np.isfinite(values))
    k = len(tested)
    order = tested[np.argsort(values[tested], kind="stable")]
    sorted_p, rank = values[order], np.arange(1, k + 1)
    if adjust == "bonferroni":
        out = sorted_p * k
    elif adjust == "holm":
        out = np.maximum.accumulate(sorted_p * (k + 1 - rank))
    else:
        penalty = float(np.sum(1.0 / rank)) if adjust == "BY" else 1.0
        out = np.minimum.accumulate((sorted_p * penalty * k / rank)[::-1])[::-1]
    values[order] = np.minimum(out, 1.0)
    return values


def adjusted_note(adjust: str, count: int, of: str) -> str:
    """Return the sentence on adjusted P values."""
    return f"P adjusted by {P_ADJUST[adjust]} for {count} {of}; intervals are not."


def tidy_together(
    record: Record, frame: pd.DataFrame, level: float, scale: Any, joint: bool, adjust: str | None
) -> pd.DataFrame:
    """Return a tidy frame with joint intervals, adjusted P values, or both.

    Parameters
    ----------
    frame : DataFrame
        The plain one, with Python's names of columns.
    scale : {False, "exp"}
        Scale of its ends.
    """
    if joint:
        low, high, note = ends_of(record, level)
        if "conf_low" in frame:
            exp = np.exp if scale else np.asarray
            frame["conf_low"], frame["conf_high"] = exp(low), exp(high)
        frame.attrs["joint"] = note
    if adjust is None:
        return frame
    choice("adjust", adjust, tuple(P_ADJUST))
    if "p_value" not in frame.columns:
        raise RequestError("adjust= needs P values, which this result does not have")
    p = frame["p_value"].to_numpy(dtype=float)
    single = verb_of(record.call.verb).kind == "TestResult"  # one test, whose rows are groups
    frame["p_value"] = p if single else adjusted_p(p, adjust)
    count = 1 if single else int(np.isfinite(p).sum())
    frame.attrs["adjust"] = adjusted_note(adjust, count, "rows" if count > 1 else "test")
    return frame


def adjusted_of_fits(
    fits: Sequence[Any], names: Sequence[str], adjust: str
) -> tuple[list[Array], str]:
    """Return P values adjusted over the shown coefficients of each fit, or over all tests.

    A table holds fits with coefficients, or tests (``dp_test``), not both. Each array has one P per
    row of the fit's ``tidy()``, NaN where it is not shown or not tested. The note comes second.
    """
    choice("adjust", adjust, tuple(P_ADJUST))
    are_tests = [fit.kind.kind == "TestResult" for fit in fits]
    if all(are_tests):
        together = adjusted_p([fit.pvalue for fit in fits], adjust)
        note = adjusted_note(adjust, len(fits), "tests" if len(fits) > 1 else "test")
        return [np.full(len(f.tidy()), p) for f, p in zip(fits, together, strict=True)], note
    if any(are_tests):
        raise RequestError("adjust= needs a table of tests, or one of fits, not both together")
    shown_names, tests = {inference.plain_name(name) for name in names}, []
    for fit in fits:
        seen = [inference.plain_name(n) in shown_names for n in fit._record.estimate.names]
        p = np.where(seen, inference.p_values(fit._record.estimate), np.nan)
        tests.append(adjusted_p(p, adjust))
    return tests, f"P adjusted by {P_ADJUST[adjust]} over the shown coefficients of each fit."


# -- Equivalence and non-inferiority: two one-sided tests (Schuirmann 1987).


@dataclass(frozen=True, eq=False, repr=False)
class Equivalence(Result):
    """Two one-sided tests that effects are inside public margins.

    The bias bound b is taken against each claim: ``P(above low) = P(Z >= (estimate - b - low)/SE)``
    and ``P(below high) = P(Z <= (estimate + b - high)/SE)``. Equivalence needs both, so its P is
    the larger one.
    """

    labels: tuple[str, ...]
    effect: Array  # (k,) estimates
    sd: Array  # (k,) standard errors, on the scale of the estimates
    # above, below: (k,) P of the claims "more than low" and "less than high", NaN if not tested
    above: Array
    below: Array
    # low, high: margins, infinite if only the other one is claimed
    low: float
    high: float
    level: float
    what: str  # Header of the estimates
    # ends: (k, 2) intervals of level 1 - 2 alpha, which are inside the margins if both claims hold
    ends: Array
    notes: tuple[str, ...] = ()

    @property
    def pvalue(self) -> Array:
        """Return (k,) P values of the whole claim, the larger of the two."""
        parts = [p for p, end in ((self.above, self.low), (self.below, self.high))
                 if math.isfinite(end)]  # fmt: skip
        return np.asarray(np.max(parts, axis=0))

    @property
    def claim(self) -> str:
        """Sentence that states the tested claim."""
        if math.isinf(self.high):
            return f"above {self.low:g}"
        if math.isinf(self.low):
            return f"below {self.high:g}"
        return f"between {self.low:g} and {self.high:g}"

    def verdicts(self) -> tuple[str, ...]:
        """Return the verdict on each row: the claim, "not shown" or "not determined"."""
        level, words = 1.0 - self.level, {True: self.claim, False: "not shown"}
        return tuple("not determined" if p != p else words[bool(p <= level)] for p in self.pvalue)

    def tidy(self) -> pd.DataFrame:
        """Return one row per effect, with both one-sided P values and the verdict."""
        return pd.DataFrame(
            {
                "term": list(self.labels), "estimate": self.effect, "std_error": self.sd,
                "conf_low": self.ends[:, 0], "conf_high": self.ends[:, 1],
                "p_value_above": self.above, "p_value_below": self.below,
                "p_value": self.pvalue, "verdict": list(self.verdicts()),
            }
        )  # fmt: skip

    def table(self) -> Table:
        """Return the printed table: effects, both one-sided P values, and the verdict."""
        few = places(self.sd, 4)
        inner = 1.0 - 2.0 * (1.0 - self.level)
        low_name, high_name = inference.bound_names(inner)
        numbers = ((self.what, self.effect), ("Std. Error", self.sd), (low_name, self.ends[:, 0]),
                   (high_name, self.ends[:, 1]))  # fmt: skip
        spec: Any = [(head, by_row(values, few, 4)) for head, values in numbers]
        tests = (("P above", self.above, self.low), ("P below", self.below, self.high))
        for head, values, end in tests:
            if math.isfinite(end):
                spec.append((head, ["n/d" if p != p else inference.p_value(p) for p in values]))
        verdicts = self.verdicts()
        last = Column("  Verdict", left=True, width=max(map(len, verdicts)) + 2)
        spec.append((last, [f"  {v}" for v in verdicts]))
        both = math.isfinite(self.low) and math.isfinite(self.high)
        title = f"{'Equivalence' if both else 'Non-inferiority'}: {self.claim}"
        return named_rows(self.labels, spec, title=title, notes=self.notes)

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the effects with their intervals, and the margins (needs matplotlib)."""
        axes = forest(self.tidy(), ax, **{"xlabel": self.what.lower(), "zero": None, **style})
        for end in (self.low, self.high):
            if math.isfinite(end):
                axes.axvline(end, color="0.3", linestyle="--", linewidth=1.0)
        return axes


def margins_of(typed: Any) -> tuple[float, float]:
    """Return the two margins as numbers, or refuse them. None stands for an infinite margin."""
    ends = list(typed) if isinstance(typed, (list, tuple, np.ndarray)) else []
    sides = [
        float(end) if isinstance(end, (int, float)) and not isinstance(end, bool)
        else empty if end is None else math.nan
        for end, empty in zip(ends, (-math.inf, math.inf), strict=False)
    ]  # fmt: skip
    good = len(ends) == 2 and sides[0] < sides[1] and (
        math.isfinite(sides[0]) or math.isfinite(sides[1])
    )  # fmt: skip
    if not good:
        raise RequestError(
            f"equivalence={shown(typed)}: give two margins, equivalence=(-0.5, 0.5), or one for "
            "non-inferiority, equivalence=(-0.5, None)"
        )
    return sides[0], sides[1]


def equivalence(means: Any, margins: Any, level: float | None = None) -> Equivalence:
    """Test that combinations are inside margins; rows that are not determined have no P."""
    low, high = margins_of(margins)
    level = means.level if level is None else level
    inference.quantile(level)
    if level <= 0.5:
        raise RequestError(f"level={shown(level)} must be above 0.5: tests are at 1 - level")
    est, link = means.record.estimate, link_of(means)
    at, sd = on_link(means, link)

    def below(x: Array) -> Array:
        return np.asarray(special.ndtr(x) if est.use_t is None else special.stdtr(est.use_t, x))

    gone = ~np.isfinite(sd) | (False if means.untested is None else means.untested)
    tails = []
    for sign, end in ((-1.0, low), (1.0, high)):
        if not math.isfinite(end):
            tails.append(np.where(gone, np.nan, 0.0))
            continue
        distance = sign * (at - _on_link(link, end)) + means.bias
        with np.errstate(divide="ignore", invalid="ignore"):
            tails.append(np.where(gone, np.nan, below(distance / sd)))
    half = inference.quantile(1.0 - 2.0 * (1.0 - level), est.use_t) * sd + means.bias
    ends = np.column_stack([link.inverse(at - half), link.inverse(at + half)])
    notes = [
        f"Two one-sided tests at {100 * (1.0 - level):g} % (TOST). The claim holds where the "
        f"interval, estimate -+ (b + {inference.quantile(2.0 * level - 1.0, est.use_t):.3f} SE), "
        "is inside the margins; b is the bound of the bias."
        if math.isfinite(low) and math.isfinite(high)
        else f"One-sided test at {100 * (1.0 - level):g} %, with the bound of the bias against the "
        "claim."
    ]
    if gone.any():
        listed = _which(means.labels, gone)
        notes.append(f"n/d: not determined at this budget: {_names(listed)}.")
    return Equivalence(
        means.labels, means.effect, means.sd, tails[0], tails[1], low, high, level, means.what,
        ends, (*means.notes, *notes),
    )  # fmt: skip


def _on_link(link: Any, end: float) -> float:
    """Return a margin on the scale of the link; beyond the range of a mean it is infinite."""
    try:
        return float(link.forward(end))
    except (ValueError, ZeroDivisionError):
        return -math.inf if end <= 0.0 else math.inf


# -- A sentence for running text.


def inline(
    record: Record, name: Any, *, level: float, exponentiate: bool, digits: int, labels: Any = None
) -> str:
    """Return ``"0.36 (95 % CI 0.31 to 0.41, P < .001)"`` for one coefficient."""
    est = record.estimate
    if not est.released:
        raise NotReleasedError("this fit got no reply, so it has no estimates to print")
    if isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= 12:
        raise RequestError(f"digits={shown(digits)}: must be an int from 1 to 12")
    plain = {inference.plain_name(n): n for n in est.names}
    chosen = name if name in est.names else plain.get(str(name), name)
    check_among(chosen, est.names, f"no coefficient {shown(name)}", "Coefficients:")
    j = est.names.index(chosen)
    low, high = inference.conf_int(est, level)
    p = inference.p_values(est)[j]
    values = np.array([est.params[j], low[j], high[j]])
    error = inference.standard_errors(est)[j]
    if exponentiate:
        values = np.exp(values)
        error *= abs(values[0])
    few = places([error], digits)[0]
    middle, lower, upper = by_row(values, [few] * 3, digits)
    untested = est.untested is not None and bool(est.untested[j])
    if not math.isfinite(error):
        return f"{middle} (no interval: not determined at this budget)"
    tail = "not determined at this budget" if untested else in_text(p)
    return f"{middle} ({100 * level:g} % CI {lower} to {upper}, {tail})"


def in_text(p: float) -> str:
    """Return a P value for running text: ``P < .001``, ``P = .012``."""
    if math.isnan(p):
        return "no P"
    if p < 0.001:
        return "P < .001"
    return "P = " + f"{p:.3f}".replace("0.", ".", 1) if p < 0.9995 else "P > .999"
