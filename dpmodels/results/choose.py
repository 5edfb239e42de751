"""Which coefficients a report shows, in which order and under which names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpmodels.errors import RequestError, did_you_mean, shown

__all__ = ["chosen", "labelled"]


def _listed(name: str, given: Any) -> list[str]:
    listed = [given] if isinstance(given, str) else list(given or ())
    if not all(isinstance(g, str) for g in listed):
        raise RequestError(f"{name}= takes names of coefficients, or regular expressions of them")
    return listed


def _matches(option: str, wanted: str, names: Sequence[str]) -> list[str]:
    """Return the names an entry stands for: itself, or those that a regular expression finds."""
    if wanted in names:
        return [wanted]
    found: list[str] | None = None
    try:
        found = [name for name in names if re.search(wanted, name)]
    except re.error:
        found = None
    if not found:
        raise RequestError(
            f"{option}: {shown(wanted)} is no coefficient of these fits, nor an expression that "
            f"finds one.{did_you_mean(wanted, names)} Coefficients: {', '.join(names)}"
        )
    return found


def chosen(
    names: Iterable[str], *, order: Any = None, keep: Any = None, drop: Any = None
) -> list[str]:
    """Return the coefficients to show.

    Parameters
    ----------
    names : iterable of str
    order, keep, drop : str or list of str, optional
        Names, or regular expressions. ``order``: these first.
    """
    every = list(names)
    out = every
    if keep is not None:
        kept = {n for w in _listed("keep", keep) for n in _matches("keep", w, every)}
        out = [n for n in out if n in kept]
    if drop is not None:
        gone = {n for w in _listed("drop", drop) for n in _matches("drop", w, every)}
        out = [n for n in out if n not in gone]
    if order is not None:
        first = [n for w in _listed("order", order) for n in _matches("order", w, every)]
        front = [n for n in dict.fromkeys(first) if n in out]
        out = [*front, *(n for n in out if n not in front)]
    if not out:
        raise RequestError("keep= and drop= leave no coefficient to show")
    return out


def labelled(name: str, labels: Mapping[str, str] | None) -> str:
    """Return the label of a coefficient; of an interaction, the labels of its parts."""
    if not labels:
        return name
    if not isinstance(labels, Mapping):
        raise RequestError("labels= takes a mapping, {'age': 'Age in years'}")
    if name in labels:
        return str(labels[name])
    parts = name.split(":")
    if len(parts) > 1 and any(part in labels for part in parts):
        return " \u00d7 ".join(str(labels.get(part, part)) for part in parts)
    return name
