"""Which method serves a call that names none: a rule on public quantities."""

from __future__ import annotations

from typing import Any

from dpmodels.registry import method_names

__all__ = ["choose_method"]


def choose_method(verb: str, method: str | None, public: Any) -> tuple[str, tuple[str, ...]]:
    """Return (method, reasons).

    ``"pmt"`` where public data are given, for the verbs that have it. Else ``dp_ols``: ``"ssp"``,
    which fixes its number of stages by a public noise ratio when it plans. Other verbs: the first
    method of the registry.
    """
    if method is not None:
        return method, ()
    names = method_names(verb)
    if public is not None and "pmt" in names:
        return "pmt", ("method chosen: pmt, because public data were given",)
    chosen = "ssp" if verb == "dp_ols" and "ssp" in names else names[0]
    if verb != "dp_ols":
        return chosen, ()
    return chosen, (
        f"method chosen: {chosen}, the most accurate where only ranges are known (no public data)",
    )
