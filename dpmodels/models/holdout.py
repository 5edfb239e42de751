"""A score or a diagnosis of a fit on further rows: plan, release, and report."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpmodels.after.inference import auc, auc_set, roc
from dpmodels.after.moments import noisy_mean
from dpmodels.arrays import Array
from dpmodels.core.release import Release, answered
from dpmodels.core.rows import Rows, clip, complete, linear, where
from dpmodels.core.tallies import ByBin, Losses, MarksOfComplete, OneOf
from dpmodels.errors import NotReleasedError
from dpmodels.formula.design import Design
from dpmodels.lazy import pd, special
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step, mu_gdp
from dpmodels.proof.prove import noise_of
from dpmodels.sums.ask import Ask
from dpmodels.tables.content import Column
from dpmodels.tables.numbers import MISSING, cell, places, spread_of
from dpmodels.tables.table import AS_WIDE, Result, Table, forest, grid, named_rows, new_axes

# -- What one row gives to the sums of a score or a diagnosis: a formula, and the set it ends in


@dataclass(frozen=True, eq=False)
class Predictor:
    """The released fit as a map of a row to its prediction: public."""

    params: Array  # (p,)
    mean: Callable[[Any], Any]  # Inverse link

    def both(self, z: Rows) -> tuple[Any, Any, Any]:
        """Return prediction, response, and whether both are there."""
        seen, y = self.mean(linear(self.params[None], z[: len(self.params)])), z[-1]
        return seen, y, np.isfinite(seen) & np.isfinite(y)


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Counts of (class, bin of the prediction): one cell of 2K a complete row, events last."""

    predictor: Predictor
    edges: Array  # (K - 1,): between the bins

    @property
    def into(self) -> OneOf:
        """One cell a row, or none."""
        return OneOf(2 * (len(self.edges) + 1))

    def formula(self, z: Rows) -> Rows:
        """Return the cell of a row."""
        seen, y, complete_row = self.predictor.both(z)
        place = np.searchsorted(self.edges, seen, "right")
        return where(complete_row, place + (len(self.edges) + 1) * (y > 0.5), np.nan)


@dataclass(frozen=True, eq=False)
class LossSums:
    """``sum (1, t, t^2)`` over complete rows, t in [0, 1]: a loss over its clip."""

    predictor: Predictor
    loss: str
    clip: float  # Losses beyond it count as it

    into = Losses()

    def formula(self, z: Rows) -> Rows:
        """Return t."""
        seen, y, complete_row = self.predictor.both(z)
        if self.loss == "log":
            p = where(y > 0.5, seen, 1.0 - seen)
            loss = -np.log(clip(p, math.exp(-self.clip), 1.0))
        else:
            loss = (y - seen) ** 2
        return where(complete_row, loss / self.clip, np.nan)


@dataclass(frozen=True, eq=False)
class AtBounds:
    """For each column: complete rows whose cell is at an end of its range; then complete rows."""

    # low, high: (d,) arrays
    low: Array
    high: Array
    rows: Array  # (d,): indices in the block

    @property
    def into(self) -> MarksOfComplete:
        """Indicators, and the count."""
        return MarksOfComplete(len(self.low))

    def formula(self, z: Rows) -> tuple[Rows, Rows]:
        """Return which cells are at an end, and whether the row is complete."""
        cells = z[self.rows.tolist()]
        return (cells <= self.low) | (cells >= self.high), complete(z)


@dataclass(frozen=True, eq=False)
class BinnedResiduals:
    """``(1_k, t 1_k)`` by bin k of the prediction, t in [-1, 1]: residuals over their clip."""

    predictor: Predictor
    edges: Array  # (K - 1,)
    clip: float

    @property
    def into(self) -> ByBin:
        """(1, t) of the bin of a row."""
        return ByBin(len(self.edges) + 1)

    def formula(self, z: Rows) -> tuple[Rows, Rows]:
        """Return the bin of a row, and t."""
        seen, y, complete_row = self.predictor.both(z)
        place = where(complete_row, np.searchsorted(self.edges, seen, "right"), np.nan)
        return place, (y - seen) / self.clip


Sums = ClassCounts | LossSums | AtBounds | BinnedResiduals


@dataclass(frozen=True, eq=False)
class HoldoutPlan:
    """Everything public about a release on held-out rows."""

    design: Design  # Design of the fit
    n: int
    sums: tuple[Sums, ...]  # One a step
    guarantee: Guarantee
    advice: tuple[str, ...] = ()


def plan_holdout(
    design: Design, n: int, parts: dict[str, tuple[Sums, float]], eps: float, delta: float
) -> HoldoutPlan:
    """Plan the release of some sums; ``parts``: step -> (sums, share of the budget)."""
    steps = []
    for name, (_, share) in parts.items():
        if delta > 0:
            steps.append(Step(name, Gaussian(mu_gdp(eps, delta) * math.sqrt(share)), share=share))
        else:
            steps.append(Step(name, Pure(eps * share), share=share))
    guarantee = Guarantee(tuple(steps), eps, delta, "replace")
    return HoldoutPlan(design, n, tuple(part for part, _ in parts.values()), guarantee)


def noise_sd(plan: HoldoutPlan, k: int) -> float:
    """Return the noise sd of each cell of the k-th sums, in their own units."""
    part, mechanism = plan.sums[k], plan.guarantee.steps[k].mechanism
    scale = float(noise_of(part.into.statistic, mechanism, plan.guarantee.relation)[0])
    return math.sqrt(2.0) * scale if isinstance(mechanism, Pure) else scale


def release(plan: HoldoutPlan, ask: Ask) -> tuple[Array, ...]:
    """Release the sums of the plan. One pass; alone in seeing rows.

    **Privacy.** Unit: one row; replace-one, n public. Sensitivities: ``holdout.md``, exact in
    integers.
    """
    pairs = zip(plan.guarantee.steps, plan.sums, strict=True)
    releases = (Release(step.name, part.into, part.formula, plan.design) for step, part in pairs)
    return tuple(noisy.values for noisy in answered(tuple(releases), ask))


# -- What a score or a diagnosis shows. Sees no row.




@dataclass(frozen=True, eq=False, repr=False)
class Score(Result):
    """Performance on held-out rows, as a separate release."""

    metric: str  # {"auc", "logloss", "rmse"}
    # value, se, se_privacy, se_sampling: naN where the held-out rows are too few for the budget.
    value: float
    se: float
    se_privacy: float
    se_sampling: float
    privacy: Guarantee
    # edges, n1, n0: AUC: edges of the bins of the prediction, released counts of events and others.
    edges: Array = field(default_factory=lambda: np.zeros(0))
    n1: Array = field(default_factory=lambda: np.zeros(0))
    n0: Array = field(default_factory=lambda: np.zeros(0))
    tau: float = 0.0  # Noise sd of a count
    notes: tuple[str, ...] = ()

    def conf_int(self, level: float = 0.95) -> tuple[float, float]:
        """Return value -+ normal quantile times the total standard error; for an AUC a set.

        The set of an AUC (:func:`dpmodels.after.inference.auc_set`) is there and right also where
        events are so few that no value is shown.
        """
        z = -float(special.ndtri((1.0 - level) / 2.0))
        if len(self.n1):
            return auc_set(self.n1, self.n0, self.tau, z)
        half = z * self.se
        return self.value - half, self.value + half

    def _require_counts(self) -> None:
        if not len(self.n1):
            raise NotReleasedError(f"metric={self.metric!r} released no counts: use metric='auc'")

    def roc(self) -> pd.DataFrame:
        """Return the ROC curve: columns ``threshold, fpr, tpr``, made monotone."""
        self._require_counts()
        false, true = roc(self.n1, self.n0)
        thresholds = np.append(math.inf, np.append(self.edges[::-1], -math.inf))
        return pd.DataFrame({"threshold": thresholds, "fpr": false, "tpr": true})

    def calibration(self) -> pd.DataFrame:
        """Return the share of events by bin of the prediction, with its error."""
        self._require_counts()
        total = self.n1 + self.n0
        rows = []
        for k, (events, all_) in enumerate(zip(self.n1, total, strict=True)):
            low = self.edges[k - 1] if k else 0.0
            high = self.edges[k] if k < len(self.edges) else 1.0
            share, error = math.nan, math.nan
            if all_ > 3.0 * math.sqrt(2.0) * self.tau:
                share = float(np.clip(events / all_, 0.0, 1.0))
                noise = self.tau**2 * ((1 - share) ** 2 + share**2)
                error = math.sqrt(noise / all_**2 + share * (1 - share) / all_)
            rows.append((low, high, share, error, all_))
        return pd.DataFrame(rows, columns=["low", "high", "share", "std_error", "rows"])

    def table(self) -> Table:
        """Return the printed table: metric, value, its errors and 95 % interval."""
        low, high = self.conf_int()
        (few,) = places([self.se if math.isfinite(self.se) else spread_of(low, high)], 4)
        numbers = (self.value, self.se, self.se_sampling, self.se_privacy, low, high)
        cells = ([cell(x, few, 4) if math.isfinite(x) else MISSING] for x in numbers)
        heads = ("Value", "Std. Error", "sampling", "privacy", "2.5 %", "97.5 %")
        notes = (*self.notes, f"Privacy: {self.privacy.statement()}.")
        columns = list(zip(heads, cells, strict=True))
        return named_rows([self.metric], columns, least=9, width=9, notes=notes)

    def tidy(self) -> pd.DataFrame:
        """Return one row, broom's column names."""
        low, high = self.conf_int()
        row = (self.metric, self.value, self.se, self.se_sampling, self.se_privacy, low, high)
        heads = ["term", "estimate", "std_error", "std_error_sampling", "std_error_privacy",
                 "conf_low", "conf_high"]  # fmt: skip
        return pd.DataFrame([row], columns=heads)

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the ROC curve of an AUC, else the value with its interval (needs matplotlib)."""
        if not len(self.n1):
            return forest(self.tidy(), ax, xlabel=self.metric, zero=None, **style)
        ax, curve = new_axes(ax, (4.4, 4.2)), self.roc()
        ax.plot(curve["fpr"], curve["tpr"], **{"color": "C0", **style})
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
        ax.set(xlabel="false positive rate", ylabel="true positive rate")
        low, high = self.conf_int()
        ax.set_title(f"AUC {self.value:.3f} [{low:.3f}, {high:.3f}]", fontsize="small")
        return ax


_SAME = "Rows that were in the fit too are protected by the sum of both budgets."
_FEW = "Too few rows of some class for this budget: no value, only an interval."
_SEEN_NOTE = (
    "A value is shown if both classes exceed the noise. With few events these are often fits "
    "whose value the noise raised. Intervals cover over all fits, shown or not."
)


def auc_score(promise: Guarantee, counts: Array, edges: Array, tau: float) -> Score:
    """Return the AUC from released counts (others first)."""
    k = len(edges) + 1
    n0, n1 = counts[:k], counts[k:]
    area = auc(n1, n0, tau)
    notes = [f"Predictions in {k} bins; ties within a bin count one half.", _SAME]
    notes += [_FEW] if math.isnan(area.value) else [_SEEN_NOTE]
    return Score("auc", area.value, area.se, area.se_privacy, area.se_sampling, promise,
                 edges, n1, n0, tau, tuple(notes))  # fmt: skip


def loss_score(metric: str, promise: Guarantee, sums: Array, clip: float, tau: float) -> Score:
    """Return a mean loss (its root for "rmse") from released sums."""
    count, total, square = (float(s) for s in sums)
    average = noisy_mean(count, total, square, tau)
    value, factor = average.value * clip, clip
    if metric == "rmse" and not math.isnan(value):
        value = math.sqrt(max(value, 0.0))
        factor = clip / max(2.0 * value, 1e-12)
    what = "Squared errors" if metric == "rmse" else "Losses"
    notes = [f"{what} beyond {clip:.4g} count as that (clip=).", _SAME]
    notes += ["Too few rows for this budget: no value."] if math.isnan(value) else []
    return Score(metric, value, average.se * factor, average.se_privacy * factor,
                 average.se_sampling * factor, promise, tau=tau, notes=tuple(notes))  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Result):
    """Shares at the bounds and missing, and residual means by bin of the prediction."""

    # complete, complete_se: share of complete rows.
    complete: float
    complete_se: float
    # Per column: share of complete rows at an end of the range (clipped, or exactly there).
    bounds: Any
    residuals: Any  # Per bin of the prediction: rows, mean residual, its noise and total error, z
    privacy: Guarantee
    notes: tuple[str, ...] = ()

    def table(self) -> Table:
        """Return both tables."""

        def text(x: float, error: float) -> str:
            (few,) = places([error], 4)
            return "" if math.isinf(x) else cell(x, few, 4)

        share, sure = (text(100.0 * x, 100.0 * self.complete_se)
                       for x in (self.complete, self.complete_se))  # fmt: skip
        heads = ("from", "to", "rows", "mean residual", "Std. Error", "z")
        residuals = grid((Column(h, left=not k, width=11) for k, h in enumerate(heads)), (
            (*(text(x, r.std_error) for x in (r.low, r.high)), f"{r.rows:.0f}",
             *(text(x, r.std_error) for x in (r.mean, r.std_error)), text(r.z, 1.0))
            for r in self.residuals.itertuples()
        ))  # fmt: skip
        columns = (Column("column", left=True, width=20), Column("at its bounds", width=14),
                   Column("Std. Error", width=11))  # fmt: skip
        return grid(
            columns,
            ((str(r.column), *(text(x, r.std_error) for x in (r.share, r.std_error)))
             for r in self.bounds.itertuples()),
            facts=(("Complete rows", f"{share} % (std. error {sure} %)"),), more=(residuals,),
            notes=(*self.notes, f"Privacy: {self.privacy.statement()}."), layout=AS_WIDE,
        )  # fmt: skip

    def tidy(self) -> pd.DataFrame:
        """Return one row per bin of the prediction, then one per column at its bounds."""
        r, b = self.residuals, self.bounds
        bins = [f"residual, prediction {lo:.4g} to {hi:.4g}"
                for lo, hi in zip(r["low"], r["high"], strict=True)]  # fmt: skip
        by_bin = pd.DataFrame({"term": bins, "estimate": r["mean"], "std_error": r["std_error"]})
        ends = [f"at its bounds: {c}" for c in b["column"]]
        two = pd.DataFrame({"term": ends, "estimate": b["share"], "std_error": b["std_error"]})
        out = pd.concat([by_bin, two], ignore_index=True)
        out["conf_low"] = out["estimate"] - 1.959964 * out["std_error"]
        out["conf_high"] = out["estimate"] + 1.959964 * out["std_error"]
        return out

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw residual means by bin of the prediction, a residual plot (needs matplotlib)."""
        frame = self.tidy().iloc[: len(self.residuals)]
        frame = frame.assign(term=frame["term"].str.removeprefix("residual, "))
        return forest(frame, ax, **{"xlabel": "mean residual", **style})


def diagnosis(
    promise: Guarantee, n: int, names: tuple[str, ...], at: Array, tau_at: float,
    binned: Array, edges: Array, clip: float, tau: float, spread: Array,
) -> Diagnosis:  # fmt: skip
    """Return a diagnosis from released counts and sums.

    ``spread`` holds the standard deviation of a row of each bin.
    """
    complete = max(float(at[-1]), 1.0)
    shares = []
    for name, count in zip(names, at[:-1], strict=True):
        share = min(max(float(count) / complete, 0.0), 1.0)
        shares.append((name, share, tau_at * math.sqrt(1.0 + share**2) / complete))
    k = len(edges) + 1
    rows = []
    for j in range(k):
        count, total = float(binned[j]), float(binned[k + j])
        low = edges[j - 1] if j else -math.inf
        high = edges[j] if j < len(edges) else math.inf
        average = noisy_mean(count, total, 0.0, tau)
        mean, noise = average.value * clip, average.se_privacy * clip
        sampling = float(spread[j]) / math.sqrt(count) if count > 0 else math.nan
        error = math.hypot(noise, sampling)
        rows.append((low, high, count, mean, noise, error, mean / error))
    heads = ["low", "high", "rows", "mean", "std_error_privacy", "std_error", "z"]
    notes = (
        "At its bounds: cells that were moved to an end of their range, or lie exactly there.",
        f"Residuals beyond {clip:.4g} count as that. A bin far from zero says that the mean is "
        "misspecified there; bins within 3 noise sds of empty have no value, and small bins that "
        "show one are those that noise lifted.",
    )
    return Diagnosis(
        complete / n, tau_at / n, pd.DataFrame(shares, columns=["column", "share", "std_error"]),
        pd.DataFrame(rows, columns=heads), promise, notes,
    )  # fmt: skip
