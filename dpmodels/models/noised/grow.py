"""New records for an existing release: the same design, the same noise, a fresh run."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError
from dpmodels.models.noised.make import Noised, noised_rows
from dpmodels.private import answered, checked, row_count, rows_of

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.models.noised.table import NoisyTable
    from dpmodels.privacy.guarantee import Guarantee


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


@dataclass(frozen=True)
class Batch:
    """What is public about records to come; ``n`` counts those of earlier batches too."""

    table: NoisyTable
    guarantee: Guarantee
    n: int
    advice: tuple[str, ...] = ()


def _noised(plan: Batch, ask: Ask) -> Noised:
    """Noise the new rows as the old ones were."""
    table = plan.table
    return noised_rows(
        table.design, table.layout, table.plan, table.public_columns, ask,
        keep_order=table.keep_order,
    )  # fmt: skip


def appended(table: NoisyTable, new_data: Any, seed: int | None, budget: Any = None) -> NoisyTable:
    """Return ``table`` with the records of ``new_data`` after its own."""
    from dpmodels.sources.adapt import as_source
    from dpmodels.sources.elsewhere import need_rows

    checked(budget, seed)
    if hasattr(new_data, "__noisy_table__"):
        raise RequestError("append() takes new records, not a release")
    if any(origin.same(new_data) for origin in table.origins):
        raise RequestError(
            "this object or file is in the release already: fresh noise on the same records costs "
            "their privacy again. Append a table that holds the new records only. Nothing was read "
            "or charged"
        )
    source = as_source(new_data)
    need_rows(source, "append()")
    needed = tuple(dict.fromkeys((*table.design.variables, *table.public_columns)))
    missing = [c for c in needed if c not in source.kinds]
    if missing:
        raise RequestError(
            f"append() needs the columns of the release ({', '.join(needed)}); the new data has "
            f"no column {missing[0]!r}"
        )
    n = row_count(source, None, needed[0], asks_n=False)
    if n < 1:
        raise RequestError("the table to append has no rows")
    plan = Batch(table, batch_guarantee(table), table.n + n)
    label = f"append({', '.join(table.layout.names)})"
    rows = functools.partial(rows_of, source, n)
    door, made = answered(label, plan, _noised, rows, budget, seed, what="the release is ")
    grown = table._grown(made.values, made.public, seeded=door.guarantee.seeded)
    return replace(grown, origins=(*table.origins, Origin(new_data)))
