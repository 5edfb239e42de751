"""Audit cases of people as units, through the verbs: odd rows, and strings that must not appear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dpmodels.audit.kit import register_case
from dpmodels.variables import Binary, Real
from tests.privacy.cases.verbs import verb_case

__all__: list[str] = []


def _frame(n: int, event: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    ids = np.repeat(np.arange(n), 3)
    x = rng.uniform(-1, 1, 3 * n)
    y = 0.5 * x + rng.normal(0, 0.3, 3 * n)
    return pd.DataFrame({"pid": ids, "x": x, "y": (y > 0) * 1.0 if event else y})


_FORMULAS = {
    "dp_moments": "y + x ~ 1", "dp_table": "~ y + cut(x, breaks=[0])", "dp_quantile": "~ y",
    "dp_test": "y ~ 1",
}  # fmt: skip


def _formula(verb: str) -> str:
    return _FORMULAS.get(verb, "y ~ x")


_SCHEMA: dict[str, Any] = {"x": Real(-1, 1), "y": Real(-2, 2)}
_CALL: dict[str, Any] = {"eps": 4.0, "delta": 1e-4, "unit": "pid", "units": 80}

for _verb, _method, _schema in (
    ("dp_ols", "ssp", _SCHEMA),
    ("dp_glm", "scoring", {**_SCHEMA, "y": Binary()}),
    ("dp_quantreg", "scoring", _SCHEMA),
    ("dp_moments", "ssp", _SCHEMA),
    ("dp_moments", "joint", _SCHEMA),
    ("dp_table", "joint", _SCHEMA),
    ("dp_quantile", "em", _SCHEMA),
    ("dp_quantile", "tree", _SCHEMA),
    ("dp_test", "score", _SCHEMA),
):
    register_case(
        _method,
        _verb,
        verb_case(
            _verb, _method, _formula(_verb), _frame(60, _verb == "dp_glm"), schema=_schema, **_CALL
        ),
    )  # fmt: skip
