"""``dp_feols`` and ``dp_fepois``: fixed effects of units from their rows, and random intercepts.

Linear: y and x less their means over the person's own rows. Poisson: given its total a person's
counts are multinomial with probabilities ``p = softmax(x_t'b)`` over the person's rows
(``panel.md``). Both equal dummies for every person, which are never made.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core.own import OwnRows
from dpmodels.core.release import Release
from dpmodels.core.rows import Rows, complete, linear, only_where, stack, total, where
from dpmodels.core.units import PairAverages, Scores, UnitFormula
from dpmodels.errors import RequestError
from dpmodels.families import assumed_mean, family_of
from dpmodels.planning import RESIDUAL, SPREAD, Plan, planning_rows
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.registry import BOUNDS_SHARE, GUESS, STOP, Backend, Method, Option, register_method
from dpmodels.scoring.fit import Part, estimate_fit, plan_fit, release_fit
from dpmodels.scoring.models import Beginning, LeastSquares, State
from dpmodels.scoring.pass_plan import Pilot
from dpmodels.scoring.rules import LINEAR_UNITS, MAX_EARLY_STEP
from dpmodels.scoring.run import Chain, Fitting, ModelSpec, ScoringRelease
from dpmodels.scoring.unit_passes import Expansion, Regression, in_u, predictor
from dpmodels.scoring.unit_scales import Spread
from dpmodels.scoring.units import Initialised, UnitModel, UnitsPlan, release_scoring

if TYPE_CHECKING:
    from dpmodels import records
    from dpmodels.formula.design import Design
    from dpmodels.records import Estimate, Request
    from dpmodels.scoring.coordinates import Coordinates


#: Part of a column's spread below which another coordinate does not see it.
LEAK = 0.05
#: Largest difference of linear predictors within a person.
_MOST_DIFFERENCE = 60.0
#: Below any sum of exponentials of a person with a row: a person without one has p = 0.
LEAST_SUM = 1e-300
#: Expected square of a score, over that of all people, from which on a person is weighted down.
FULL = 1.0


def without_constant(coordinates: Coordinates) -> Coordinates:
    """Return coordinates without their first, the constant: it falls out of every person.

    Nor with what points of a box that are nearly independent leave of one column in another
    (below ``LEAK`` of its spread): a column that varies within few people would be looked for
    among the many within whom the others do.
    """
    W0 = coordinates.W0[1:].copy()
    used = np.flatnonzero(coordinates.W0.any(axis=0))
    if len(used) == coordinates.rank:  # row i is of column i + 1 of these and those before it
        part = W0[:, used]
        spread = 1.0 / np.abs(np.concatenate([[np.inf], np.diag(part[:, 1:])]))
        diagonal = np.eye(len(used))[1:] > 0.0
        W0[:, used] = np.where(diagonal | (np.abs(part) * spread >= LEAK), part, 0.0)
    return replace(coordinates, W0=W0, centre=coordinates.centre[1:], constant=None)


@dataclass(frozen=True)
class EffectModel(UnitModel):
    """A model with an effect of each unit, as planned."""

    poisson: bool  # Counts or amounts with a log link; else least squares
    rows: float  # Public guess of the rows of a person
    amounts: bool = False  # The response is not declared a count: it has no natural unit

    @property
    def averages(self) -> bool:  # type: ignore[override]
        """Whether the score is linear in theta."""
        return not self.poisson

    @property
    def cells(self) -> str:  # type: ignore[override]
        """Kind of cells: only counts and amounts, whose mean tells how long scores are."""
        return ("octaves" if self.amounts else "whole") if self.poisson else ""

    def dimension(self, rank: int) -> int:
        """Return the number of coefficients of a design of this rank: without the constant."""
        return rank - 1

    def initialised_at(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design
    ) -> Initialised:
        """Start at effects 0."""
        inner = without_constant(coordinates)
        start = Beginning(None, inner.rank, None)
        model: Any
        if self.poisson:
            mean = next((s.mean for s in spreads if s.number.place == design.q - 1), 1.0)
            unit = mean if self.amounts and mean > 0.0 else 1.0
            mean = max(mean / unit, 1e-3)
            model = FixedPoisson(inner, mean * self.rows, mean, unit)
        else:
            model = Regression(LeastSquares(), inner, demean=True)
        return Initialised(model, start.state(np.zeros(inner.rank)))


@dataclass(frozen=True, eq=False)
class FixedPoisson(Expansion):
    """Poisson counts, or amounts, with an effect of each person, initialised."""

    coordinates: Coordinates
    rate: float  # Events of a person, by the released mean count and the guess of its rows
    mean: float = 0.0  # The released mean count of a row; 0: nobody is weighted down
    unit: float = 1.0  # In which responses are counted: 1, or of amounts their released mean

    def at(self, state: State, clip: float = math.inf) -> UnitFormula:
        """Return the counts of people at a fit; once scales are released, with weights."""
        squares = np.diag(state.M)
        scales_released = self.mean > 0.0 and not (squares == 1.0).all()
        return _Shares(self, state.theta, state.W, squares if scales_released else None)

    def events(self, H: Array) -> float:
        """Return the events of a person."""
        return self.rate


@dataclass(frozen=True, eq=False)
class _Shares:
    """Scores ``w sum_t x_t (y_t - n p_t)`` and rows ``sqrt(w n p_t) (x_t - xbar)``.

    The weight w of a person is a function of its predictors, of its number of rows and of released
    numbers, never of a count: scores keep mean zero whatever the law of the counts, where a clip
    would shorten those of many events (``panel.md``, 2).
    """

    model: FixedPoisson
    theta: Array
    W: Array
    squares: Array | None = None

    def __call__(self, rows: Rows, person: OwnRows) -> Scores:
        """Return the scores and the information of whole people."""
        y, u = rows[-1], in_u(self.model.coordinates, rows)
        usable = complete(u) & (y >= 0.0)
        u = only_where(u, usable)
        eta = predictor(self.theta, u)
        most = person.largest(where(usable, eta, -np.inf))  # of the person
        power = where(usable, np.exp(np.maximum(eta - most, -_MOST_DIFFERENCE)), 0.0)
        total_power = person.sum(power)
        p: Any = power / np.maximum(total_power, LEAST_SUM)
        count = where(usable, y / self.model.unit, 0.0)
        n = person.sum(count)
        w: Any = linear(self.W, u)
        weight: Any = 1.0
        if self.squares is not None:
            weight = self._weights(u, p, usable, person)

        def information() -> tuple[Rows, ...]:
            return ((w - person.sum(w * p)) * np.sqrt(weight * n * p),)

        return Scores(w * (weight * (count - n * p)), information)

    def _weights(self, u: Rows, p: Rows, usable: Rows, person: OwnRows) -> Rows:
        """Return ``min(1, sqrt(r / s))`` of people, s the square that x lets expect of a score.

        ``s = T m sum_t p_t |x_t - xbar|^2`` with T rows of m events each, every coordinate over its
        released scale.
        """
        assert self.squares is not None
        mean = person.sum(u * p)
        spread = total(person.sum(p * (u - mean) ** 2) / self.squares)
        s = person.sum(usable * 1.0) * self.model.mean * spread
        return np.sqrt(FULL * len(u) / np.maximum(s, FULL * len(u)))


# -- Random intercepts as local expansions: quasi-demeaning by the person's rows at released
# variances.
#
# Three stages, each of released numbers (``panel.md``, 5): least squares by person; three averages
# of a person's clipped residuals, which give the two variances; generalised least squares at these,
# where a person with T rows has the part ``1 - sqrt(s_e / (s_e + T s_u))`` of its own means taken
# off. With person means as predictors (Mundlak) the coefficients within people are apart from those
# between them.


#: Shares of mu^2 of least squares by person and of the averages; the rest is of the last stage.
SHARE_OF_FIRST, SHARE_OF_AVERAGES = 0.20, 0.05
#: Names of the steps: the first stage, and the averages.
POOLED, AVERAGES = "pooled", "averages of residuals"
#: Shares of the last stage, which starts near its end.
RE_SHARES = (0.02, 0.03, 0.05, 0.14, 0.76)
#: Residuals are clipped to this many of their released sds.
CLIP = 2.5
#: Largest share of the variance that intercepts are believed to have.
MOST_BETWEEN = 0.98


def dimension(rank: int, *, mundlak: bool) -> int:
    """Return the number of coefficients of a design of this rank: with means, those once more."""
    return 2 * rank - 1 if mundlak else rank


@dataclass(frozen=True)
class Variances:
    """Released averages over people with two rows or more, of residuals over ``clip``."""

    # pairs, people, squares: noisy sums of the mean product of a person's pairs, of 1, and of its
    # mean square.
    pairs: float
    people: float
    squares: float
    sd: float  # Noise of each
    clip: float  # Clip of the residuals, in units of the unit response

    @property
    def share(self) -> float:
        """Part of the variance between people, if it can be a weight: in [0, .98]."""
        if not (self.people > 0.0 and self.squares > 0.0):
            return 0.0
        return min(max(self.pairs / self.squares, 0.0), MOST_BETWEEN)

    def reported(self, unit: float) -> dict[str, float]:
        """Return the variances and the intraclass correlation as released, with their errors.

        ``unit``: unit responses to one of the user's. Errors hold the noise, and the sampling error
        of normal residuals, two rows a person. Estimates are not forced to be variances: noise may
        leave one below 0.
        """
        K, n = self.people, self.sd
        if not (K > 0.0 and self.squares > 0.0):
            return {}
        R, M = self.pairs / K, self.squares / K
        rho = min(max(self.pairs / self.squares, -1.0), 1.0)
        c2 = (self.clip / unit) ** 2
        entries = {
            "sigma_u2": (c2 * R, n * n * (1 + R * R), M * M * (1 + rho * rho), K, c2),
            "sigma_e2": (
                c2 * (M - R), n * n * (2 + (M - R) ** 2), 2 * M * M * (1 - rho) ** 2, K, c2,
            ),
            "icc": (
                self.pairs / self.squares, n * n * (1 + rho * rho), M * M * (1 - rho * rho) ** 2,
                self.squares, 1.0,
            ),
        }  # fmt: skip
        out = {}
        for name, (value, noise, sampling, over, by) in entries.items():
            out[name] = value
            out[f"{name}_se"] = by * math.sqrt(noise / over**2 + sampling * K / over**2)
        return out


@dataclass(frozen=True, eq=False)
class Intercepts(Expansion):
    """Least squares with an intercept of each person of known weight, initialised."""

    coordinates: Coordinates
    # theta is of means of people (the constant first), then within people; else of rows
    mundlak: bool
    sd: float  # Released spread of the unit response
    # Variances of intercepts and errors. None before their release: rows are then assumed
    # unrelated.
    variances: Variances | None = None

    averages: ClassVar[bool] = True

    @property
    def share(self) -> float:
        """Part of the variance between people, 0 for least squares."""
        return 0.0 if self.variances is None else self.variances.share

    def at(self, state: State, clip: float = math.inf) -> UnitFormula:
        """Return the rows of pass k."""
        return _Residuals(self, state.theta, state.W, math.sqrt(state.phi))

    def updated(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the state with the variance of residuals, if it was released."""
        return LeastSquares().updated(state, H, ratio)

    def events(self, H: Array) -> float:
        """Return the sum of a person's weights, by the information of the constant; at least 1."""
        a = self.coordinates.constant
        inner = H[: self.coordinates.rank, : self.coordinates.rank]
        return max(float(a @ inner @ a), 1.0) if a is not None else 1.0

    def longest(self, state: State) -> float:
        """Return two spreads of the response."""
        return MAX_EARLY_STEP * self.sd


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Scores ``W z e`` and rows ``W z``, z and the residual e less a part of their own means."""

    model: Intercepts
    theta: Array
    W: Array
    sd: float

    def looked_at(self, rows: Rows, person: OwnRows) -> tuple[Any, Any, Any, Rows]:
        """Return (z, its means, residuals, 1 for complete rows) before anything is subtracted.

        z: the coordinates u; with Mundlak own means of u, and what u differs from them by. A row
        that is not there is 0 in all.
        """
        model, unit = self.model, self.model.coordinates.unit
        u: Any = in_u(self.model.coordinates, rows)
        y = rows[-1] * unit.scale[-1] + unit.shift[-1]
        complete_row = complete(u) & np.isfinite(y)
        present = complete_row * 1.0
        u, y = only_where(u, complete_row), only_where(y, complete_row)
        means = person.mean(u, present) * present
        z, z_means = u, means
        if model.mundlak:
            inside = (u - means)[1:]
            z, z_means = stack(means, inside), stack(means, np.zeros_like(inside))
        return z, z_means, (y - predictor(self.theta, z)) / self.sd, present

    def __call__(self, rows: Rows, person: OwnRows) -> Scores:
        """Return the scores and the information of whole people."""
        z, z_means, residual, present = self.looked_at(rows, person)
        share = self.model.share
        if share > 0.0:
            T = person.sum(present)
            part = 1.0 - np.sqrt((1.0 - share) / (1.0 - share + T * share))
            z = z - part * z_means
            residual = residual - part * person.mean(residual, present)
        w: Any = linear(self.W, z * present)
        return Scores(w * (residual * present), lambda: (w,))

    def clipped(self, rows: Rows, person: OwnRows, clip: float) -> tuple[Rows, Rows]:
        """Return residuals over ``clip``, and 1 for rows that are there: for their averages."""
        _, _, residual, present = self.looked_at(rows, person)
        return residual / clip, present


@dataclass(frozen=True)
class _Started(UnitModel):
    """A model that is initialised already: the first stage, within the engine's passes."""

    initialised: Initialised | None = None
    averages: ClassVar[bool] = True
    scale: ClassVar[bool] = True

    def initialised_at(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design
    ) -> Initialised:
        """Return the state of the start."""
        assert self.initialised is not None
        return self.initialised


@dataclass(frozen=True)
class InterceptModel(UnitModel):
    """Random intercepts, as planned."""

    N: int  # People of the public rules
    relation: str
    mundlak: bool  # Person means are predictors too

    averages: ClassVar[bool] = True
    shares: ClassVar[tuple[float, ...]] = RE_SHARES  # type: ignore[misc]

    @property
    def cells(self) -> str:  # type: ignore[override]
        """Cells of the response of least squares."""
        return LeastSquares.cells

    def dimension(self, rank: int) -> int:
        """Return the number of coefficients of a design of this rank."""
        return dimension(rank, mundlak=self.mundlak)

    def _first(self, mu: float, r: int, initialised: Initialised | None = None) -> UnitsPlan:
        """Return the plan of the first stage."""
        return UnitsPlan(
            r, self.N, mu * math.sqrt(SHARE_OF_FIRST), self.relation, Pilot(),
            (Chain(_Started(initialised), POOLED),), None, True, LINEAR_UNITS,
        )  # fmt: skip

    def prelude(self, mu: float) -> tuple[Step, ...]:
        """Return the steps of the first stage and of the averages."""
        first = self._first(mu, 1).ledger
        last = Step(AVERAGES, Gaussian(mu * math.sqrt(SHARE_OF_AVERAGES)), share=SHARE_OF_AVERAGES)
        return (*(step.within(SHARE_OF_FIRST) for step in first), last)

    def initialise(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design, mu: float
    ) -> Generator[Any, Any, Initialised]:
        """Release least squares by person and the averages; begin at that fit, with their weights.

        **Privacy.** ``mu sqrt(SHARE_OF_FIRST)``-GDP for the passes of the first stage, ``mu
        sqrt(SHARE_OF_AVERAGES)``-GDP for the averages: one person's three values are in
        ``PairMeans`` (``panel.md``, 5).
        """
        r = dimension(coordinates.rank, mundlak=self.mundlak)
        unit = coordinates.unit
        values = next((s for s in spreads if s.number.place == design.q - 1), None)
        constant = coordinates.constant
        if constant is not None:
            constant = np.concatenate([constant, np.zeros(r - len(constant))])
        at = Beginning(constant, r, values, float(unit.scale[-1]), float(unit.shift[-1]))
        plain = Intercepts(coordinates, self.mundlak, at.sd)
        initialised = Initialised(plain, LeastSquares().begin(at))
        first = self._first(mu, r, initialised)
        first_release = yield from release_scoring(first, coordinates, design)
        state = first_release.fits[0].state
        rows = _Residuals(plain, state.theta, np.eye(len(state.theta)), math.sqrt(state.phi))
        formula = functools.partial(rows.clipped, clip=CLIP)
        answer = yield Release(AVERAGES, PairAverages(), formula, design)
        pairs, people, squares = (float(v) for v in answer.values)
        clip = CLIP * math.sqrt(state.phi)
        variances = Variances(pairs, people, squares, float(answer.sd.flat[0]), clip)
        model = replace(plain, variances=variances)
        start = replace(LeastSquares().begin(at), theta=state.theta, phi=state.phi)
        return Initialised(model, start, {AVERAGES: np.array(answer.values, dtype=float)})


def coefficients(coordinates: Coordinates, *, mundlak: bool) -> tuple[Array, Array]:
    """Return (A, a): coefficients in the user's units are ``A theta + a``.

    With Mundlak theta is of own means and within people, and coefficients are the intercept, those
    of x (within) and those of mean(x): what those between people have more.
    """
    A, a = coordinates.back()
    if not mundlak:
        return A, a
    p, r = A.shape
    out = np.zeros((2 * p - 1, 2 * r - 1))
    out[0, :r] = A[0]
    out[1:p, r:] = A[1:, 1:]
    out[p:, :r] = A[1:]
    out[p:, r:] = -A[1:, 1:]
    return out, np.concatenate([a[:1], np.zeros(p - 1), a[1:]])


# -- Backends of ``dp_feols`` and ``dp_fepois``: effects of people by the person's rows, errors by
# person.


#: The release of the passes.
release = release_fit


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a call of ``dp_feols`` or ``dp_fepois``."""
    verb, poisson = request.verb, request.verb == "dp_fepois"
    if request.delta == 0:
        raise RequestError(f"{verb} adds Gaussian noise: give delta > 0, as in delta=1e-6")
    if request.unit is None:
        raise RequestError(
            f"{verb} removes person fixed effects, so it protects people. Give the column twice: "
            f'{verb}("y ~ x | id", data, unit="id")'
        )
    if request.weights is not None or design.offset is not None:
        raise RequestError(f"{verb} cannot use weights= or offset()")
    if not design.has_intercept:
        raise RequestError(
            f"{verb}: the effects of people replace the intercept, which cannot be left out "
            'as well: write the formula without "- 1" and "+ 0"'
        )
    if design.p < 2:
        raise RequestError(f"{verb} needs a predictor: y ~ x | id")
    if request.unit.rows == 1:
        raise RequestError(
            f"{verb}: rows_per_unit=1 says that people have one row each, and person effects "
            "would explain every response"
        )
    rows = planning_rows(request, n)
    guess = RESIDUAL * SPREAD  # as of rows: within people both sds are less
    if request.options.get("re") is not None:
        mundlak = bool(request["mundlak"])
        model = ModelSpec((Chain(InterceptModel(rows, request.relation, mundlak)),), guess=guess)
        return plan_fit(request, design, rows, model, of_units=True)
    response = design.z[design.q - 1].interval
    if poisson and response is not None and response[0] < 0.0:
        raise RequestError(
            f"dp_fepois needs counts, and the declared range of the response begins at "
            f"{response[0]:g}: declare it, for example y=dp.Count(50)"
        )
    assert design.response is not None
    variable = design.kinds.get(design.response.name)
    amounts = poisson and getattr(variable, "kind", "") != "count"
    chain = Chain(EffectModel(poisson, float(request.unit.rows), amounts))
    if poisson:
        guess = 2.0 * assumed_mean(family_of("poisson"), response) ** -0.5  # half the sd within
    model = ModelSpec((chain,), guess=guess, level=False)
    return plan_fit(request, design, rows, model, of_units=True)


def _back(_: ScoringRelease, fit: Fitting) -> tuple[Array, Array]:
    """Return (A, a) of the columns but the intercept."""
    A, a = fit.model.coordinates.back()
    return A[1:], np.zeros(len(a) - 1)


def estimate(plan: Plan[Any], release: records.Release) -> Estimate:
    """Map the last step to coefficients within people, with errors by person."""
    if plan.request.options.get("re") is not None:
        return _of_intercepts(plan, release)
    names = release.design.names[1:]
    unit = plan.request.unit
    assert unit is not None
    notes = (messages.WITHIN_PEOPLE(column=unit.column),)
    lost = ~release.detail.coordinates.identified[1:] if release.reply else None

    return estimate_fit(
        plan, release, lambda _: {}, back=_back, names=names, lost=lost, model_notes=notes
    )


def _of_intercepts(plan: Plan[Any], release: records.Release) -> Estimate:
    """Map the last step of random intercepts to coefficients, those of means after the others."""
    request, design = plan.request, release.design
    assert request.unit is not None
    mundlak = bool(request["mundlak"])
    means = tuple(f"mean({name})" for name in design.names[1:]) if mundlak else ()
    notes = [messages.RELEASED_WEIGHTS()]
    if mundlak:
        notes.append(messages.MUNDLAK(column=request.unit.column))
    else:
        notes.append(messages.MIXTURE())
    lost = None
    if release.reply:
        gone = ~release.detail.coordinates.identified
        lost = np.concatenate([gone, gone[1:]]) if mundlak else gone

    def back(_: ScoringRelease, fit: Fitting) -> tuple[Array, Array]:
        return coefficients(fit.model.coordinates, mundlak=mundlak)

    def stats(part: Part) -> dict[str, float]:
        expansion = part.release.model
        assert isinstance(expansion, Intercepts)
        assert expansion.variances is not None
        variances = expansion.variances.reported(part.unit)
        return {**variances, "weight_icc": expansion.share}

    return estimate_fit(
        plan, release, stats, back=back, names=(*design.names, *means), lost=lost, model_notes=notes
    )


PANEL_BACKEND = Backend(plan, release, estimate, people=True)


# -- Methods of panels, as data.


_RANDOM = (
    Option("re", "random intercepts of the unit in place of its effects: its column", None, str),
    Option("mundlak", "with re=: means of a person's own rows are predictors too", True, bool),
)

for _verb, _title, _source in (
    ("dp_feols", "effects within people, least squares", "Mundlak (1961)"),
    ("dp_fepois", "effects within people, Poisson", "Hausman, Hall and Griliches (1984)"),
):
    register_method(
        Method(
            name="scoring",
            verb=_verb,
            proof="models/panel.md",
            title=_title,
            backend=PANEL_BACKEND,
            needs=("delta > 0", "several passes", "unit="),
            relations=("replace", "add-remove"),
            reference=f"{_source}; theory note models/panel.md",
            options=(*(_RANDOM if _verb == "dp_feols" else ()), BOUNDS_SHARE, GUESS, STOP),
            foretells=True,
        )
    )
