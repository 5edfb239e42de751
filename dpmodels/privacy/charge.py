"""One call as a budget keeps it, and the arguments of a budget, checked."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpmodels.errors import RequestError, choice, shown
from dpmodels.privacy.account import Account, Entry
from dpmodels.privacy.guarantee import Guarantee
from dpmodels.units.person import LEVELS, column_of, unit_of

__all__ = ["Charge", "checked_number", "checked_unit", "new_account"]


@dataclass(frozen=True)
class Charge:
    """One call as a budget keeps it.

    Attributes
    ----------
    number : int
        Counts the calls of the budget from 1.
    when : str
        UTC, ISO format. In a file only; never printed.
    call : str
    guarantee : Guarantee
    entry : Entry or None
        What the stopping rule was charged with.
    notes : mapping of str to str
    """

    number: int
    when: str
    call: str
    guarantee: Guarantee
    entry: Entry | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


def checked_number(name: str, value: Any, *, positive: bool) -> float:
    """Return a number that is not negative, or raise ``RequestError`` naming the argument."""
    number = math.nan
    with contextlib.suppress(Exception):  # whose message may quote the value
        number = float(value)
    if math.isnan(number):
        raise RequestError(f"{name} must be a number, got {shown(value)}")
    if isinstance(value, bool) or not math.isfinite(number) or number < 0:
        raise RequestError(f"{name} must be finite and not negative, got {shown(value)}")
    if positive and number == 0:
        raise RequestError(f"{name} must be positive, got {shown(value)}. For example {name}=1")
    return number


def checked_unit(unit: Any) -> str:
    """Return the unit of a budget: of rows, or of the people that a column names."""
    if not isinstance(unit, str) or not unit:
        raise RequestError(
            "unit= takes 'record', 'attribute', or the name of the column that says whose row it "
            f'is, for example unit="person_id"; got {shown(unit)}'
        )
    return unit if unit in LEVELS or column_of(unit) else unit_of(unit)


def new_account(
    eps: Any, delta: Any, relation: str, unit: str, rule: str, cap_eps: Any, cap_delta: Any
) -> Account:
    """Validate the arguments of a budget and return its untouched account."""
    eps = checked_number("eps", eps, positive=True)
    delta = checked_number("delta", delta, positive=False)
    if delta >= 1:
        raise RequestError(f"delta must lie in [0, 1), got {shown(delta)}. For example delta=1e-6")
    for name, value, choices in (
        ("relation", relation, ("replace", "add-remove")),
        ("rule", rule, ("auto", "mixed", "caps", "basic")),
    ):
        choice(name, value, choices)
    unit = checked_unit(unit)
    if cap_eps is not None:
        cap_eps = checked_number("cap_eps", cap_eps, positive=False)
        if cap_eps > eps:
            raise RequestError(f"cap_eps={shown(cap_eps)} is above eps={shown(eps)}")
    if cap_delta is not None:
        cap_delta = checked_number("cap_delta", cap_delta, positive=False)
        if cap_delta > delta:
            raise RequestError(f"cap_delta={shown(cap_delta)} is above delta={shown(delta)}")
    if rule in ("basic", "mixed") and (cap_eps is not None or cap_delta is not None):
        raise RequestError('cap_eps= and cap_delta= belong to rule="caps"')
    if cap_eps is not None or cap_delta is not None:
        rule = "caps"
    return Account(eps, delta, relation, unit, rule, cap_eps, cap_delta)
