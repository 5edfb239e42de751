"""Designs that were compiled lately, by the text of what they were compiled from.

A design is a function of public facts alone: the formula, the schema, the options. Compiling one
takes as long as a fit of some thousand rows, so the last ones are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from dpmodels.formula.functions import REGISTERED
from dpmodels.formula.schema import Schema

__all__ = ["remembered"]

#: Designs of each kind that are kept, and characters of a schema beyond which none is.
_MOST, _LONGEST = 16, 100_000

Build = TypeVar("Build", bound=Callable[..., Any])


def remembered(build: Build) -> Build:
    """Return the function with a memory of its last designs.

    Notes
    -----
    **Privacy.** The key is the text of public arguments (``repr`` tells 1, 1.0 and True apart, as
    equality does not), and the functions that were registered. No row has been read when a design
    is made.
    """
    kept: dict[Any, Any] = {}

    @functools.wraps(build)
    def found(formula: Any, schema: Any, **options: Any) -> Any:
        text = repr(schema) if isinstance(schema, Schema) else ""
        if not isinstance(formula, str) or not 0 < len(text) <= _LONGEST:
            return build(formula, schema, **options)
        key = (formula, text, repr(sorted(options.items())), tuple(REGISTERED.values()))
        design = kept.pop(key, None)
        if design is None:
            design = build(formula, schema, **options)
        kept[key] = design  # the last one used stands last
        for oldest in [*kept][:-_MOST]:
            kept.pop(oldest, None)
        return design

    return found  # type: ignore[return-value]
