"""Arguments of a budget, checked, and the words in which a ledger file is refused."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpmodels.errors import BudgetError, RequestError, choice, shown
from dpmodels.privacy.account import Account
from dpmodels.units import LEVELS, column_of, unit_of


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
    """Return the unit of a budget: rows, or people identified by a column."""
    if not isinstance(unit, str) or not unit:
        raise RequestError(
            "unit= must be 'record', 'attribute', or the name of the column that says whose row it "
            f'is, for example unit="person_id"; got {shown(unit)}'
        )
    return unit if unit in LEVELS or column_of(unit) else unit_of(unit)


def rule_named(accounting: str | None, rule: str | None) -> str | None:
    """Return the rule that ``accounting=`` or ``rule=`` names."""
    if accounting is None:
        return rule
    words = {"gaussian": "mixed", "sums": "basic", "pure": "basic"}
    choice("accounting", accounting, sorted(words))
    if rule not in (None, words[accounting]):
        raise RequestError(f"accounting={accounting!r} is rule={words[accounting]!r}: give one")
    return words[accounting]


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
        raise RequestError('cap_eps= and cap_delta= need rule="caps"')
    if cap_eps is not None or cap_delta is not None:
        rule = "caps"
    return Account(eps, delta, relation, unit, rule, cap_eps, cap_delta)


def account_asked(file: Path, typed: Mapping[str, Any]) -> Account:
    """Return the untouched account that was asked for."""
    if "eps" not in typed or "delta" not in typed:
        raise refused("new", file)
    left_out = {"relation": "replace", "unit": "record", "rule": "auto"}
    names = ("eps", "delta", *left_out, "cap_eps", "cap_delta")
    return new_account(*(typed.get(name, left_out.get(name)) for name in names))


#: What is wrong with the ledger file ``{file}`` -> how the error says it.
_REFUSED = {
    "two names": "the ledger {file} has more than one name (a hard link). The journal of its "
    "charges is next to the name, so charges made under the other name would be lost. Nothing was "
    "charged. Remove the other name",
    "emptied": "the ledger {file} is gone or empty, and {many} calls were charged to it ({name} "
    "next to it records this). A new one would forget what was spent. Nothing was charged. Bring "
    "the file back; {deliberate}",
    "another than listed": "another ledger lies under {file} now than the one whose charges {name} "
    "lists. Nothing was charged. Put the file back; {deliberate}",
    "older than listed": "the ledger {file} has lost charges: {many} were committed, the file is "
    "an older copy with {held} calls. Nothing was charged. Bring back the newest file. If it is "
    "lost, the calls that the copy forgets were still answered: the guarantee is then the file's "
    "budget and theirs together. To go on with it, {deliberate}",
    "older copy": "the ledger {file} has lost charges: {many} were seen, and the file is an older "
    "copy with {held} calls. Nothing was charged. Bring back the newest file. If it is lost, the "
    "calls that the copy forgets were still answered: the guarantee is then the file's budget and "
    "theirs together",
    "create=False": "create=False, and {file} holds no ledger. Nothing was created",
    "create=True": "create=True, and {file} holds a ledger already. Nothing was changed. Leave "
    "create= out to go on with it",
    "no directory": "there is no directory {file} for the ledger",
    "cannot be charged": "the ledger {file} is read-only: it cannot be charged. Nothing was "
    "charged. For a report: dp.Budget.open_readonly(path)",
    "was empty": "{file} was an empty file: a new ledger begins in it, at zero. If it held "
    "charges, they are forgotten: restore it from a backup",
    "new": "{file} holds no ledger yet. To create one give its total, for example "
    'dp.Budget.open(path, eps=3, delta=1e-5, label="study")',
    "no ledger": "there is no ledger {file}",
    "not ours": "{file} is not a dpmodels ledger",
    "not a ledger": "{file} is an SQLite file, but not a dpmodels ledger",
    "another": "another ledger lies under {file} now than the one that was opened ({label!r}). "
    "Nothing was charged. Put the file back, or open the new one: dp.Budget.open(path)",
    "changed row": "the ledger {file} is damaged: a row is not as it was written. Nothing was "
    "charged. Restore it from a backup: an empty one would forget what was spent",
    "damaged": "the ledger {file} is damaged. Nothing was charged. Restore it from a backup: an "
    "empty one would forget what was spent",
    "held": "the ledger {file} cannot be used: {problem}. Nothing was charged. Another process "
    "holds it; try again",
    "unusable": "the ledger {file} cannot be used: {problem}. Nothing was charged. If the file is "
    "damaged, restore it from a backup: an empty one would forget what was spent",
    "gone": "the ledger {file} is gone. Nothing was charged. Bring the file back: a new one would "
    "forget what was spent",
    "opened read-only": "the ledger {file} was opened read-only; nothing was charged",
    "read-only": "the ledger {file} is read-only; nothing was charged",
    "newer format": "the ledger {file} has format {version}; this version of dpmodels reads "
    "formats {reads}. Nothing was charged. Upgrade: pip install -U dpmodels",
    "older format": "the ledger {file} has format {version}; this version of dpmodels reads "
    "formats {reads}. Nothing was charged. Open it once with dpmodels 0.2, which brings it to "
    "format 3 with all its charges: pip install dpmodels==0.2.1",
    "differs": "the ledger {file} has {name} = {held!r}, the call says {value!r}. A file holds one "
    "budget for one data set; nothing was charged. Leave the argument out to go on with the "
    "file's, or use another file",
}


def refused(what: str, file: Path, witness: Path | None = None, **facts: Any) -> BudgetError:
    """Return the error for a ledger file, or for a file and its witness."""
    if witness is not None:
        facts["name"] = repr(witness.name)
        facts["deliberate"] = f"if this is meant, remove {str(witness)!r}"
    return BudgetError(_REFUSED[what].format(file=repr(str(file)), **facts))
