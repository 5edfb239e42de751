"""Which method serves a call that names none: a rule on public quantities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpmodels.registry import method_names, resolve
from dpmodels.units.person import LEVELS
from dpmodels.verbs import verb_of

__all__ = ["COMMON_OPTIONS", "Choice", "choose_method"]

#: Arguments that every formula verb takes beside its method's own options.
COMMON_OPTIONS: dict[str, Any] = {
    "split": None,
    "level": 0.95,
    "relation": None,
    "na": "zero-row",
    "on_no_reply": "return",
    "engine": "formulaic",
    "subset": None,
    "weights": None,
    "n": None,
    "unit": None,
    "units": None,
    "rows_per_unit": None,
    "max_rows": None,
    "sort": None,
}


@dataclass(frozen=True)
class Choice:
    """The method of a call.

    Attributes
    ----------
    method : str
    reasons : tuple of str
    """

    method: str
    reasons: tuple[str, ...] = ()


def choose_method(
    verb: str,
    method: str | None,
    public: Any,
    *,
    inference: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Choice:
    """Return the method of a call, with the reasons.

    One that reads public data where they are given (by the verb's record), else the first method
    of the registry; the record may name another that is the better one without inference
    (``Verb.instead``). An option that only the other has asks for it.
    """
    if method is not None:
        return Choice(method)
    record, names = verb_of(verb), method_names(verb)
    first = names[0]
    if public is not None and record.with_public in names:
        return Choice(
            record.with_public,
            (f"method chosen: {record.with_public}, because public data were given",),
        )
    other = record.instead
    if other:
        given = {k: v for k, v in (options or {}).items() if v is not None}
        asked = [name for name in given if not _knows(verb, first, name)]
        if asked and all(_serves(verb, other, k, given[k]) for k in given):
            return Choice(other, (f"method chosen: {other}, because {asked[0]}= was given",))
        able = all(_serves(verb, other, k, given[k]) for k in given)
        if not inference and able:
            return Choice(
                other, (f"method chosen: {other}, because inference=False asks for no errors",)
            )
        if able and given.get("relation") == "add-remove" and "n_guess" not in given:
            why = "relation='add-remove' was given without n_guess="
            return Choice(other, (f"method chosen: {other}, because {why}",))
    return Choice(first, _because(verb, first))


def _because(verb: str, name: str) -> tuple[str, ...]:
    because = verb_of(verb).because
    return (f"method chosen: {name}, {because}",) if because else ()


def _option(verb: str, method: str, name: str) -> Any:
    return next((o for o in resolve(verb, method).options if o.name == name), None)


def _knows(verb: str, method: str, name: str) -> bool:
    return name in COMMON_OPTIONS or _option(verb, method, name) is not None


def _serves(verb: str, method: str, name: str, value: Any) -> bool:
    """Return whether a method takes an option with this value."""
    if name == "unit" and value not in LEVELS:
        return bool(resolve(verb, method).people)
    if name in COMMON_OPTIONS:
        return name != "weights" or "weights" in resolve(verb, method).accepts
    option = _option(verb, method, name)
    if option is None:
        return False
    return not (option.choices and isinstance(value, str) and value not in option.choices)
