"""Plan and release of a scoring fit, with the one loop over its passes.

Plan (public) -> release (reads rows) -> inference (:mod:`dpmodels.scoring.intervals`). A *pass* is
one reading of the rows, one release of sums over them, and the Newton step from these sums. The
*start* is the first released estimate. A *chain* is one model of a call. What differs between rows
and units stands in :mod:`dpmodels.scoring.rows` and :mod:`dpmodels.scoring.units`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.parallel import Released
from dpmodels.core.release import Program
from dpmodels.planning import expected_errors
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import Coordinates, of_short_rows, public_coordinates
from dpmodels.scoring.deviance import Deviance
from dpmodels.scoring.models import Model, State, floored, whitening
from dpmodels.scoring.pass_plan import PassPlan, Pilot, count_of
from dpmodels.scoring.passes import Centre
from dpmodels.scoring.step import Step

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.notes import Note
    from dpmodels.scoring.cluster_plan import ClusterPlan
    from dpmodels.scoring.clusters import ClusterRelease
    from dpmodels.scoring.scales import ScalePlan, WeightPlan
    from dpmodels.scoring.usable import Look
    from dpmodels.sums.ask import Read


@dataclass(frozen=True)
class Chain:
    """One model of a call, with the label of its steps."""

    score: Any
    label: str = ""  # Empty for the only one of a call

    def named(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return names with the label of this chain; the only chain of a call has no label."""
        return tuple(f"{name} [{self.label}]" if self.label else name for name in names)

    @property
    def raw(self) -> bool:
        """Whether the response stays in the user's units."""
        score = self.score
        return not score.of_residual if isinstance(score, Model) else bool(score.raw)

    def step(self, k: object) -> str:
        """Return the name of pass k in the ledger (or of another step)."""
        return f"{k} ({self.label})" if self.label else str(k)


@dataclass(frozen=True)
class ScoringPlan:
    """Plan of the passes for one rank: a subclass for rows, and one for units."""

    before: ClassVar[tuple[str, ...]]  # Names in ``split=`` of the shares before the passes

    # p, n: dimension of theta; units: public, or the guess.
    p: int
    n: int
    mu: float  # mu of all releases together
    relation: str
    pilot: Pilot  # Pilot sample for the passes before the last
    # Models that are fitted to the same rows; each gets an equal part of every pass.
    chains: tuple[Chain, ...]
    closing: Closing | None  # Release after the passes

    # Released part of the units that are usable, or 1 (:func:`pass_plan.usable_count`)
    usable: float = field(default=1.0, kw_only=True)

    # Besides: ``noise``, public, of the last information over its size; the ``forecast`` for
    # coefficients; ``readings`` of the rows before the fit closes; ``ledger``, the steps before it
    # closes, in the order of the release, with shares of mu^2; ``expected``, the inference of a
    # coefficient by assumed lengths of scores (``stops``: follow-up ends before one is clipped);
    # what a plan prints (``shown``, ``advice``); and ``scorers``, the scores at the final fit.

    def followed(self, to: Schedule, usable: float) -> Any:
        """Return the plan for a released part of the units that is usable."""
        return replace(self, usable=usable)


@dataclass(frozen=True, eq=False)
class Fitting:
    """State of one model after each pass, with its releases."""

    chain: Chain
    model: Any  # As it was initialised, at the ranges of the design
    state: State  # State at which the next pass is evaluated
    # Values released before the passes, by name.
    values: Mapping[str, Any] = field(default_factory=dict)
    # (k, r): public rows in u, for models of events and counts over rows and for fits with a
    # reserve. None otherwise.
    public: Array | None = None
    # Plans of the passes as they were run, with radii that rows and scores can reach.
    plans: tuple[PassPlan, ...] = ()
    lengths: tuple[Any, ...] = ()  # Histograms of lengths released before each pass, for units
    released: tuple[Released, ...] = ()
    # State at which the last pass was evaluated. For units W is that of the information.
    before: State = None  # type: ignore[assignment]
    # Step of the last pass.
    last: Step = None  # type: ignore[assignment]
    # (r, r): whitening for the next information matrix (units only).
    look: Array | None = None
    # (r, r): map from coordinates of scores to those of the information (units only).
    turn: Array | None = None
    # The last step is longer than noise explains, and no shorter than the one before.
    on_its_way: bool = False
    # Released count of usable units over n, or over its guess where it is private.
    counted: float = 1.0

    @property
    def score(self) -> Any:
        """Row-level model, or None if the model is of complete units."""
        return self.model if isinstance(self.model, Model) else getattr(self.model, "score", None)

    def recounted(self, counts: Array | None, sd: float, n: float, relation: str) -> Fitting:
        """Return the fit with the released count of units, the sum of a histogram of all of them.

        ``sd``: noise of a bin; ``n``: the number of units, or its guess. The fit is unchanged if
        noise hides the count.
        """
        if counts is None:
            return self
        return replace(self, counted=count_of(counts, sd, n, relation, n * self.counted) / n)

    def after(
        self, plan: PassPlan, released: Released, before: State, step: Step, **changed: Any
    ) -> Fitting:
        """Return the fit after one more pass: a reading of the rows, its release and its step."""
        return replace(
            self, plans=(*self.plans, plan), released=(*self.released, released), before=before,
            last=step, state=step.state, **changed,
        )  # fmt: skip


_ORDINALS = ("first", "second", "third", "fourth")


def split_names(before: tuple[str, ...], many: int) -> tuple[str, ...]:
    """Return the names in ``split=`` of many shares: those before the passes, and the passes."""
    return (*before, *_ORDINALS[: many - len(before) - 1], "last")


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """Specification of the models that a verb fits."""

    chains: tuple[Chain, ...]  # One, or several of one payment
    _: KW_ONLY
    # Public coordinates of the verb, or None for the declared box
    coordinates: Coordinates | None = None
    radius: float = 0.0  # Radius of the start, or 0 to choose it by rule
    # Declared length of a unit row's slopes, or None for that of the box
    row_norm: float | None = None
    meat: bool = True  # Release the meat of the sandwich (robust errors)
    # Public guess for a plan: error of a fit without noise per root of 1/n, in the coordinates
    # whitened by the second moments. 0: no errors are expected before the fit.
    guess: float = 0.5
    level: bool = True  # Whether the intercept is a coefficient of the user's
    closing: Closing | None = None  # Release after the passes
    opening: Opening | None = None  # Another start of a fit, or None for the released one
    from_public: tuple[float, ...] = ()  # Shares of start and passes after public rows, or empty


@dataclass(frozen=True)
class Opening(ABC):
    """Start of a fit by another method, in place of the released one.

    The passes continue from it, so estimate and errors are those of the last pass for any start.
    """

    readings: ClassVar[int]  # Number of readings of the rows
    notes: ClassVar[tuple[Note, ...]] = ()  # Qualifications of the guarantee

    failure: float  # Probability that the released bounds fail, of the whole delta

    @abstractmethod
    def steps(self, mu: float) -> tuple[LedgerStep, ...]:
        """Return the steps of a start of this mu, with their shares of its mu^2."""

    @abstractmethod
    def begin(
        self, mu: float, coordinates: Coordinates, design: Design, read: Read, n: int
    ) -> Program:
        """Release the start from n rows (expected, under coins); return it with its values."""


@dataclass(frozen=True)
class Closing:
    """Release after the passes, in one step."""

    name: ClassVar[str]  # Name of the step
    share: ClassVar[float]  # Of mu^2

    def of(self, mu: float) -> LedgerStep:
        """Return the step."""
        return LedgerStep(self.name, Gaussian(mu * math.sqrt(self.share)), share=self.share)

    def conclude(
        self, release: ScoringRelease, design: Design
    ) -> Generator[Any, Any, dict[str, float]]:
        """Release statistics of the fit, and return them."""
        raise NotImplementedError


@dataclass(frozen=True)
class FitStatistics(Closing):
    """Deviance and its kin, of a model of a mean, at the final fit."""

    name: ClassVar[str] = rules.STATISTICS_STEP
    share: ClassVar[float] = rules.CLOSING_SHARE

    def conclude(
        self, release: ScoringRelease, design: Design
    ) -> Generator[Any, Any, dict[str, float]]:
        """Release the statistics; the deviance allows for its clip by released score lengths."""
        first, c = release.fits[0], release.coordinates
        score, last, bins = first.score, first.plans[-1], first.released[-1].bins
        assert design.response is not None and design.response.interval is not None
        centre = centre_of(score, first.state, c, design)
        deviance = Deviance.of(
            score.family, score.link, first.state.nuisance, first.state.phi, centre,
            design.response.interval,
        )  # fmt: skip
        statistics = yield from deviance.ask(design, people=last.people)
        cut = 0.0 if bins is None else deviance.cut(statistics, bins, last, first.before.phi)
        return deviance.report(statistics, len(first.state.theta), cut=cut, people=last.people)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Public numbers of a scoring fit, decided before the first row: nothing is decided twice."""

    model: ModelSpec  # Specification from the verb
    # Plan of the passes for a design and its rank: over rows, or over units
    planned: Callable[[Schedule, int, str, Design], Any]
    chains: tuple[Chain, ...]  # Models as they are planned
    design: Design  # As planned
    rows: int  # Units of the public rules
    mu: float  # mu of all releases except ranges, scales and clusters
    shares: tuple[float, ...]  # Shares of the releases before the passes, and of the passes
    pilot: Pilot  # Pilot sample for the passes before the last
    scales: tuple[ScalePlan | WeightPlan, ...] = ()  # Releases before the start
    clusters: ClusterPlan | None = None  # Pass by cluster, after the others
    people: bool = False  # The unit is a person
    over_rows: bool = False  # Passes are over rows, for whose coefficients there is a forecast
    # The shares are those of the rules: the last pass may give a part to passes before it.
    whole: bool = True
    look: Look | None = None  # Count of usable rows before the fit
    # Plans for the planned design, by (rank, relation)
    known: dict[tuple[int, str], ScoringPlan] = field(default_factory=dict)

    def scoring(self, rank: int, relation: str, design: Design | None = None) -> Any:
        """Return the plan of the passes for a design and its rank (cached for the planned one)."""
        if design is not None and design is not self.design:
            return self.planned(self, rank, relation, design)
        if (rank, relation) not in self.known:
            self.known[rank, relation] = self.planned(self, rank, relation, self.design)
        return self.known[rank, relation]

    def coordinates(self, design: Design) -> Coordinates:
        """Return the public coordinates of a design whose ranges are known."""
        if self.model.coordinates is not None:
            return self.model.coordinates
        coordinates = public_coordinates(design, raw=self.chains[0].raw)
        length = self.model.row_norm
        return coordinates if length is None else of_short_rows(coordinates, design, length)

    def guessed(self, i: int, moments: Array, ratio: float) -> tuple[State, Coordinates]:
        """Return the state that a plan assumes of model i, with its coordinates.

        ``moments`` (p, p): second moments of unit columns; ``ratio``: error of a row over the
        model's guess.
        """
        coordinates = self.coordinates(self.design)
        M = floored(coordinates.W0 @ moments @ coordinates.W0.T, 1e-12)
        W, error = whitening(M), self.model.guess * ratio * self.chains[i].score.normal_error
        if self.chains[i].raw:  # scores of events and counts have unit scale
            W, error = W * error, 1.0
        return State(np.zeros(len(M)), W, error * error, M), coordinates

    def errors(
        self, noise: Callable[..., float], moments: Array, ratios: Sequence[float]
    ) -> dict[str, float]:
        """Return the privacy errors that a plan expects, empty if the model has no public guess.

        ``noise(i, state, coordinates)`` is the noise sd of a coefficient of model i, in coordinates
        whitened by the state of :meth:`guessed` for these moments and the ratio of this model.
        """
        design, model = self.design, self.model
        if design.unknown or not (model.guess and (model.coordinates is None or model.from_public)):
            return {}
        out: dict[str, float] = {}
        for i, chain in enumerate(self.chains):
            state, coordinates = self.guessed(i, moments, ratios[i])
            T = coordinates.back()[0] @ state.W * math.sqrt(state.phi)
            out |= expected_errors(chain.named(design.names), T, noise(i, state, coordinates))
        if not model.level:
            del out["Intercept"]
        return out


def centre_of(score: Model, state: State, coordinates: Coordinates, design: Design) -> Centre:
    """Return the centre at which pass k of a model of rows is evaluated."""
    return Centre(
        coordinates.unit, coordinates.W0, state.theta, state.W, state.phi,
        score.evaluate(state), score.of_residual, design.auxiliary_place("offset"),
        design.auxiliary_place("weights"), coordinates.mean_weight, design.numbers_first,
        score.outcomes,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ScoringRelease:
    """Released numbers of a scoring fit."""

    coordinates: Coordinates
    fits: tuple[Fitting, ...]
    # Closing statistics of the fit, with errors. Empty unless requested.
    statistics: dict[str, float] = field(default_factory=dict)
    clusters: ClusterRelease | None = None  # Release of the pass by cluster, if any
    # tuple of (r, r) arrays: maps from the coordinates of each model's scores to those of its pass
    # by cluster (units only).
    turns: tuple[Array, ...] = ()

    def meat(self, i: int, of_units: Array) -> Array:
        """Return J by cluster of model i, in the coordinates of the meat of units, as given."""
        assert self.clusters is not None
        if not self.turns:
            return self.clusters.meat(i, of_units)
        turn, back = self.turns[i], np.linalg.inv(self.turns[i])
        J = self.clusters.meat(i, turn @ of_units @ turn.T)
        return np.asarray(back @ J @ back.T)

    @property
    def values(self) -> dict[str, Any]:
        """All released numbers, by name."""
        out: dict[str, Any] = {}
        for fit in self.fits:
            step, last = fit.chain.step, fit.released[-1]
            out |= fit.values
            for k, sums in enumerate(fit.released, 1):
                out[step(f"information {k}")] = sums.information
                out[step(f"scores {k}")] = sums.score
            parts = {name: getattr(last, name) for name in ("meat", "bins", "taken")}
            out |= {step(name): part for name, part in parts.items() if part is not None}
            if fit.lengths:
                out[step("lengths")] = fit.lengths[-1].counts
        if self.clusters is not None and not self.turns:
            for fit, J in zip(self.fits, self.clusters.products, strict=True):
                out[fit.chain.step("cluster scores")] = J
        return out
