"""Standard errors that allow unequal variances: one more release, the moments of the scores.

At the released coefficients d of the last stage, row i of weighted least squares has the score
``c_i^2 x_i (r_i - x_i'd)``. Whitened by the released bread and scaled into a ball, scores are rows
in a ball: their Gram matrix goes out as every other one does. Its inverse maps give the meat of a
sandwich (``theory.md``, 4.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.end import ball_integers
from dpmodels.exact.passes import Moments, ball_map, ball_sd, moments_query
from dpmodels.exact.products import cross_product, mapped, squares
from dpmodels.exact.rowmap import RowMap
from dpmodels.exact.sets import Ball
from dpmodels.exact.symmetric import floored_cholesky
from dpmodels.models.linear.facts import Scores
from dpmodels.models.linear.inference import last_fit
from dpmodels.models.linear.stages import Stages
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.rowmap import UnitScale
    from dpmodels.formula.design import Design
    from dpmodels.models.linear.facts import Report, Stage
    from dpmodels.models.linear.stages import Passes
    from dpmodels.planning import Plan
    from dpmodels.privacy.mechanisms import Gaussian, Pure
    from dpmodels.request import Request

#: Share of the budget (mu^2; eps when delta = 0) of the scores.
SHARE = 0.1
#: Squared radius of the scores over their mean square ``p v``, at least.
RADIUS = 3.0
#: Noise of a variance, relative to it, up to which a larger radius costs nothing that matters.
QUIET = 0.15
#: Above this relative noise the standard errors are themselves too noisy: advice.
LOUD = 0.3
#: A row this near to the ball, in squared norm, was scaled onto it.
_ON_BALL = 1.0 - 2.0**-30
#: Name of the step.
SCORES = "scores"


def _wanted(request: Request) -> bool:
    """Say whether a call asks for scores; refuse it where it asks for no errors at all."""
    if request.options.get("vcov") in (None, "iid"):
        return False
    if not request.inference:
        raise RequestError(
            "vcov='hetero' spends a part of the budget on standard errors, and inference=False "
            "asks for none: drop one of them"
        )
    return True


def score_share(request: Request) -> float:
    """Return the share of the scores: 0 without them, ``split=`` before the default."""
    if not _wanted(request):
        return 0.0
    return SHARE if request.split is None else float(request.split.get(SCORES, SHARE))


def _unit_noise(mechanism: Gaussian | Pure, p: int, relation: str, *, parts: int) -> float:
    """Return ``s_1``: the noise scale, at radius 1, of the sum of ``parts`` released matrices."""
    return math.sqrt(parts) * ball_sd(mechanism, 1.0, parts * p, relation)


def noise_figure(
    mechanism: Gaussian | Pure | None, p: int, n: int, relation: str, *, two: bool
) -> float | None:
    """Return the noise of a variance, relative to it, that the radius rule allows. Public.

    None without a release of scores.

    With ``G^2 = v max(3 p, QUIET n / s_1)`` (``s_1``: noise scale at radius 1) the noise of the
    meat over ``n v`` is ``max(3 p s_1 / n, QUIET)``: the unknown v cancels.
    """
    if mechanism is None:
        return None
    return max(RADIUS * p * _unit_noise(mechanism, p, relation, parts=1 + two) / n, QUIET)


def score_scales(figure: float | None) -> dict[str, float]:
    """Return the figure as a public scale of a plan."""
    return {} if figure is None else {"relative noise of robust variances": figure}


def score_advice(figure: float | None) -> tuple[str, ...]:
    """Return public advice where the noise of the variances would be large."""
    if figure is None or figure <= LOUD:
        return ()
    return (
        f"the robust variances would carry a noise of {figure:.0%} of their size (above "
        f"{LOUD:.0%}): vcov='iid', a larger share ('scores' in split=), more rows or a larger eps "
        "give steadier intervals",
    )


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """``g = matrix x (r - x'd)`` of mapped rows (x, r), into the ball of ``radius``, to integers.

    Attributes
    ----------
    rows : RowMap
        Of the last stage: row factor included.
    d : (p,) array
        Released coefficients of that stage.
    matrix : (p, p) array
        Released whitening of the scores.
    radius : float
    apart : bool
        Scores of rows that were scaled onto the ball of the stage stand in p coordinates of their
        own: a row has zeros in one half or the other, and the same norm.
    """

    rows: RowMap
    d: Array
    matrix: Array
    radius: float
    apart: bool = False

    @property
    def box(self) -> Array:
        """Bounds of the coordinates."""
        return np.full((1 + self.apart) * len(self.d), self.radius)

    @property
    def clip_set(self) -> Ball:
        """The ball of a row's coordinates."""
        return Ball(len(self.box))

    def integers(self, block: Array) -> Array:
        """Return lattice coordinates of norm at most 2^20; zero for missing rows."""
        k, scaled = self._scores(block)
        if scaled is None:
            return k
        return np.vstack([np.where(scaled, 0.0, k), np.where(scaled, k, 0.0)])

    def product(self, block: Array) -> Array:
        """Return the Gram matrix of :meth:`integers`, whose two halves never meet."""
        k, scaled = self._scores(block)
        whole = cross_product(k)
        if scaled is None:
            return whole
        p = len(k)
        out = np.zeros((2 * p, 2 * p))
        out[p:, p:] = cross_product(k[:, scaled])
        out[:p, :p] = whole - out[p:, p:]
        return out

    def _scores(self, block: Array) -> tuple[Array, npt.NDArray[np.bool_] | None]:
        """Return lattice scores (p, m), and which of them stand apart; None: nothing does."""
        z = self.rows.real(block)
        x = z[:-1]
        g = mapped(self.matrix, x)
        g *= z[-1] - mapped(self.d[None], x)[0]
        k = ball_integers(g, self.radius)
        if not self.apart:
            return k, None
        return k, squares(z) > self.rows.radius**2 * _ON_BALL


def _row_map(stage: Stage, unit: UnitScale) -> RowMap:
    q = len(stage.Q)
    if math.isinf(stage.radius):
        return RowMap(unit, np.ones(q))
    inverse = np.asarray(np.linalg.inv(stage.L), dtype=np.float64)
    return ball_map(unit, stage.radius, inverse)


def _reach(stage: Stage, d: Array, matrix: Array) -> float:
    """Return a bound on ``|matrix x (r - x'd)|`` over all mapped rows (x, r).

    Over ``|x|^2 + r^2 <= R^2``: ``|x||r - x'd| <= R^2 (|d| + sqrt(1 + |d|^2)) / 2``. Over the unit
    box: ``sqrt(p) + p |d|``.
    """
    size, p = float(np.linalg.norm(d)), len(d)
    if math.isinf(stage.radius):
        top = math.sqrt(p) + p * size
    else:
        top = stage.radius**2 * (size + math.sqrt(1.0 + size * size)) / 2.0
    return top * float(np.linalg.norm(matrix, 2))


def release_scores(passes: Passes, facts: Report, mechanism: Gaussian | Pure) -> Scores:
    """Release the second moments of the scores at the released fit of the last stage. One pass.

    Privacy
    -------
    The mechanism of the step "scores". Row map, coefficients, whitening and radius are public or
    were released before, so a row changes one score in a ball. After two stages the scores of
    rows on the ball of the second are a block of their own (:class:`ScoreMap`).
    """
    stage = facts.stages[-1]
    fit = last_fit(facts)
    p = len(fit.d)
    n_eff = fit.free + p
    m = stage.moments
    K = floored_cholesky(m.M / n_eff, m.spectral / n_eff, multiple=1.0, least=1e-9)
    matrix = np.asarray(np.linalg.inv(K))
    apart = len(facts.stages) > 1
    s1 = _unit_noise(mechanism, p, passes.relation, parts=1 + apart)
    square = fit.errors.v * max(RADIUS * p, QUIET * n_eff / s1)
    radius = min(math.sqrt(square), _reach(stage, fit.d, matrix))
    scoremap = ScoreMap(_row_map(stage, passes.unit), fit.d, matrix, radius, apart)
    over = Moments(passes.design, scoremap)
    S = passes.ask(SCORES, moments_query(over, radius=radius)).values
    outside = S[p:, p:] if apart else None
    return Scores(S[:p, :p], K, radius, s1 * radius**2, outside)


def finished(
    plan: Plan[Any],
    passes: Passes,
    stages: Sequence[Stage],
    mechanism: Gaussian | Pure | None,
    facts: Callable[[Plan[Any], Design, Stages], Report],
) -> Release:
    """Return the release of some stages, after that of the scores where a plan has them.

    Privacy
    -------
    That of :func:`release_scores`.
    """
    released = Stages(passes.unit, tuple(stages))
    values = {f"Q{i}": stage.Q for i, stage in enumerate(stages, 1)}
    if mechanism is not None:
        scores = release_scores(passes, facts(plan, passes.design, released), mechanism)
        released, values = replace(released, scores=scores), {**values, **scores.values}
    return Release(values, plan.guarantee, passes.design, detail=released)
