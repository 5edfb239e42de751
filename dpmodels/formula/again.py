"""A design compiled again from its text and schema: what files and pickles hold of it."""

from __future__ import annotations

import copyreg
from collections.abc import Mapping
from typing import Any

from dpmodels.formula.build import build_cell_design, build_design, build_mean_design
from dpmodels.formula.design import Design
from dpmodels.formula.schema import Schema
from dpmodels.formula.survival import build_survival_cells, build_survival_design


def design_from(data: Mapping[str, Any]) -> Design:
    """Compile the design again from its text and schema."""
    schema = Schema.from_dict(data["schema"])
    shared = {k: data[k] for k in ("na", "engine", "subset", "weights")}
    labels = None if data.get("labels") is None else tuple(data["labels"])
    if data.get("survival"):
        build = build_survival_cells if data.get("cells") else build_survival_design
        design = build(data["formula"], schema, **shared)
    elif data.get("cells"):
        design = build_cell_design(data["formula"], schema, labels=labels, **shared)
    elif data["mean"]:
        design = build_mean_design(
            data["formula"], schema, aside=data.get("aside", False), labels=labels, **shared
        )
    else:
        design = build_design(
            data["formula"],
            schema,
            order=data["order"],
            response_ok=data["response_ok"],
            event=data["event"],
            one_sided_ok=data["one_sided"],
            aside=data.get("aside", False),
            labels=labels,
            **shared,
        )
    if data["buy_all"]:
        design = design.without_bounds()
    bought = {name: (lo, hi) for name, lo, hi in data["bought"]}
    return design.with_bounds(bought) if bought else design


def _reduced(design: Design) -> Any:
    return design_from, (design.to_dict(),)


# A design is pickled as its text and schema: what it compiled to are functions.
copyreg.pickle(Design, _reduced)
