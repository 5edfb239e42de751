"""A fit as nothing but the attributes that maketables reads (``results/adapters.py`` has them)."""

from __future__ import annotations

from dpmodels.results.adapters import MaketablesPlugin, register
from dpmodels.results.fit import Fit
from dpmodels.results.record import Record

__all__ = ["MaketablesPlugin", "TableModel", "as_model", "register"]


class TableModel(MaketablesPlugin):
    """A fit that shows nothing but the plug-in attributes. Made by :func:`as_model`."""

    __slots__ = ("_record",)

    def __init__(self, record: Record) -> None:
        self._record = record


def as_model(fit: Fit) -> TableModel:
    """Return all attributes that ``maketables.ETable`` reads from a fit.

    Parameters
    ----------
    fit : Fit

    Privacy
    -------
    Post-processing of released numbers: costs nothing.

    Examples
    --------
    >>> from dpmodels.interop.maketables import as_model
    >>> ETable([as_model(fit1), as_model(fit2)],
    ...        coef_fmt="b:.3f (se_sampling:.3f, se_privacy:.3f)")  # doctest: +SKIP
    """
    return TableModel(fit._record)
