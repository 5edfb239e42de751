"""Fits on a noised table: the methods ``drcl``, ``sdrcl``, ``sl`` and ``naive`` of four verbs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import RequestError, choice, shown
from dpmodels.families import FAMILIES, family_of
from dpmodels.formula.design import Design
from dpmodels.models.noised.losses import (
    IndexLoss,
    Logistic,
    Loss,
    Poisson,
    Squared,
    check,
    hinge,
    huber,
)
from dpmodels.models.noised.model import Model, model_of, second_model
from dpmodels.models.noised.objective import (
    BOX_RADIUS,
    LEAST_CONVERGED,
    RESAMPLES,
    Objective,
    Solution,
    is_quick,
    minimise,
    objective_of,
    resampled_covariance,
    resampled_fits,
    residual_mad,
)
from dpmodels.models.noised.outlook import (
    Outlook,
    checked_guesses,
    expected_of,
    outlook,
    poor_outlook,
    refusal,
)
from dpmodels.models.noised.release import Settings, TablePlan, make_table, plan_table
from dpmodels.models.noised.solve import (
    TOO_WEAK,
    WEAK,
    at_the_edge,
    column_scales,
    differences,
    fit_function,
    fit_least_squares,
    signal_warnings,
    split_errors,
    weak_signal,
)
from dpmodels.models.noised.table import NoisyTable, notes_of_table
from dpmodels.notes import Note
from dpmodels.planning import Plan
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend, Method, Option, one_of, positive, register_method
from dpmodels.scoring.notes import no_ranges_note
from dpmodels.sums.ask import Ask
from dpmodels.verbs import verb_of

LOSSES = ("squared", "logistic", "poisson", "geometric", "quantile", "median", "huber", "hinge")


class NotOffered(RequestError, NotImplementedError):
    """A combination of loss and noise for which no correction is known or offered."""


def loss_of(request: Request) -> Loss | Any:
    """Return the loss of a call; a user's function of (y, X, theta) is returned as it is."""
    options, name = request.options, verb_of(request.verb).loss
    if name == "family":
        name = family_of(options.get("family") or "binomial").loss
    return _named(options.get("loss") if name == "option" else name, options)


def _named(loss: Any, options: Any) -> Any:
    """Return the loss that ``loss=`` names, or the user-supplied one."""
    if isinstance(loss, Loss) or callable(loss):
        return loss
    hint = " Or give dp.IndexLoss(value, d1, d2, ...), or a function loss(y, X, theta) of arrays"
    choice("loss", loss, LOSSES, more=hint)
    if loss in ("quantile", "median"):
        tau = 0.5 if loss == "median" else options.get("tau")
        if isinstance(tau, bool) or not isinstance(tau, (int, float)) or not 0 < tau < 1:
            raise RequestError(f"tau must lie strictly between 0 and 1, got {shown(tau)}")
        return check(float(tau))
    if loss == "huber":
        k = options.get("k")
        if k is None:
            raise RequestError("loss='huber' needs k=, the corner of the loss in units of y (> 0)")
        return huber(float(k))
    if loss == "hinge":
        return hinge()
    if loss == "squared":
        return Squared()
    return Poisson() if loss == "poisson" else Logistic(geometric=loss == "geometric")


def box_of(request: Request, names: Sequence[str]) -> tuple[Array, Array] | None:
    """Return the ends of ``theta=``, infinite for coefficients that it does not name; or None.

    A function of the request and of the names: it is asked before any row is read.
    """
    typed = request.options.get("theta")
    if typed is None:
        return None
    lower, upper = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    pairs = typed if isinstance(typed, Mapping) else dict.fromkeys(names, typed)
    for name, pair in pairs.items():
        if name not in names:
            raise RequestError(
                f"theta= names {shown(name)}, which is not a coefficient; there are: "
                + ", ".join(map(str, names))
            )
        ends = list(pair) if isinstance(pair, (tuple, list)) else []
        if (
            len(ends) != 2
            or not all(isinstance(v, Real) and not isinstance(v, bool) for v in ends)
            or not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < ends[1])
        ):
            raise RequestError(
                "theta= must be two finite limits per coefficient, the lower first, as in "
                f"theta=(0, 2), or a dict of name -> limits, got {shown(pair)}"
            )
        k = list(names).index(name)
        lower[k], upper[k] = ends
    return lower, upper


def check_loss(request: Request, noise: str, blocks: int, p: float, noisy_y: bool) -> None:
    """Refuse a loss without a correction: a function of the request and of public facts only."""
    loss = loss_of(request)
    h = request.options.get("h")
    name = request.method.name
    if request.options.get("variant") == "paper" and p == 0.0:
        raise RequestError(
            "variant='paper' is the one-draw form, which needs a release with clear_prob > 0"
        )
    if name == "naive":
        return
    if not isinstance(loss, Loss):
        if noise != "sl" or blocks > 1:
            raise NotOffered(
                "a loss given as a function of (y, X, theta) needs noise='sl' in one block; this "
                f"is noise={noise!r}. Give dp.IndexLoss(value, d1, d2) instead, or release with "
                "noise='sl'"
            )
        return
    if loss.public_y and noisy_y:
        raise RequestError(
            f"the {loss.name} loss needs a response that was not noised: its correction in y is "
            "not known. Release the response with public_columns=[...] if it needs no protection"
        )
    if isinstance(loss, Squared):
        return
    if noise == "gaussian":
        raise NotOffered(
            f"the {loss.name} loss on Gaussian noise is not offered: its correction is a series "
            "that does not end. Release with noise='sl', or noise='laplace' for smooth losses; "
            "linear models work on every noise"
        )
    if loss.kinked and (noise == "laplace" or blocks > 1):
        raise NotOffered(
            f"the {loss.name} loss has kinks, and on independent noise of several columns no "
            "correction is offered. Release with noise='sl' in one block"
        )
    if loss.kinked and p == 0.0 and h == 0:
        raise RequestError(
            f"the {loss.name} loss has kinks: without clear records (clear_prob = 0) its "
            "correction needs smoothing. Drop h= (a width is chosen by rule) or give h > 0"
        )
    if loss.kinked and name in ("sl", "sdrcl") and h == 0:
        raise RequestError(f"method={shown(name)} with the {loss.name} loss needs h > 0")


def sandwich(
    objective: Objective, theta: Array, scale: Array, V: Array | None = None
) -> tuple[Array, Array] | None:
    """Return V^{-1} and V^{-1} A V^{-1} / n, A the score moment, or None if V is indefinite.

    ``V`` given for kinked losses.
    """
    if V is None:
        V = objective.hessian(theta)[2]
    S = V / np.outer(scale, scale)
    if not np.isfinite(S).all() or not float(np.linalg.eigvalsh(S)[0]) > 0:
        return None
    inverse = np.asarray(np.linalg.inv(V), dtype=np.float64)
    cov = inverse @ objective.score_moment(theta) @ inverse.T / objective.total
    return inverse, 0.5 * (cov + cov.T)


def difference_hessian(objective: Objective, theta: Array, scale: Array, step: float) -> Array:
    """Return the Hessian by central differences of the gradient, symmetrised."""
    H = differences(lambda at: objective.gradient(at)[1], theta, step / scale)
    return 0.5 * (H + H.T)


def fit_loss(request: Request, design: Design, model: Model, notes: list[Note]) -> Estimate:
    """Fit a loss to the released data."""
    check_loss(request, model.noise, len(model.K), model.clear_prob, model.noisy_y)
    loss = loss_of(request)
    kind = "paper" if request.options.get("variant") == "paper" else request.method.name
    box = box_of(request, design.names)
    if not isinstance(loss, Loss):
        return fit_function(request, design, model, loss, kind, notes, box)
    if isinstance(loss, Squared) and box is None:
        return fit_least_squares(request, model, notes)
    if not loss.of_residual and float(np.abs(model.total[-1, :-1]).max()) > 0:
        raise RequestError("the response shares a noised column with the right-hand side")
    model = _response(loss, model)
    second = None
    if model.clear_prob > 0 and kind in ("paper", "sl", "sdrcl"):
        second = second_model(model, request.options.get("draw_seed"))
    objective = objective_of(loss, model, kind, second)
    scale, slopes = column_scales(design, model)
    if kind == "naive":
        notes.append(messages.NAIVE())
    h = request.options.get("h")
    clear = model.clear_prob if kind in ("drcl", "paper") else 0.0
    solution = minimise(
        objective, scale, slopes,
        radius=float(request.options.get("radius") or BOX_RADIUS),
        h=None if h is None else float(h),
        p=clear,
        progress=request.progress,
        box=box,
    )  # fmt: skip
    return _estimate(request, model, objective, solution, scale, notes, clear, slopes, box)


def _response(loss: Loss, model: Model) -> Model:
    """Code a 0/1 response as -1/1 for the hinge loss."""
    if loss.name != "hinge":
        return model
    values = np.unique(model.y)
    if set(values.tolist()) <= {0.0, 1.0}:
        return replace(model, y=2.0 * model.y - 1.0)
    if set(values.tolist()) <= {-1.0, 1.0}:
        return model
    raise RequestError("loss='hinge' needs a public response that is 0 or 1 (or -1 or 1)")


def _estimate(
    request: Request, model: Model, objective: Objective, solution: Solution, scale: Array,
    notes: list[Note], clear: float, slopes: npt.NDArray[np.bool_], box: Any,
) -> Estimate:  # fmt: skip
    """Return the estimate of a corrected loss with its errors, or without them."""
    loss, theta = objective.loss, solution.theta
    # second moments of the clean columns
    M = model.X.T @ model.X / model.n - (1.0 - model.clear_prob) * model.total[:-1, :-1]
    signal = weak_signal(M, model) if len(objective.K) else math.inf
    warned = signal_warnings(signal)
    stats: dict[str, float] = {
        "converged": float(solution.converged),
        "gradient": solution.gradient,
        "signal": signal,
    }
    if loss.kinked:
        stats["h"] = solution.h
        if len(objective.K):
            notes.append(messages.SMOOTHED_KINKS(loss=loss.name, h=solution.h))
    if not solution.converged:
        extra = ""
        if loss.name == "poisson":
            extra = " family='geometric' (consistent for the same mean) is always defined."
        warned.append(f"NOT CONVERGED: {solution.why}; no standard errors.{extra}")
    edge = solution.edge if solution.edge is not None and solution.edge.any() else None
    if edge is not None:
        warned.append(at_the_edge(model.names, edge))
    sampling = privacy = None
    blurred = loss.name in ("check", "hinge") and clear == 0.0 and len(objective.K) > 0
    if blurred and request.inference:
        notes.append(messages.SMOOTHED_CORNER())
    biased = blurred or request.method.name == "naive"  # by an amount that is in no error
    if solution.converged and edge is None and request.inference and not biased:
        used = _Fitted(request, model, objective, solution, scale, slopes, clear)
        inverse, total, resampled = used.covariance(signal, boxed=box is not None)
        if resampled:
            warned = signal_warnings(signal, -math.inf)
        if total is None:
            warned += used.without_errors(signal, resampled)
        else:
            if resampled:
                notes.append(messages.RESAMPLED(count=RESAMPLES, least=WEAK, signal=signal))
            clean = None if inverse is None else _clean_variance(loss, model, inverse, M)
            if clean is None:
                notes.append(messages.ONE_COVARIANCE())
            sampling, privacy = split_errors(total, clean)
    return Estimate(
        model.names, theta,
        vcov_sampling=sampling, vcov_privacy=privacy,
        stats=stats, notes=tuple(notes), warnings=tuple(warned),
    )  # fmt: skip


_FEW_CONVERGED = (
    f"fewer than {LEAST_CONVERGED:.0%} of the fits of resampled rows converged; no standard errors"
)


@dataclass(frozen=True)
class _Fitted:
    """A converged fit of a loss, and its errors."""

    request: Request
    model: Model
    objective: Objective
    solution: Solution
    scale: Array
    slopes: npt.NDArray[np.bool_]
    clear: float

    def resampled(self, signal: float, *, boxed: bool) -> bool:
        """Return whether errors come from resampled rows: as asked, else where signal is weak."""
        errors = self.request.options.get("errors")
        if errors is not None:
            return bool(errors == "bootstrap")
        return signal < WEAK and not boxed and is_quick(self.objective)

    def covariance(self, signal: float, *, boxed: bool) -> tuple[Array | None, Array | None, bool]:
        """Return inverse Hessian and covariance (or None), and whether that is resampled."""
        resampled = self.resampled(signal, boxed=boxed)
        sandwich = self.sandwich() if resampled or signal >= TOO_WEAK else None
        inverse, total = (None, None) if sandwich is None else sandwich
        return inverse, self.bootstrap() if resampled else total, resampled

    @staticmethod
    def without_errors(signal: float, resampled: bool) -> list[str]:
        """Return the warning of a fit without errors, unless the weak signal explains it."""
        if resampled:
            return [_FEW_CONVERGED]
        if signal < TOO_WEAK:
            return []
        return ["the Hessian is not positive definite at the estimate; no standard errors"]

    def sandwich(self) -> tuple[Array, Array] | None:
        """Return the inverse Hessian and the sandwich, or None if the Hessian is indefinite."""
        V, used = None, self.objective.with_h(self.solution.h)
        if self.objective.loss.kinked:
            mad = residual_mad(self.objective, self.solution.naive)
            # without clear records the curvature at the estimate is noisy: look at it more widely
            wider = 1.0 if self.model.clear_prob > 0 else 2.0
            wide = self.objective.with_h(wider * max(self.solution.h, 0.3 * mad))
            V = difference_hessian(wide, self.solution.theta, self.scale, 0.02)
        return sandwich(used, self.solution.theta, self.scale, V)

    def bootstrap(self) -> Array | None:
        """Return the covariance of fits of resampled rows, or None if too few of them converged."""
        radius = float(self.request.options.get("radius") or BOX_RADIUS)
        return resampled_covariance(
            resampled_fits(
                self.objective, self.solution, self.scale, self.slopes,
                radius=radius, p=self.clear, progress=self.request.progress,
            )
        )  # fmt: skip


def _clean_variance(loss: Loss, model: Model, inverse: Array, M: Array) -> Array | None:
    """Return the covariance for data without noise, or None if the loss does not determine it."""
    total = float(model.n) if model.weights is None else float(model.weights.sum())
    if model.weights is not None or isinstance(loss, IndexLoss):
        return None
    if loss.name in ("logistic", "poisson"):
        return np.asarray(inverse / total)
    if loss.name == "check":
        tau = float(getattr(loss, "slope", 0.0) or 0.0) + 0.5
        return np.asarray(tau * (1.0 - tau) * inverse @ M @ inverse / total)
    return None


# -- ``method="drcl"`` and its kin: plan, release and estimate of every verb that offers them.


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a release of the design's own columns, and the fit on it."""
    if request.na != "impute-midpoint":
        raise RequestError(
            f"na={request.na!r}: a noised table has no zero rows, and refusing a row would reveal "
            "a missing cell. method='drcl' and its kin use na='impute-midpoint' only"
        )
    for what in ("subset", "weights", "offset"):
        if getattr(design, what) is not None:
            raise RequestError(
                f"{what}= needs public columns with method={request.method.name!r}. Make the "
                "release first, rel = dp_release(data, ..., public_columns=[...]), and fit on it"
            )
    box_of(request, design.names)
    settings = Settings.of(request.options)
    if settings.noise == "auto" and request.method.name != "naive":
        loss = loss_of(request)  # with kinks, or a free function: SL noise
        if not isinstance(loss, Loss) or loss.kinked:
            settings = replace(settings, noise="sl")
        elif request.verb != "dp_ols" and loss.name != "squared":
            settings = replace(settings, noise="auto-smooth")
    table = plan_table(design, n, request.eps, request.delta, settings)
    ends = design.intervals()[list(table.layout.rows)]
    widths = ends[:, 1] - ends[:, 0]
    scale: Mapping[str, float] = {
        f"noise sd of {name}": sd * s
        for name, sd, s in zip(table.layout.names, table.noise.sd, widths.tolist(), strict=True)
        if s == s
    }
    noisy_y = design.p in table.layout.rows
    check_loss(request, table.noise.noise, len(table.noise.blocks), table.noise.clear_prob, noisy_y)

    expected, errors, sentences = expected_of(request, design, table, n)
    seen, warning = _foreseen(request, table)
    refused = refusal(seen, warning)
    return Plan(
        request, design, n, table.steps, table.guarantee,
        scales={**scale, **expected}, expected_se=errors, purchase=table.purchase,
        detail=table, reasons=(*request.reasons, *sentences),
        advice=table.advice if refused or not warning else (warning, *table.advice),
        passes=table.passes, forecast=seen.forecast, verdict=seen.verdict, refusal=refused,
    )  # fmt: skip


#: Calls that fit one model without noised rows, by verb.
_WITHOUT_ROWS = {
    "dp_ols": "dp_ols(..., method='ssp')",
    "dp_glm": "dp_glm(..., method='scoring')",
    "dp_quantreg": "dp_quantreg(..., method='scoring')",
}


def _foreseen(request: Request, table: TablePlan) -> tuple[Outlook, str]:
    """Return the outlook of a fit on its release, and a warning if it is poor."""
    design = table.design
    columns = (*design.names, *(() if design.response is None else (design.response.name,)))
    guesses = checked_guesses("variances", request.options.get("variances"), columns)
    seen = outlook(table, guesses)
    if request.method.name == "naive" or request.options.get("accept_no_estimate"):
        return seen, ""
    return seen, poor_outlook(table, seen, guesses, _WITHOUT_ROWS.get(request.verb, ""))


def release(plan: Plan[Any], ask: Ask) -> Release:
    """Release the noised table of the plan. **Privacy.** Unit and charge: as in the plan."""
    table = make_table(plan.detail, ask)
    if table is None:
        return Release({}, plan.guarantee, plan.design, reply=False, why="ranges")
    return Release({}, plan.guarantee, table.design, detail=table)


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Fit the model to the released table."""
    if not release.reply:
        return no_ranges_note(release.design.names)
    table: NoisyTable = release.detail
    request, notes = plan.request, list(notes_of_table(table, brief=True))
    if table.clear_prob > 0 or request.method.name == "naive":
        notes.append(messages.ESTIMATOR(title=request.method.title))
    model = model_of(release.design, table)
    if verb_of(request.verb).loss == "squared":
        return fit_least_squares(request, model, notes)
    return fit_loss(request, release.design, model, notes)


def plan_on_release(request: Request, design: Design, table: NoisyTable) -> Plan[Any]:
    """Return the plan of a fit on a release: nothing is read and nothing is charged."""
    scales: dict[str, Any] = {
        f"noise sd of {name}": float(sd)
        for name, sd in zip(table.names, table.noise_sd, strict=True)
    }
    return Plan(
        request, design, table.n, table.guarantee.steps, table.guarantee, scales=scales,
        reasons=("Fitted on a release that was made before: this fit cost nothing.",),
    )  # fmt: skip


DRCL_BACKEND = Backend(plan, release, estimate)


# -- Methods of this room, as data.


_REFERENCE = "Long, Chen, Qiu: Versatile differentially private learning for general loss functions"

#: Options of the release that a straight fit makes.
RELEASE_OPTIONS = (
    one_of("unit", "protected unit: 'record' or 'attribute'", "record", "attribute"),
    one_of("noise", "kind of noise", "auto", "sl", "laplace", "gaussian"),
    Option("blocks", "columns that share one radius of SL noise: list of lists", None, object),
    Option("clear_prob", "probability that a record is published UNPERTURBED", 0.0, (float, int)),
    Option("allow_clear_records", "accept clear_prob above 1/(10 n)", False, bool),
    Option("accept_no_estimate", "release although no estimate is to be expected", False, bool),
    Option("public_columns", "variables published as they are: NOT PROTECTED", (), object),
    Option("keep_order", "state that the order of the rows is public", False, bool),
    Option("tight", "exact calibration of SL noise", True, bool),
    Option(
        "rescale",
        "measure scales first, and clip beyond this number of them (True: 4; False: none)",
        True,
        (bool, float, int),
    ),
)  # fmt: skip

#: For plan() only.
PLAN_OPTIONS = (
    Option("variances", "plan(): public guesses of the columns' variances", None, object),
    Option("guess", "plan(): public guesses of the coefficients", None, object),
    positive("sigma", "plan(): public guess of the error sd"),
)

ERRORS = one_of(
    "errors",
    "standard errors of losses but least squares: the 'sandwich', or a 'bootstrap' of the "
    "released rows (free; seconds to minutes); by default the bootstrap if the signal is weak",
    "sandwich",
    "bootstrap",
    default=None,
)
VARIANT = one_of("variant", "'paper': the one-draw form (needs clear_prob > 0)", "default", "paper")
DRAW = Option("draw_seed", "seed of the second draw at analysis time", None, int)

_TITLES = {
    "drcl": "Corrected loss on a noised table (integrated DRCL)",
    "sdrcl": "Smoothed doubly random corrected loss on a noised table",
    "sl": "SL corrected loss on a noised table",
    "naive": "Uncorrected loss on a noised table",
}


def register_family(verb: str, options: tuple[Option, ...] = ()) -> None:
    """Register the methods of this package for a verb."""
    for name, title in _TITLES.items():
        own_options = (
            (VARIANT, DRAW) if name == "drcl" else (DRAW,) if name in ("sdrcl", "sl") else ()
        )
        register_method(
            Method(
                name=name,
                verb=verb,
                proof="models/noised/theory.md",
                title=title,
                backend=DRCL_BACKEND,
                by_rows=True,
                needs=("one pass",),
                reference=_REFERENCE,
                options=(*options, *own_options, *RELEASE_OPTIONS, *PLAN_OPTIONS),
                comparison_only=name == "naive",
                accepts=("release", "weights"),
                na="impute-midpoint",
            )
        )


_SLOPE_RADIUS = positive("radius", "slopes (times the column widths) stay inside", 20.0)
_THETA = Option(
    "theta",
    "ends of the coefficients, the intercept too: (lower, upper), or a dict of name -> ends; the "
    "fit then stays inside (None: slopes stay inside radius=)",
    None,
    object,
)
_SMOOTHING = Option(
    "h", "smoothing of kinks, in units of the response; None: by rule", None, (float, int)
)
_TAU = Option("tau", "quantile", 0.5, (float, int))

register_family("dp_ols")
register_family(
    "dp_glm",
    (
        one_of("family", "response family", *(f.name for f in FAMILIES.values() if f.loss)),
        one_of("link", "fixed by the family", "logit", "log", default=None),
        ERRORS,
        _SLOPE_RADIUS,
        _THETA,
    ),
)  # fmt: skip
register_family("dp_quantreg", (_TAU, _SMOOTHING, ERRORS, _SLOPE_RADIUS, _THETA))
register_family(
    "dp_mest",
    (
        Option("loss", "name, dp.IndexLoss, or a function of (y, X, theta)", None, object),
        positive("k", "corner of the Huber loss, in units of the response"),
        _TAU,
        _SMOOTHING,
        ERRORS,
        _SLOPE_RADIUS,
        _THETA,
    ),
)
