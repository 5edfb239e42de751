"""Which method serves a call that names none: a rule on public quantities."""

from __future__ import annotations

from typing import Any

from dpmodels.registry import method_names
from dpmodels.verbs import verb_of

__all__ = ["choose_method"]


def choose_method(verb: str, method: str | None, public: Any) -> tuple[str, tuple[str, ...]]:
    """Return (method, reasons).

    ``"pmt"`` where public data are given, for the verbs that have it; else the first method of the
    registry, with the reason that the verb's record gives.
    """
    if method is not None:
        return method, ()
    names = method_names(verb)
    if public is not None and "pmt" in names:
        return "pmt", ("method chosen: pmt, because public data were given",)
    because = verb_of(verb).because
    return names[0], ((f"method chosen: {names[0]}, {because}",) if because else ())
