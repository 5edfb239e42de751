"""From released data to an estimate: which loss, which correction, which errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.noised.linear import LinearFit, fit_linear, fit_linear_one_draw
from dpmodels.models.noised.sums import second_model
from dpmodels.release import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpmodels.formula.design import Design
    from dpmodels.models.noised.model import Model
    from dpmodels.request import Request

#: Signal of the smallest eigenvalue, in standard errors: below these a warning, no errors.
WEAK, TOO_WEAK = 5.0, 2.0


def split_errors(total: Array, sampling: Array | None) -> tuple[Array, Array]:
    """Return (sampling, privacy) parts, both positive semidefinite, that add up to ``total``.

    ``sampling`` is what the variance would be without noise; directions where it comes out above
    the total are cut down to it.
    """
    if sampling is None or not np.isfinite(sampling).all():
        return total, np.zeros_like(total)
    values, vectors = np.linalg.eigh(total)
    top = max(float(values[-1]), 1e-300)
    root = np.sqrt(np.maximum(values, 1e-14 * top))
    half = vectors * root
    back = vectors / root
    ratio = back.T @ sampling @ back
    w, u = np.linalg.eigh(0.5 * (ratio + ratio.T))
    middle = (u * np.clip(w, 0.0, 1.0)) @ u.T
    part = half @ middle @ half.T
    return part, total - part


def signal_warnings(signal: float) -> list[str]:
    """Return the warning of a design whose noise nearly hides a direction."""
    if signal >= WEAK:
        return []
    text = f"weak signal: the smallest eigenvalue of the corrected moments is {signal:.2g} SE"
    rest = " above zero; no standard errors" if signal < TOO_WEAK else " above zero"
    return [text + rest + ". More rows, fewer columns or a larger eps would help"]


def at_the_edge(names: Sequence[str], edge: npt.NDArray[np.bool_]) -> str:
    """Return the warning of a fit that ends at an end of ``theta=``."""
    listed = ", ".join(str(name) for name, at in zip(names, edge, strict=True) if at)
    return f"at an end of theta=: {listed}; no standard errors"


def fit_least_squares(request: Request, model: Model, notes: list[str]) -> Estimate:
    """Fit least squares in closed form."""
    name, draw = request.method.name, request.options.get("draw_seed")
    if name == "naive":
        fit = fit_linear(model, corrected=False)
        notes.append("NAIVE: the noise in the columns is ignored; slopes are biased towards 0.")
    elif name == "sl":
        fit = fit_linear(second_model(model, draw))
    elif request.options.get("variant") == "paper":
        if model.clear_prob == 0.0:
            raise RequestError(
                "variant='paper' is the one-draw form, which needs a release with clear_prob > 0. "
                "Drop variant=: the default form needs no second draw"
            )
        fit = fit_linear_one_draw(model, second_model(model, draw))
    else:
        fit = fit_linear(model)
    return _linear_estimate(request, model, fit, notes)


def _linear_estimate(request: Request, model: Model, fit: LinearFit, notes: list[str]) -> Estimate:
    warned = signal_warnings(fit.signal)
    stats: dict[str, float] = {"signal": fit.signal}
    if not np.isfinite(fit.theta).all():
        warned = [
            "signal below noise: the corrected second moment is not positive definite, so there is "
            "no estimate. More rows, fewer columns or a larger eps would help"
        ]
        return Estimate(
            model.names, fit.theta, stats=stats, notes=tuple(notes), warnings=tuple(warned)
        )
    if math.isfinite(fit.sigma2):
        stats["sigma"] = math.sqrt(fit.sigma2)
        spread = float(model.y.var()) - (1.0 - model.clear_prob) * float(model.total[-1, -1])
        stats["rsquared"] = 1.0 - fit.sigma2 / spread if spread > fit.sigma2 else math.nan
    sampling = privacy = None
    if fit.cov is not None and request.inference and fit.signal >= TOO_WEAK:
        clean = None
        if math.isfinite(fit.sigma2):
            clean = fit.sigma2 * np.linalg.inv(fit.M) / model.n
        sampling, privacy = split_errors(fit.cov, clean)
    return Estimate(
        model.names,
        fit.theta,
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        stats=stats,
        notes=tuple(notes),
        warnings=tuple(warned),
    )


def column_scales(design: Design, model: Model) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return widths of the predictor columns (standardised units) and which are slopes."""
    scale, slopes = np.ones(model.p), np.ones(model.p, dtype=bool)
    for j, column in enumerate(design.columns):
        if column.kind == "intercept":
            slopes[j] = False
            continue
        if column.interval is not None and column.interval[1] > column.interval[0]:
            scale[j] = column.interval[1] - column.interval[0]
        else:
            spread = float(model.X[:, j].std())
            scale[j] = spread if spread > 0 else 1.0
    return scale, slopes
