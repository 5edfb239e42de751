"""Columns without a response: one way to write them for ``dp_mean``, ``dp_moments``, ``dp_pca``."""

from __future__ import annotations

from typing import Any

from dpmodels.errors import RequestError

__all__ = ["columns_formula"]


def columns_formula(given: Any) -> str:
    """Return ``"x1 + x2 ~ 1"`` for that text, with or without its ``~``, or for a list of names."""
    if isinstance(given, str):
        text = given.strip()
        if text.startswith("~"):
            return f"{text[1:].strip()} ~ 1"
        return given if "~" in text or not text else f"{text} ~ 1"
    names = list(given) if hasattr(given, "__iter__") else []
    if not names or not all(isinstance(c, str) for c in names):
        raise RequestError(
            "the columns are a formula, 'x1 + x2 ~ 1' or '~ x1 + x2', or a list of column names; "
            f"got {type(given).__name__}"
        )
    return " + ".join(c if c.isidentifier() else f"`{c}`" for c in names) + " ~ 1"
