"""Audit cases of the noised table: whole rows at worst-case neighbours, structure, sentinels.

The release maps each record by itself, so a table of identical records is as many independent
draws of one record's release: 2e4 draws a side are one call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.audit.kit import (
    AuditCase,
    Finding,
    SentinelCheck,
    StructureCheck,
    delta_lower,
    register_case,
)
from dpmodels.formula.schema import Schema
from dpmodels.models.noised.release import Settings, TablePlan, plan_table
from dpmodels.own.noised import noised_rows
from dpmodels.own.radial import _radial
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import Run
from dpmodels.sums.ask import Ask
from dpmodels.variables import Levels, Real

__all__ = ["RowCheck"]


_SCHEMA = Schema(a=Real(-1, 5), b=Real(0, 2), g=Levels(["u", "v", "w"]))


def _table(cells: Mapping[str, Any], n: int) -> Any:
    import pandas as pd

    return pd.DataFrame({k: [v] * n for k, v in cells.items()})


@dataclass(frozen=True)
class RowCheck:
    """Draws of one record's release at two values, against the claimed profile.

    Attributes
    ----------
    name : str
    pair : two mappings of cells
        Neighbouring records; cells may lie outside the declared ranges.
    terms : str
        Right-hand side of the released columns.
    eps, delta : float
    settings : Settings
    shrink : float
        Factor on the noise that is really drawn: 1, or less for a broken twin.
    """

    name: str
    pair: tuple[Mapping[str, Any], Mapping[str, Any]]
    terms: str
    eps: float
    delta: float
    settings: Settings = field(default_factory=Settings)
    shrink: float = 1.0

    def run(self, draws: int, seed: int) -> Finding:
        """Run the check: events {likelihood ratio > t}, Clopper-Pearson bounds."""
        from dpmodels.formula.build import build_design

        design = build_design(f"~ {self.terms}", _SCHEMA, na="impute-midpoint", one_sided_ok=True)
        plan = plan_table(design, draws, self.eps, self.delta, self.settings)
        sides = [self._draw(plan, cells, draws, seed + i) for i, cells in enumerate(self.pair)]
        centres = [self._centre(plan, cells) for cells in self.pair]
        ratio = [self._log_ratio(plan, z, centres) for z in sides]
        half = draws // 2
        grid = np.quantile(np.concatenate([r[:half] for r in ratio]), np.linspace(0.01, 0.99, 49))
        claim = plan.guarantee
        tests = [0.0, self.eps / 2, self.eps]
        level = 1 - 0.01 / (2 * len(tests))
        worst, shown, claimed = -math.inf, 0.0, claim.delta
        for e in tests:
            target = claim.delta_at(e) if e != self.eps else claim.delta
            for p, q, sign in ((ratio[0], ratio[1], 1.0), (ratio[1], ratio[0], -1.0)):
                excess = [
                    delta_lower(
                        int((sign * p[:half] > t).sum()), int((sign * q[:half] > t).sum()),
                        half, e, level,
                    )
                    for t in sign * grid
                ]  # fmt: skip
                t = float((sign * grid)[int(np.argmax(excess))])
                hits = int((sign * p[half:] > t).sum()), int((sign * q[half:] > t).sum())
                found = delta_lower(*hits, draws - half, e, level)
                if found - target > worst:
                    worst, shown, claimed = found - target, found, target
        return Finding(self.name, worst <= 0, shown, claimed, 0.01, f"{draws} records a side")

    def _draw(self, plan: TablePlan, cells: Mapping[str, Any], n: int, seed: int) -> Array:
        from dpmodels.sources.rows import Rows
        from dpmodels.sources.tasks import as_source

        shrink = self.shrink

        class Shrunk(SeededNoise):
            """A release of too little noise, which no plan can ask for."""

            def normals(self, size: int) -> Array:
                return shrink * super().normals(size)

        rows = Rows(as_source(_table(cells, n)), n)
        run = Run(plan.steps, Shrunk(seed))
        made = noised_rows(plan.design, plan.noise, (), Ask(rows, run), keep_order=True)
        return (made.values - made.lower[:, None]) / made.scale[:, None]

    def _centre(self, plan: TablePlan, cells: Mapping[str, Any]) -> Array:
        """Return what was clipped and mapped, in units of the ranges: the mean of the draws."""
        from dpmodels._testing import ZeroNoise
        from dpmodels.sources.rows import Rows
        from dpmodels.sources.tasks import as_source

        rows = Rows(as_source(_table(cells, 1)), 1)
        zero: Any = ZeroNoise()
        run = Run(plan.steps, zero)
        ask = Ask(rows, run)
        made = noised_rows(plan.design, plan.noise, (), ask, keep_order=True)
        return (made.values[:, 0] - made.lower) / made.scale

    def _log_ratio(self, plan: TablePlan, z: Array, centres: list[Array]) -> Array:
        sd = np.asarray(plan.noise.sd)[:, None]
        a, b = ((z - c[:, None]) / sd for c in centres)
        if plan.noise.noise == "laplace":
            return np.asarray(math.sqrt(2.0) * (np.abs(b) - np.abs(a)).sum(axis=0))
        if plan.noise.noise == "gaussian":
            return np.asarray(0.5 * ((b * b) - (a * a)).sum(axis=0))
        radial = _radial(plan.layout.d)
        with np.errstate(all="ignore"):
            r = [0.5 * np.log((x * x).sum(axis=0) + 1e-24) for x in (a, b)]
        return radial.g(r[0]) - radial.g(r[1])


_LOW = {"a": -40.0, "b": 0.0, "g": "u"}
_HIGH = {"a": 50.0, "b": 7.0, "g": "v"}


def _odd(cells: Mapping[str, Any]) -> tuple[Any, Any]:
    import pandas as pd

    base = [{"a": 0.5, "b": 1.0, "g": "u"}] * 6
    plain = pd.DataFrame(base, dtype=object)
    odd = pd.DataFrame([*base[:5], {**base[5], **cells}], dtype=object)
    return plain, odd


def _release(data: Any) -> Any:
    from dpmodels.formula.build import build_design
    from dpmodels.models.noised.release import make_table
    from dpmodels.sources.rows import Rows
    from dpmodels.sources.tasks import as_source

    design = build_design("~ a + b + g", _SCHEMA, na="impute-midpoint", one_sided_ok=True)
    plan = plan_table(design, 6, 1.0, 1e-6, Settings())
    rows = Rows(as_source(data), 6)
    return make_table(plan, Ask(rows, Run(plan.steps, SeededNoise(0))))


def _shape(table: Any) -> Any:
    return (
        table.names, table.n, table.summary(), list(table.frame.columns),
        [str(t) for t in table.frame.dtypes], bool(np.isfinite(table.values).all()),
    )  # fmt: skip


_SENTINEL = "XSENTINELX"


def _with_sentinels() -> Any:
    data, _ = _odd({})
    data.loc[2, "a"] = _SENTINEL
    data.loc[3, "g"] = _SENTINEL
    data.index = [_SENTINEL] * 6
    table = _release(data)
    return table, table.summary(), repr(table), table.frame


_CHECKS = (
    RowCheck("SL, record", (_LOW, _HIGH), "a + b", 1.0, 0.1, Settings(noise="sl")),
    RowCheck(
        "ZIL, record", (_LOW, _HIGH), "a + b", 1.0, 0.1,
        Settings(noise="sl", clear_prob=0.05, allow_clear_records=True),
    ),
    RowCheck("Laplace, record", (_LOW, _HIGH), "a + b + g", 1.0, 0.0, Settings(noise="laplace")),
    RowCheck(
        "Laplace, one factor", ({**_LOW, "g": "v"}, {**_LOW, "g": "w"}), "a + g", 1.0, 0.0,
        Settings(noise="laplace", unit="attribute"),
    ),
    RowCheck("Gaussian, record", (_LOW, _HIGH), "a + b", 1.0, 0.05, Settings(noise="gaussian")),
)  # fmt: skip
_ROWS: Any = _CHECKS

CASE = AuditCase(
    release=_ROWS,
    structure=(
        StructureCheck(
            "odd cells", _release,
            [
                _odd({"a": None}), _odd({"a": "text"}), _odd({"a": math.inf}),
                _odd({"b": -1e300}), _odd({"g": "a new level"}), _odd({"g": None}),
            ],
            _shape,
        ),
    ),
    sentinels=(SentinelCheck("nothing of the cells is printed", _with_sentinels, [_SENTINEL]),),
)  # fmt: skip

#: Broken twins: half the noise; the l2 diameter for independent noise of a factor.
MUTANTS = (
    replace(_CHECKS[0], name="noise halved", shrink=0.5),
    replace(_CHECKS[2], name="Laplace noise halved", shrink=0.5),
    replace(_CHECKS[3], name="l2 diameter of a factor", shrink=1.0 / math.sqrt(2.0)),
    replace(_CHECKS[4], name="Gaussian noise halved", shrink=0.5),
)

#: Every method of the room makes the same release: one registration audits all of it.
_LIGHT = AuditCase(release=_ROWS[2:3])
for _verb in ("dp_ols", "dp_glm", "dp_quantreg", "dp_mest"):
    for _name in ("drcl", "sdrcl", "sl", "naive"):
        register_case(_name, _verb, CASE if (_verb, _name) == ("dp_ols", "drcl") else _LIGHT)
