"""What released quantiles look like. Computes nothing new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError
from dpmodels.models.table.text import number
from dpmodels.tables import Column, Row

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["body", "tidy"]


def body(record: Any, digits: int, level: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return (columns, rows, more tables) of the summary."""
    _same_level(record, level)
    interval = f"{100 * level:g} % interval"
    columns = (
        Column(left=True, width=8), Column("Quantile"), Column("low", interval),
        Column("high", interval),
    )  # fmt: skip
    est = record.estimate
    values = zip(est.params, est.arrays["low"], est.arrays["high"], strict=True)
    rows = tuple(
        Row((name, *(number(float(v), digits) for v in three)))
        for name, three in zip(est.names, values, strict=True)
    )
    return columns, rows, ()


def _same_level(record: Any, level: float) -> None:
    if abs(level - record.call.level) > 1e-12:
        raise RequestError(
            f"the intervals of quantiles are made at the level= of the call "
            f"({record.call.level:g}): they are not estimate -+ multiple of an error"
        )


def tidy(record: Any, conf_int: bool, level: float) -> pd.DataFrame:
    """Return one row a quantile: term, quantile, estimate, ends of the interval."""
    import pandas as pd

    est = record.estimate
    frame = pd.DataFrame(
        {"term": list(est.names), "quantile": est.arrays["q"], "estimate": est.params}
    )
    if conf_int:
        _same_level(record, level)
        frame["conf_low"], frame["conf_high"] = est.arrays["low"], est.arrays["high"]
    return frame
