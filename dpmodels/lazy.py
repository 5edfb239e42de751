"""Packages that are slow to import: each is imported when one of its names is first read."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["pd", "special"]


class _OnFirstUse(ModuleType):
    """A module that is imported when one of its names is first read."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import pandas as pd
    from scipy import special
else:
    pd, special = _OnFirstUse("pandas"), _OnFirstUse("scipy.special")
