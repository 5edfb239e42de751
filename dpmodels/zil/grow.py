"""New records for an existing release: the same design, the same noise, a fresh run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError, shown

if TYPE_CHECKING:
    from dpmodels.zil.table import NoisyTable

__all__ = ["appended"]


def appended(table: NoisyTable, new_data: Any, seed: int | None) -> NoisyTable:
    """Return ``table`` with the records of ``new_data`` after its own."""
    from dpmodels import _testing
    from dpmodels._guard import guarded
    from dpmodels.privacy.noise import make_noise
    from dpmodels.privacy.run import Run
    from dpmodels.sources.adapt import as_source
    from dpmodels.sources.rows import Rows, count_rows
    from dpmodels.zil.make import noised_rows

    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise RequestError(f"seed must be a whole number or None, got {shown(seed)}")
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
    run = Run(table.plan.steps, noise)
    rows = Rows(source, n)
    made = guarded(
        lambda: noised_rows(
            table.design, table.layout, table.plan, table.public_columns, rows, run,
            keep_order=table.keep_order,
        )
    )  # fmt: skip
    return table._grown(made.values, made.public, seeded=not noise.private)
