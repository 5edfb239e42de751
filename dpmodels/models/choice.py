"""``dp_polr`` and ``dp_multinom``: passes over units of a likelihood of classes."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from dpmodels import families, messages
from dpmodels.after.inference import LEAST_SHOWN, of_classes
from dpmodels.arrays import Array
from dpmodels.core.own import OwnRows
from dpmodels.core.rows import Rows, clip, complete, linear, only_where, stack, total, where
from dpmodels.core.units import Scores, UnitFormula
from dpmodels.errors import RequestError, choice
from dpmodels.families import Link
from dpmodels.lazy import pd
from dpmodels.planning import Plan, planning_rows
from dpmodels.registry import BOUNDS_SHARE, GUESS, STOP, Backend, Method, one_of, register_method
from dpmodels.scoring.coordinates import Coordinates, public_coordinates
from dpmodels.scoring.fit import Back, estimate_fit, plan_fit, release_fit
from dpmodels.scoring.models import Beginning, State
from dpmodels.scoring.rules import CELLS, RARE_LENGTH_OF_UNITS
from dpmodels.scoring.run import Chain, Fitting, ModelSpec, ScoringRelease
from dpmodels.scoring.unit_passes import Expansion, in_u, predictor
from dpmodels.scoring.unit_scales import Spread
from dpmodels.scoring.units import Initialised, UnitModel

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.records import Estimate, Release, Request
    from dpmodels.results.capabilities import Predictions
    from dpmodels.results.fit import Fit


# -- Categories as local expansions: any likelihood with probabilities p_k(theta) of K classes.
#
# A row of class y has the score ``S = grad p_y / p_y`` and the expected information ``sum_k V_k
# V_k'``, ``V_k = grad p_k / sqrt(p_k)``: K rows. Probabilities are floored in both, so neither
# grows without limit (``choice.md``, 1). Classes are codes 0 to K - 1; any other code, or a missing
# cell, makes a zero row.


#: Least probability of a class that a score believes.
LEAST_PROBABILITY = 1e-4
#: Thresholds stay this part of their first distance apart.
APART = 0.25
#: Largest linear predictor: beyond, a probability has no digits left.
_MOST_PREDICTOR = 30.0


def _logistic(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


#: Distributions of ``dp_polr(method=)``, as R's MASS::polr names them: F, its density, its inverse.
LINKS: dict[str, Link] = {
    "logistic": Link(
        "logistic", _logistic, lambda x: _logistic(x) * (1.0 - _logistic(x)),
        families.LINKS["logit"].forward,
    ),
    "probit": families.LINKS["probit"],
    "cloglog": Link(
        "cloglog", lambda x: -np.expm1(-np.exp(np.minimum(x, 5.0))),
        lambda x: np.exp(np.minimum(x, 5.0) - np.exp(np.minimum(x, 5.0))),
        families.LINKS["cloglog"].forward,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ProportionalOdds:
    """``P(y <= k) = F(zeta_k - x'b)``: theta holds K - 1 thresholds, then slopes.

    Slopes are of u without its first coordinate, the constant: thresholds stand for it.
    """

    K: int
    link: str = "logistic"

    def gradients(self, theta: Array, u: Rows) -> tuple[list[Rows], list[Rows]]:
        """Return the probability of each class, and its gradient, of rows."""
        link, cut = LINKS[self.link], self.K - 1
        eta = predictor(theta[cut:], u[1:])
        at = clip(theta[:cut] - eta, -_MOST_PREDICTOR, _MOST_PREDICTOR)
        points: Any = at
        F, f = link.inverse(points), link.slope(points)
        none: Any = np.zeros_like(eta)
        below = [none, *(F[k] for k in range(cut)), none + 1.0]
        ends = [none, *(f[k] for k in range(cut)), none]
        p, grad = [], []
        for k in range(self.K):
            of_cuts = [
                f[k] if j == k else -f[j] if j == k - 1 else none for j in range(cut)
            ]  # fmt: skip
            p.append(below[k + 1] - below[k])
            grad.append(stack(*of_cuts, -(ends[k + 1] - ends[k]) * u[1:]))
        return p, grad

    def constrained(self, theta: Array, start: Array) -> Array:
        """Return increasing thresholds, at least ``APART`` of their first distance apart.

        Two that an early step of noise brings together would make a class of no probability, whose
        scores have no end.
        """
        out, cut = np.array(theta), self.K - 1
        for k in range(1, cut):
            out[k] = max(out[k], out[k - 1] + APART * (start[k] - start[k - 1]))
        return out


@dataclass(frozen=True)
class Multinomial:
    """``P(y = k) = exp(u'theta_k) / sum``, theta_0 = 0: K - 1 blocks of coefficients."""

    K: int

    def gradients(self, theta: Array, u: Rows) -> tuple[list[Rows], list[Rows]]:
        """Return the probability of each class, and its gradient, of rows."""
        r = len(u)
        none: Any = np.zeros_like(u[0])
        eta = [none, *(predictor(part, u) for part in theta.reshape(self.K - 1, r))]
        most = functools.reduce(np.maximum, eta)
        power = [np.exp(np.maximum(x - most, -2.0 * _MOST_PREDICTOR)) for x in eta]
        sum_of_powers = total(stack(*power))
        p = [x / sum_of_powers for x in power]
        grad = [
            stack(*(p[k] * (float(k == j) - p[j]) * u for j in range(1, self.K)))
            for k in range(self.K)
        ]
        return p, grad

    def constrained(self, theta: Array, start: Array) -> Array:
        """Return theta: everything is allowed."""
        return theta


#: A likelihood of K classes as a function of theta and of a row's u.
Classes = ProportionalOdds | Multinomial


@dataclass(frozen=True, eq=False)
class CategoryModel(Expansion):
    """A likelihood of classes, initialised."""

    classes: Classes
    coordinates: Coordinates
    rarest: float  # Released share of the rarest class
    start: Array  # theta before the first pass

    def at(self, state: State, clip: float = math.inf) -> UnitFormula:
        """Return the rows of pass k."""
        return _Scores(self, state.theta, state.W)

    def events(self, H: Array) -> float:
        """Return 1."""
        return 1.0

    def constrained(self, theta: Array) -> Array:
        """Return theta where the likelihood allows it."""
        return self.classes.constrained(theta, self.start)

    def at_centre(self, theta: Array) -> tuple[Array, Array]:
        """Return (p (K,), grad p (K, r)) at the centre of the predictors."""
        a = self.coordinates.constant
        u = np.zeros((self.coordinates.rank, 1))
        if a is not None:
            u = (a / float(a @ a))[:, None]
        p, grad = at_public_rows(self.classes, theta, u)
        return p[:, 0], grad[:, :, 0]

    def typical_long(self, state: State) -> float:
        """Return the length of the score of the rarest class at the centre of the predictors.

        A class of share s has scores of about ``1/sqrt(s)`` in coordinates in which all together
        have unit mean square a coordinate: a second hump that a noisy histogram does not show. By
        theta, which noise may have led away, it is believed up to ``RARE_LENGTH_OF_UNITS`` times
        that.
        """
        p, grad = self.at_centre(state.theta)
        scores = grad / np.maximum(p, LEAST_PROBABILITY)[:, None]
        norms = np.linalg.norm(state.W @ scores.T, axis=0)
        most = RARE_LENGTH_OF_UNITS * math.sqrt(1.0 / self.rarest + len(state.theta))
        return min(float(norms.max()), most)


def at_public_rows(classes: Classes, theta: Array, u: Array) -> tuple[Array, Array]:
    """Return probabilities (K, m) and gradients (K, P, m) at public rows u (r, m)."""
    p, grad = classes.gradients(theta, Rows(u))
    return np.array([x.numbers[0] for x in p]), np.array([x.numbers for x in grad])


@dataclass(frozen=True, eq=False)
class _Scores:
    """Formula of the scores and the information of classes at a fit."""

    model: CategoryModel
    theta: Array
    W: Array

    def __call__(self, rows: Rows, person: OwnRows) -> Scores:
        """Return the score of each row, and K rows v of its information."""
        classes, y = self.model.classes, rows[-1]
        u = in_u(self.model.coordinates, rows)
        valid = (y >= 0.0) & (y <= classes.K - 1.0) & (y == np.floor(y)) & complete(u)
        u, y = only_where(u, valid), only_where(y, valid)
        p, grad = classes.gradients(self.theta, u)
        p = [where(x > LEAST_PROBABILITY, x, LEAST_PROBABILITY) for x in p]
        score = grad[0] / p[0]
        for k in range(1, classes.K):
            score = where(y == k, grad[k] / p[k], score)

        def information() -> tuple[Rows, ...]:
            parts = (only_where(g / np.sqrt(x), valid) for g, x in zip(grad, p, strict=True))
            return tuple(linear(self.W, part) for part in parts)

        return Scores(linear(self.W, only_where(score, valid)), information)


# -- Backends of ``dp_polr`` and ``dp_multinom``: passes over units of a likelihood of classes.


#: Noise sds of the first pass, in rows, that a class is to have.
CLASS_SEEN = 1.5
#: Least share of a class in the start, where it is not below the noise.
LEAST_SHARE = 0.002

#: The release of the passes.
release = release_fit


@dataclass(frozen=True)
class ChoiceModel(UnitModel):
    """A likelihood of classes, as planned: the start is the released distribution of classes."""

    classes: Classes

    cells: ClassVar[str] = "whole"  # the classes are among the places of values

    def dimension(self, rank: int) -> int:
        """Return the number of coefficients of a design of this rank."""
        K = self.classes.K
        if isinstance(self.classes, ProportionalOdds):
            return K - 1 + rank - 1
        return (K - 1) * rank

    def initialised_at(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design
    ) -> Initialised:
        """Start at the shares of the classes, slopes 0."""
        K = self.classes.K
        released = spreads[-1]
        share = np.maximum(released.shares[:K], max(LEAST_SHARE, released.noise))
        share = share / share.sum()
        if isinstance(self.classes, ProportionalOdds):
            link = LINKS[self.classes.link]
            theta = np.zeros(K - 1 + coordinates.rank - 1)
            theta[: K - 1] = [link.forward(float(q)) for q in np.cumsum(share)[:-1]]
        else:
            r, a = coordinates.rank, coordinates.constant
            theta = np.zeros((K - 1) * r)
            for k in range(1, K):
                if a is not None:
                    theta[(k - 1) * r : k * r] = math.log(float(share[k] / share[0])) * a
        at = Beginning(None, len(theta), None)
        model = CategoryModel(self.classes, coordinates, float(share.min()), theta)
        return Initialised(model, at.state(theta))


def _classes(request: Request, design: Design) -> Classes:
    """Return the likelihood of a call, or refuse."""
    K = len(design.levels)
    if K < 2:
        raise RequestError(
            f'"{request.formula}" has a response with {K} declared level: declare all of them, '
            'for example y=dp.Ordered(["low", "mid", "high"])'
        )
    if K > CELLS:  # the shares of the levels are asked in one cell each
        assert design.response is not None
        name = design.response.name
        raise RequestError(
            f"{request.verb} needs a response of at most {CELLS} levels, and {name!r} declares "
            f"{K}: join levels, or declare a scale as a number, as in schema={{{name!r}: "
            f"dp.Real(0, {K - 1})}}, and use dp_ols or dp_quantreg"
        )
    if request.verb == "dp_multinom":
        return Multinomial(K)
    return ProportionalOdds(K, request["link"])


def _checked(request: Request, design: Design) -> None:
    """Refuse a model that has no form here, before anything is read."""
    verb = request.verb
    if request.delta == 0:
        raise RequestError(f"{verb} adds Gaussian noise: give delta > 0, as in delta=1e-6")
    if request.weights is not None:
        raise RequestError(f"{verb} cannot use weights=: every row counts once")
    if design.offset is not None:
        raise RequestError(f"{verb} cannot use offset()")
    response = None if design.response is None else design.response.name
    declared = design.kinds.get(response or "")
    if verb == "dp_polr":
        if declared is not None and declared.kind != "ordered":
            raise RequestError(
                f"{response!r} has no declared order: schema={{{response!r}: dp.Ordered([...])}} "
                "lists its levels from the lowest; for levels without an order dp_multinom"
            )
        if not design.has_intercept:
            raise RequestError(
                "dp_polr has a threshold between any two levels and no intercept to leave out: "
                'write the formula without "- 1" and "+ 0"'
            )
        if design.p < 2:
            raise RequestError(
                f"dp_polr needs a predictor; for the shares of the levels dp_table('~ {response}')"
            )
        if design.unknown:
            return
        lost = ~public_coordinates(design, raw=True).identified
        if lost.any():  # by public ranges
            names = ", ".join(n for n, gone in zip(design.names, lost, strict=True) if gone)
            raise RequestError(
                f"dp_polr: {names} are combinations of other columns, whatever the rows, and "
                "thresholds would be mixed with them: drop a term"
            )


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a call of ``dp_polr`` or ``dp_multinom``."""
    _checked(request, design)
    model = ModelSpec((Chain(ChoiceModel(_classes(request, design))),), guess=0.0)
    return plan_fit(request, design, planning_rows(request, n), model, of_units=True)


def names_of(classes: Classes, design: Design) -> tuple[str, ...]:
    """Return the names of the coefficients: slopes and thresholds, or level by level."""
    labels = [str(level) for level in design.levels]
    if isinstance(classes, ProportionalOdds):
        cuts = [f"{low}|{high}" for low, high in itertools.pairwise(labels)]
        return (*design.names[1:], *cuts)
    return tuple(f"{label}:{name}" for label in labels[1:] for name in design.names)


def _back(classes: Classes, release: ScoringRelease, _: Fitting) -> tuple[Array, Array]:
    """Return (A, a): slopes and thresholds, or the coefficients of each level."""
    A = release.coordinates.back()[0]  # (p, r): map to a linear predictor u'theta
    K = classes.K
    if not isinstance(classes, ProportionalOdds):
        out: Array = np.asarray(np.kron(np.eye(K - 1), A), dtype=float)
        return out, np.zeros(len(out))
    p, r = A.shape
    out = np.zeros((p - 1 + K - 1, K - 1 + r - 1))
    out[: p - 1, K - 1 :] = A[1:, 1:]
    out[p - 1 :, : K - 1] = np.eye(K - 1)
    out[p - 1 :, K - 1 :] = -A[0, 1:]  # contribution of centred columns to every threshold
    return out, np.zeros(len(out))


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to slopes and thresholds, or to log odds against the first level.

    Log odds of levels with too few rows are marked not tested, with a note.
    """
    design = release.design
    classes = _classes(plan.request, design)
    lost = None
    if release.reply:
        gone = ~release.detail.coordinates.identified
        if isinstance(classes, ProportionalOdds):
            lost = np.concatenate([gone[1:], np.zeros(classes.K - 1, dtype=bool)])
        else:
            lost = np.tile(gone, classes.K - 1)
    base = str(design.levels[0])
    notes = (
        (messages.ORDINAL_SLOPES(),)
        if isinstance(classes, ProportionalOdds)
        else (messages.MULTINOMIAL_BASE(base=base),)
    )
    back: Back = functools.partial(_back, classes)
    names = names_of(classes, design)
    out = estimate_fit(
        plan, release, lambda _: {}, back=back, names=names, lost=lost, model_notes=notes
    )
    # A threshold compares all lower levels with all higher ones: a rare level does no harm.
    if not release.reply or isinstance(classes, ProportionalOdds):
        return out
    few = _unseen_classes(release.detail.fits[0], plan.detail.rows)
    if not few.any():
        return out
    each = len(out.names) // (classes.K - 1)
    open_ = np.repeat(few[1:] | few[0], each)
    levels = ", ".join(str(v) for v, rare in zip(design.levels, few, strict=True) if rare)
    who = "people" if plan.request.unit is not None else "rows"
    note = messages.RARE_LEVELS(who=who, levels=levels)
    untested = open_ if out.untested is None else out.untested | open_
    return replace(out, untested=untested, notes=(*out.notes, note))


def _unseen_classes(fit: Fitting, N: int) -> npt.NDArray[np.bool_]:
    """Return the classes whose expected count is too small for the noise of the first pass.

    A row moves the sum of scores by C at most, whose noise is so many rows long; classes are as
    many as the last theta expects at the centre of the predictors. Released numbers alone.
    """
    model, first = fit.model, fit.plans[0]
    assert isinstance(model, CategoryModel)
    p, _ = model.at_centre(fit.state.theta)
    return np.asarray(p * N < CLASS_SEEN * first.noise.score / first.clip)


CHOICE_BACKEND = Backend(plan, release, estimate, people=True)


# -- What models of categories predict: probabilities of the classes at public rows, or the class.


def predict(
    fit: Fit, new: Any, *, what: str, interval: str | None, level: float, se_fit: bool,
    outside: str,
) -> Any:  # fmt: skip
    """Predict ``what="probs"``, one column per class, or the likeliest ``"class"``.

    Probabilities have ``interval="confidence"`` and ``se_fit=``: a row for each row and class.
    """
    K, params = len(fit.design.levels), np.asarray(fit._record.estimate.params)
    classes: Classes = Multinomial(K)
    theta, places = params, np.arange(len(params))
    if fit._record.call.verb == "dp_polr":
        classes = ProportionalOdds(K, str(fit.options.get("link") or "logistic"))
        slopes = len(params) - (K - 1)
        cuts = np.maximum.accumulate(params[slopes:])  # noise may have crossed two
        theta = np.concatenate([cuts, params[:slopes]])
        places = np.roll(places, -(K - 1))  # of the coefficients in theta
    X = np.asarray(fit.design.matrix(new, outside=outside), dtype=float)
    what = "class" if what == "mean" else what
    choice("what", {"prob": "probs"}.get(what, what), ("probs", "class"))
    choice("interval", interval, (None, "confidence"))
    index, levels = getattr(new, "index", None), list(fit.design.levels)
    missing: Any = np.isnan(X).any(axis=1) | bool(np.isnan(theta).any())
    with_errors = (interval, se_fit)
    if what == "class" and any(with_errors):
        raise RequestError(
            "a class has no interval= and no se_fit=: its probability has, predict(new, "
            'what="probs", interval="confidence")'
        )
    u, finite = np.where(missing, 0.0, X.T), np.nan_to_num(theta)
    p = np.where(missing[:, None], np.nan, at_public_rows(classes, finite, u)[0].T)
    if any(with_errors):
        grad = at_public_rows(classes, finite, u)[1][:, places]
        return _with_errors(fit, p, grad, index, with_errors, level)
    if what == "prob":
        return pd.DataFrame(p, index=index, columns=levels)
    best = np.where(missing, 0, np.nan_to_num(p, nan=-1.0).argmax(axis=1))
    out = pd.Series([levels[k] for k in best.tolist()], index=index, name="class")
    return out.mask(missing) if missing.any() else out


def _with_errors(
    fit: Fit, p: Array, grad: Array, index: Any, with_errors: tuple[str | None, bool], level: float
) -> Any:
    """Return probabilities p (m, K) with errors, by their gradient (K, P, m) by coefficients."""
    odds = np.clip(p, LEAST_SHOWN, 1.0 - LEAST_SHOWN)
    L = (grad.transpose(2, 0, 1) / (odds * (1.0 - odds))[:, :, None]).reshape(p.size, -1)
    widths = cast("Predictions", fit)._widths(np.nan_to_num(L), level)
    gone = np.isnan(L).any(axis=1)
    se, half = (np.where(gone, np.nan, part).reshape(p.shape) for part in widths)
    interval, se_fit = with_errors
    return of_classes(list(fit.design.levels), p, se, half, index, interval=interval, se_fit=se_fit)


# -- Methods of models of categories, as data.


_choice = functools.partial(
    Method, name="scoring", proof="models/choice.md", backend=CHOICE_BACKEND,
    needs=("delta > 0", "several passes"), relations=("replace", "add-remove"), foretells=True,
    accepts=("public",),
)  # fmt: skip

register_method(_choice(
    verb="dp_polr", title="proportional odds, private",
    reference="McCullagh (1980); theory note models/choice.md",
    options=(
        one_of("link", "distribution of the latent response", "logistic", "probit", "cloglog"),
        BOUNDS_SHARE, GUESS, STOP,
    ),
))  # fmt: skip
register_method(_choice(
    verb="dp_multinom", title="multinomial logit, private",
    reference="Theil (1969), McFadden (1974); theory note models/choice.md",
    options=(BOUNDS_SHARE, GUESS, STOP),
))  # fmt: skip
