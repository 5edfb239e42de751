"""What a private test looks like. Computes nothing new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.models.table.text import number
from dpmodels.tables import Column, Row

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["body", "tidy"]


def _parts(record: Any, level: float) -> list[tuple[str, float, float, float, float, float]]:
    """Return (name, estimate, error, privacy part, ends of the interval) of every estimate."""
    from scipy.special import ndtri

    est = record.estimate
    sampling, privacy = (np.sqrt(np.diag(v)) for v in (est.vcov_sampling, est.vcov_privacy))
    total = np.hypot(sampling, privacy)
    z = -float(ndtri((1.0 - level) / 2.0))
    low, high = est.params - z * total, est.params + z * total
    if est.names[0].startswith("cor("):  # on the scale of atanh
        with np.errstate(all="ignore"):
            middle, width = np.arctanh(est.params), z * total / (1.0 - est.params**2)
            low, high = np.tanh(middle - width), np.tanh(middle + width)
    columns = (est.params, total, privacy, low, high)
    return list(zip(est.names, *(map(float, c) for c in columns), strict=True))


def body(record: Any, digits: int, level: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return (columns, rows, more tables) of the summary."""
    interval = f"{100 * level:g} % interval"
    columns = (
        Column(left=True, width=8), Column("Estimate"), Column("Std. Error"),
        Column("privacy", "of which"), Column("low", interval), Column("high", interval),
    )  # fmt: skip
    rows = tuple(
        Row((name, *(number(v, digits) for v in values)))
        for name, *values in _parts(record, level)
    )
    return columns, rows, ()


def tidy(record: Any, conf_int: bool, level: float) -> pd.DataFrame:
    """Return one row an estimate, with the statistic and the p-value of the test."""
    import pandas as pd

    est = record.estimate
    frame = pd.DataFrame(
        _parts(record, level),
        columns=[
            "term", "estimate", "std_error", "std_error_privacy", "conf_low", "conf_high",
        ],
    )  # fmt: skip
    frame["statistic"] = est.stats["statistic"]
    frame["parameter"] = est.stats["df"]
    frame["p_value"] = est.stats["p_value"]
    return frame if conf_int else frame.drop(columns=["conf_low", "conf_high"])
