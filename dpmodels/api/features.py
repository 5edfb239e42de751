"""``per_person``: what the rows of a person come to, as a table of people."""

from __future__ import annotations

from typing import Any

from dpmodels.sources.features import Features
from dpmodels.sources.tasks import as_source

__all__ = ["per_person"]


def per_person(data: Any, unit: str, /, **features: Any) -> Features:
    """Return a table with one row a person: counts, sums, extremes, first cells of its own rows.

    Parameters
    ----------
    data : table
        With any number of rows a person: whatever ``data=`` of a verb takes and can be read again.
    unit : str
        Column that says whose row it is.
    **features
        New column = (function, column): ``visits="count"`` (of rows), ``paid=("sum", "bill")``,
        ``worst=("max", "score")``, ``ill=("any", "diagnosis")``, ``sex=("first", "sex")``,
        ``("min", ...)``, ``("count", "bill")`` (of cells that are there). "first" is by the order
        of the table. Of no cell "sum", "any" and "count" are 0, the others missing.

    Returns
    -------
    table
        To be given to a verb as its data, with the same ``unit=``; without it the call is refused.

    Privacy
    -------
    Reads no cell: what a person's rows come to is worked out inside the calls. A row of the result
    is a function of one person's rows alone, so what a call promises to one person of it holds for
    all rows of that person in ``data``. Ranges and levels of the new columns are declared as those
    of any other column.

    Examples
    --------
    >>> import pandas as pd, dpmodels as dp
    >>> visits = pd.DataFrame({"id": [1, 1, 2], "bill": [10.0, 5.0, 7.0], "sex": ["m", "m", "f"]})
    >>> people = dp.per_person(visits, "id", visits="count", paid=("sum", "bill"))
    >>> sorted(people.kinds)
    ['id', 'paid', 'visits']
    """
    return Features(as_source(data), unit, features)
