"""New records for an existing release: the same design, the same noise, a fresh run."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmodels.errors import BudgetError, RequestError, shown

if TYPE_CHECKING:
    from dpmodels.models.noised.table import NoisyTable
    from dpmodels.privacy.guarantee import Guarantee

__all__ = ["Origin", "appended", "batch_guarantee"]


class Origin:
    """Which object or file a batch came from, without holding it. Never saved or pickled."""

    def __init__(self, data: Any = None) -> None:
        self._path: Path | None = None
        self._refs: tuple[weakref.ref[Any], ...] = ()
        if isinstance(data, (str, os.PathLike)):
            self._path = Path(data).resolve()
            return
        parts = list(data.values()) if isinstance(data, Mapping) else [data]
        refs = []
        for part in parts:
            try:
                refs.append(weakref.ref(part))
            except TypeError:  # a list, a number: cannot be remembered without keeping it
                continue
        self._refs = tuple(refs)

    def same(self, data: Any) -> bool:
        """Tell if ``data`` is the object or the file of this batch."""
        other = Origin(data)
        if self._path is not None:
            return other._path == self._path
        held = [ref() for ref in self._refs]
        new = [ref() for ref in other._refs]
        if not held or len(held) != len(new):
            return False
        return all(a is not None and a is b for a, b in zip(held, new, strict=True))

    def __reduce__(self) -> Any:
        return Origin, ()


def batch_guarantee(table: NoisyTable) -> Guarantee:
    """Return what one further batch costs: the noise of the rows, not the ranges bought before."""
    return replace(table.guarantee, steps=table.plan.steps)


def _charge(table: NoisyTable, budget: Any, seeded: bool) -> None:
    """Charge one batch to the budget given, or to that of the enclosing block."""
    if budget is None:
        from dpmodels.privacy.ledger import current_budget

        budget = current_budget()
    if budget is not None:
        cost = batch_guarantee(table)
        cost = cost.not_private() if seeded else cost
        budget.charge(f"append({', '.join(table.layout.names)})", cost)


def appended(table: NoisyTable, new_data: Any, seed: int | None, budget: Any = None) -> NoisyTable:
    """Return ``table`` with the records of ``new_data`` after its own."""
    from dpmodels import _testing
    from dpmodels._guard import guarded
    from dpmodels.models.noised.make import noised_rows
    from dpmodels.privacy.noise import make_noise
    from dpmodels.privacy.run import Run
    from dpmodels.sources.adapt import as_source
    from dpmodels.sources.rows import Rows, count_rows

    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise RequestError(f"seed must be a whole number or None, got {shown(seed)}")
    if budget is not None and not hasattr(budget, "charge"):
        raise BudgetError("budget= takes a dp.Budget, for example dp.Budget(eps=3, delta=1e-5)")
    if hasattr(new_data, "__noisy_table__"):
        raise RequestError("append() takes new records, not a release")
    if any(origin.same(new_data) for origin in table.origins):
        raise RequestError(
            "this object or file is in the release already: fresh noise on the same records costs "
            "their privacy again. Append a table that holds the new records only. Nothing was read "
            "or charged"
        )
    source = as_source(new_data)
    needed = tuple(dict.fromkeys((*table.design.variables, *table.public_columns)))
    missing = [c for c in needed if c not in source.kinds]
    if missing:
        raise RequestError(
            f"append() needs the columns of the release ({', '.join(needed)}); the new data has "
            f"no column {missing[0]!r}"
        )
    n = source.n
    if n is None:
        if not source.rescannable:
            raise RequestError("an iterator of tables does not say how many rows it has")
        n = guarded(lambda: count_rows(source, needed[0]), charged=False)
    if n < 1:
        raise RequestError("the table to append has no rows")
    noise = _testing.NOISE.get() or make_noise(seed)
    _charge(table, budget, not noise.private)
    run = Run(table.plan.steps, noise)
    rows = Rows(source, n)
    made = guarded(
        lambda: noised_rows(
            table.design, table.layout, table.plan, table.public_columns, rows, run,
            keep_order=table.keep_order,
        )
    )  # fmt: skip
    grown = table._grown(made.values, made.public, seeded=not noise.private)
    return replace(grown, origins=(*table.origins, Origin(new_data)))
