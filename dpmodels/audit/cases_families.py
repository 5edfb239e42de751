"""Audits of the scoring methods of families, quantiles and robust losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmodels.audit.cases import AuditCase, register_case
from dpmodels.audit.cases_scoring import WEIGHTED
from dpmodels.audit.verbs import verb_case
from dpmodels.schema import Binary, Real, Schema

__all__: list[str] = []

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
