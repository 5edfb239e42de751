"""Curves of a kernel regression between their released points. Post-processing only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, choice
from dpmodels.models.kernel.kernel import curve, gaussian

if TYPE_CHECKING:
    from dpmodels.results.fit import Fit

__all__ = ["plot_curve", "predict_curve"]


def _values(fit: Fit, u: Array) -> tuple[Array, Array]:
    """Return (f, privacy se) on the [-1, 1] scale at points u (k, d)."""
    arrays = fit.arrays
    points = arrays["unit_points"]
    h, _, _, sigma = arrays["scale"].tolist()
    if "white" in arrays:
        from scipy.linalg import cholesky, solve_triangular

        K = gaussian(points, points, h)
        K[np.diag_indices_from(K)] += 1e-8
        L = cholesky(K, lower=True)
        # the noisy functions themselves: N(q) = K(q, Z) K(Z, Z)^{-1} N(Z), exact at Z
        weights = solve_triangular(L, arrays["white"], lower=True, trans="T")
        N, D = (gaussian(u, points, h) @ weights).T
        return curve(N, D, sigma)
    f = arrays["f"]
    if points.shape[1] == 1:
        order = np.argsort(points[:, 0])
        return (
            np.interp(u[:, 0], points[order, 0], f[order]),
            np.interp(u[:, 0], points[order, 0], arrays["se"][order]),
        )
    nearest = ((u[:, None, :] - points[None]) ** 2).sum(2).argmin(1)
    return f[nearest], arrays["se"][nearest]


def predict_curve(
    fit: Fit,
    new: Any,
    *,
    what: str,
    interval: str | None,
    level: float,
    se_fit: bool,
    outside: str,
) -> Any:
    """Predict the curve at new points: interpolation of released values, never new noise.

    ``interval="confidence"`` is the privacy band: it covers the kernel estimate without privacy.

    Privacy
    -------
    Post-processing of released numbers.
    """
    import pandas as pd
    from scipy.special import ndtri

    choice("what", what, ("mean",))
    choice("interval", interval, (None, "confidence", "prediction"))
    if interval == "prediction":
        raise RequestError("a kernel regression releases no residual variance; use 'confidence'")
    design, arrays = fit.design, fit.arrays
    keep = [j for j, c in enumerate(design.columns) if c.kind != "intercept"]
    x = np.asarray(design.matrix(new, outside=outside), dtype=float)[:, keep]
    index = getattr(new, "index", None)
    if not fit.released:
        return pd.Series(np.nan, index=range(len(x)) if index is None else index, name="fit")
    missing = np.isnan(x).any(axis=1)
    u = np.clip((np.where(np.isnan(x), 0.0, x) - arrays["centre"]) / arrays["half"], -1.0, 1.0)
    f, se = _values(fit, u)
    _, centre, half, _ = arrays["scale"].tolist()
    mean = np.where(missing, np.nan, centre + half * f)
    if interval is None and not se_fit:
        return pd.Series(mean, index=index, name="fit")
    columns = {"fit": mean}
    if interval is not None:
        reach = float(ndtri(0.5 + level / 2.0)) * half * se
        columns |= {"lwr": mean - reach, "upr": mean + reach}
    if se_fit:
        columns["se_fit"] = half * se
    return pd.DataFrame(columns, index=index)


def plot_curve(fit: Fit, ax: Any = None, *, level: float = 0.95, color: str | None = None) -> Any:
    """Draw a curve in one variable with its privacy band.

    The band covers the kernel estimate that would be computed without privacy; a gap is a point
    without a reply.

    Privacy
    -------
    Post-processing of released numbers.
    """
    import matplotlib.pyplot as plt
    from scipy.special import ndtri

    arrays = fit.arrays
    if not fit.released or arrays["points"].shape[1] != 1:
        raise RequestError("plot() draws a released curve in one variable; use predict() otherwise")
    if ax is None:
        _, ax = plt.subplots()
    order = np.argsort(arrays["points"][:, 0])
    x = arrays["points"][order, 0]
    _, centre, half, _ = arrays["scale"].tolist()
    mean = centre + half * arrays["f"][order]
    reach = float(ndtri(0.5 + level / 2.0)) * half * arrays["se"][order]
    (line,) = ax.plot(x, mean, color=color)
    ax.fill_between(x, mean - reach, mean + reach, color=line.get_color(), alpha=0.25, linewidth=0)
    name = next(c.name for c in fit.design.columns if c.kind != "intercept")
    ax.set_xlabel(name)
    ax.set_ylabel(fit.design.response.name)
    ax.set_title(f"{100 * level:g} % privacy band")
    return ax
