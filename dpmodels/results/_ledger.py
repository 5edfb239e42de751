"""The ledger of one call, from its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmodels.results._record import Record

__all__ = ["ledger_of"]


def ledger_of(record: Record) -> Any:
    """Return the charges of a record, one line a step."""
    import pandas as pd

    rows = [
        {
            "what": step.name,
            "mechanism": step.label or step.mechanism.kind,
            "share": step.share,
            "mu": getattr(step.mechanism, "mu", None),
            "delta+": step.failure,
        }
        for step in record.guarantee.steps
    ]
    return pd.DataFrame(rows)
