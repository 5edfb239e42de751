"""Saving and loading a release: JSON for the facts, Parquet or CSV for the cells."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError, choice, whole
from dpmodels.models.noised.calibration import NoisePlan
from dpmodels.models.noised.layout import Group, Layout
from dpmodels.quiet import tell
from dpmodels.tables.files import check_seal, sealed

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.models.noised.table import NoisyTable

FORMAT = "dpmodels.release"
VERSION = 1


def _paths(path: str | Path) -> tuple[Path, Path]:
    base = Path(path)
    if base.suffix in (".json", ".parquet", ".csv"):
        base = base.with_suffix("")
    return base, base.with_name(base.name + ".json")


def save(rel: NoisyTable, path: str | Path, table: str | None) -> Path:
    """Write the release; see :meth:`NoisyTable.save`."""
    from dpmodels._version import __version__

    if table is None:
        table = "parquet" if importlib.util.find_spec("pyarrow") else "csv"
    choice("table", table, ("parquet", "csv"))
    base, facts = _paths(path)
    cells = base.with_name(f"{base.name}.{table}")
    frame = _cells(rel)
    if table == "parquet":
        frame.to_parquet(cells, index=False)
    else:
        frame.to_csv(cells, index=False)
    facts.write_text(
        json.dumps(
            sealed(_facts(rel, cells.name, __version__)), indent=1, allow_nan=False, default=str
        ),
        encoding="utf-8",
    )
    return facts


def _cells(rel: NoisyTable) -> pd.DataFrame:
    """Return all cells under unambiguous names (a public name may be a noised one too)."""
    import pandas as pd

    frame = pd.DataFrame(rel.values.T, columns=list(rel.names), copy=False)
    for name, column in rel.public.items():
        frame[f"public:{name}"] = column
    return frame


def _hash(values: Any) -> str:
    """Return the checksum of the noised cells, bit for bit."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def _plain(value: Any) -> Any:
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _facts(rel: NoisyTable, cells: str, version: str) -> dict[str, Any]:
    plan, layout = rel.plan, rel.layout
    return {
        "format": FORMAT,
        "version": VERSION,
        "dpmodels": version,
        "cells": cells,
        "values": _hash(rel.values),
        "n": rel.n,
        "batches": list(rel.batches),
        "design": rel.design.to_dict(),
        "declared": rel.schema.to_dict(),
        "guarantee": rel.guarantee.to_dict(),
        "lower": rel.lower.tolist(),
        "scale": rel.scale.tolist(),
        "bought": list(rel.bought),
        "public": list(rel.public),
        "keep_order": rel.keep_order,
        "expected_clear": rel.expected_clear,
        "layout": {
            "rows": list(layout.rows),
            "names": list(layout.names),
            "kinds": list(layout.kinds),
            "groups": [
                [list(g.columns), sorted(g.variables), g.diam, g.ldiam] for g in layout.groups
            ],
        },
        "plan": {
            "noise": plan.noise,
            "unit": plan.unit,
            "blocks": [list(b) for b in plan.blocks],
            "sd": list(plan.sd),
            "clear_prob": plan.clear_prob,
            "c": list(plan.c),
            "steps": [s.name for s in plan.steps],
            "shapes": list(plan.shapes),
            "sensitivities": list(plan.sensitivities),
            "eps": plan.eps,
            "delta": plan.delta,
            "record_pair": None
            if plan.record_pair is None
            else [_plain(v) for v in plan.record_pair],
        },
    }


def load(kind: type[NoisyTable], path: str | Path) -> NoisyTable:
    """Read a release; see :meth:`NoisyTable.load`."""
    _, facts = _paths(path)
    if not facts.exists():
        raise RequestError(f"there is no file {str(facts)!r}")
    saved: Any = None
    try:
        saved = json.loads(facts.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        saved = None
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise RequestError(f"{facts.name} is not a saved release. Write one with rel.save(path)")
    if saved.get("version") != VERSION:
        raise RequestError(
            f"this release was saved in format {saved.get('version')!r}; this version of dpmodels "
            f"reads format {VERSION}. Install dpmodels {saved.get('dpmodels')}"
        )
    what, again = f"the release {facts.name}", "Write it again with rel.save(path), or use a copy"
    tell(*check_seal(saved, what, again))
    with whole(what, again):
        return _read(kind, facts, saved)


def _read(kind: type[NoisyTable], facts: Path, saved: dict[str, Any]) -> NoisyTable:
    """Return the release that a file describes."""
    import pandas as pd

    from dpmodels.formula.again import design_from
    from dpmodels.privacy.guarantee import Guarantee
    from dpmodels.schema import Schema

    cells = facts.with_name(saved["cells"])
    if cells.suffix == ".parquet":
        frame = pd.read_parquet(cells)
    else:
        # as text first: parsers of floats differ in the last bit, Python's does not
        frame = pd.read_csv(cells, dtype=dict.fromkeys(saved["layout"]["names"], str))
    lay = saved["layout"]
    names = lay["names"]
    if len(frame) != saved["n"] or any(c not in frame.columns for c in names):
        raise RequestError(f"{cells.name} does not hold the cells that {facts.name} describes")
    layout = Layout(
        tuple(lay["rows"]), tuple(names), tuple(lay["kinds"]),
        tuple(Group(tuple(c), frozenset(v), a, b) for c, v, a, b in lay["groups"]),
    )  # fmt: skip
    guarantee = Guarantee.from_dict(saved["guarantee"])
    values = np.ascontiguousarray(frame[names].to_numpy(dtype=object).astype(float).T)
    values.setflags(write=False)
    if "values" in saved and saved["values"] != _hash(values):  # not in files before 0.2.1
        raise ValueError("cells")
    if not len(names) == len(saved["lower"]) == len(saved["scale"]) == len(lay["kinds"]):
        raise ValueError("lengths")
    return kind(
        design=design_from(saved["design"]),
        layout=layout,
        plan=_plan(saved["plan"], guarantee),
        guarantee=guarantee,
        values=values,
        public={c: frame[f"public:{c}"].to_numpy() for c in saved["public"]},
        lower=np.array(saved["lower"]),
        scale=np.array(saved["scale"]),
        batches=tuple(saved["batches"]),
        bought=tuple(saved["bought"]),
        keep_order=bool(saved["keep_order"]),
        expected_clear=float(saved["expected_clear"]),
        declared=Schema.from_dict(saved["declared"]),
    )


def _plan(saved: dict[str, Any], guarantee: Any) -> NoisePlan:
    steps = {s.name: s for s in guarantee.steps}
    pair = saved["record_pair"]
    return NoisePlan(
        saved["noise"], saved["unit"], tuple(tuple(b) for b in saved["blocks"]),
        tuple(saved["sd"]), saved["clear_prob"], tuple(saved["c"]),
        tuple(steps[name] for name in saved["steps"]),
        tuple(saved["shapes"]), tuple(saved["sensitivities"]), saved["eps"], saved["delta"],
        None if pair is None else (float(pair[0]), float(pair[1])),
    )  # fmt: skip
