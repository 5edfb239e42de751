"""Audit of the scoring passes: all that a pass releases, at pairs that nearly attain its bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.audit.kit import AuditCase, ReleaseCheck, register_case
from dpmodels.audit.queries import Kept
from dpmodels.core.parallel import ROOT, Parallel, PassSums
from dpmodels.core.release import ask_parts
from dpmodels.formula.program import Grid, Program
from dpmodels.formula.schema import Schema
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import eps_gdp
from dpmodels.privacy.run import Run
from dpmodels.scoring.models import Expectile, LeastSquares, Model, State
from dpmodels.scoring.pass_plan import PassPlan, plan_pass
from dpmodels.scoring.passes import Centre
from dpmodels.scoring.rows import plan_scoring
from dpmodels.scoring.rules import LEAST_SQUARES as FEW_COLUMNS
from dpmodels.scoring.rules import LINEAR, WIDE_LEAST_SQUARES, ClipPolicy
from dpmodels.scoring.run import Chain
from dpmodels.sums.ask import Ask
from dpmodels.sums.scaling import UnitScale
from dpmodels.variables import Binary, Real
from tests.one_pass import ByCell, ScorePass
from tests.privacy.cases.verbs import verb_case

__all__ = ["BY_CELL", "FAR", "PASSES", "WEIGHTED", "release_of"]


LEAST_SQUARES = LeastSquares()

_P = 2


def _centre(score: Model) -> Centre:
    """Return a centre at which rows are their own coordinates."""
    state = State(np.zeros(_P), np.eye(_P), 1.0, np.eye(_P))
    unit = UnitScale(np.ones(_P + 1), np.zeros(_P + 1), False)
    return Centre(unit, np.eye(_P), state.theta, state.W, 1.0, score.evaluate(state))


def _by_cell(one: ScorePass, block: Array, table: Array) -> PassSums:
    """Return the sums of rows whose predictors are columns of a public table."""
    K = table.shape[1]
    grid = Grid(
        np.vstack([table, np.zeros(K)]), np.zeros(K, dtype=bool), (len(table),), (), (), (),
        Program((), {}, 0, ()), (), (),
    )  # fmt: skip
    cells = (block[:-1, :, None] == table[:, None, :]).all(axis=0).argmax(axis=1)
    job = ByCell(one, grid)
    return job.pass_sums(job.over([(block[-1:], cells)]))


def release_of(
    plan: PassPlan, k: int, score: Model = LEAST_SQUARES, cells: Array | None = None
) -> Any:
    """Return release(rows, run) -> every number of pass k, rows (n, p + 1).

    ``cells`` (p, K): the predictors that rows can have; they are then added up by cell.
    """
    centre = _centre(score)

    def release(rows: Array, run: Run) -> Array:
        one, block = ScorePass(plan, centre), np.asarray(rows).T.copy()
        sums = one.sums([block]) if cells is None else _by_cell(one, block, cells)
        ask = Ask(sums, run, plan.relation)
        out = ask_parts(ask, Parallel(plan, _P), str(k), Kept(), lambda kept: kept)
        # a matrix by its upper triangle: below it stands the same noise once more
        matrices = [m for m in (out.information, out.meat) if m is not None]
        parts = [m[np.triu_indices(_P)] for m in matrices] + [out.score]
        parts += [] if out.taken is None else [ROOT * plan.clip * out.taken.reshape(-1)]
        parts += [] if out.scale is None else [np.array([out.scale])]
        parts += [] if out.bins is None else [out.bins]
        return np.concatenate(parts)

    return release


def _pass(
    k: int, score: Model, *, cells: bool = False, policy: ClipPolicy | None = None
) -> ReleaseCheck:
    """Return the check of pass k: one row at its radius and clip, the other short and opposite.

    ``manner``: of a last pass of so many rows that it releases what lies beyond C.
    """
    whole = plan_scoring(LINEAR, 1.0, 400, _P, "replace", chains=(Chain(score),))
    if policy is not None:
        far = plan_pass(
            LINEAR, 2, 1.0, 40_000, _P, "replace", meat=True, tail=40_000, policy=policy
        )
        whole = replace(whole, passes=(whole.passes[0], far))
    plan = whole.passes[k - 1]
    own = tuple(s for s in whole.ledger if s.name.endswith(f" {k}"))
    mu = float(np.sqrt(sum(s.mechanism.mu**2 for s in own)))
    guarantee = Guarantee(own, eps_gdp(mu, 1e-6) * (1 + 1e-9), 1e-6)
    R, C = plan.information, plan.clip
    full = np.array([[R, 0.0, 10.0 * C / R]])
    # in the middle pass the scale counts, so both are long there
    length = 0.3 if plan.last else 0.3 * R
    other = np.array([[length, 0.0, -10.0 * C / length]])
    title = f"scoring pass {k}" + (", rows with weights" if score.weighted else "")
    title += ", by cell" if cells else ""
    title += f", {plan.blocks} blocks of scores" if plan.two_clips else ""
    table = np.vstack([full, other])[:, :_P].T if cells else None
    return ReleaseCheck(title, release_of(plan, k, score, table), (full, other), guarantee)


#: One check a pass: least squares; a model whose rows have weights (here all 1).
PASSES = tuple(_pass(k, LEAST_SQUARES) for k in (1, 2))
WEIGHTED = tuple(_pass(k, Expectile(tau=0.5)) for k in (1, 2))
#: The last pass of both, of rows that are added up by cell.
BY_CELL = tuple(_pass(2, score, cells=True) for score in (LEAST_SQUARES, Expectile(tau=0.5)))
#: The last pass where what lies beyond the clip is released too: few and many columns, by cell.
FAR = (
    _pass(2, LEAST_SQUARES, policy=FEW_COLUMNS),
    _pass(2, LEAST_SQUARES, policy=WIDE_LEAST_SQUARES),
    _pass(2, LEAST_SQUARES, policy=WIDE_LEAST_SQUARES, cells=True),
)


# -- Audits of the scoring methods of families, quantiles and robust losses


_BOUNDS = {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}
_EVENT = Schema(a=Real(-1, 1), b=Real(-1, 1), y=Binary())


def frame(n: int, binary: bool) -> Any:
    """Return a synthetic table."""
    import pandas as pd

    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, size=(2, n))
    y = a - 0.5 * b + 0.3 * rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "y": (y > 0).astype(int) if binary else y})


def _huber(data: Any) -> Any:
    import dpmodels as dp

    return dp.dp_mest("huber", "y ~ a + b", data, eps=4.0, delta=1e-6, bounds=_BOUNDS)


_CALL: dict[str, Any] = {"eps": 4.0, "delta": 1e-6}
_CASES = {
    "dp_glm": verb_case("dp_glm", "scoring", "y ~ a + b", frame(300, True), schema=_EVENT, **_CALL),
    "dp_quantreg": verb_case(
        "dp_quantreg", "scoring", "y ~ a + b", frame(300, False), bounds=_BOUNDS, **_CALL
    ),
    "dp_mest": verb_case("dp_mest", "scoring", "", frame(300, False), call=_huber),
}
for _verb, _case in _CASES.items():
    register_case("scoring", _verb, AuditCase(release=WEIGHTED))
    register_case("scoring", _verb, _case)
