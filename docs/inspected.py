"""Docstrings of the reference as ``help()`` shows them: paragraphs that verbs share written out."""

import importlib
import inspect
from typing import Any

import griffe


class Inspected(griffe.Extension):
    """Take the docstring of a function from the function itself."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Read what ``dpmodels.verbs.like`` wrote."""
        if func.docstring and any(str(d.value).startswith("like(") for d in func.decorators):
            verb = getattr(importlib.import_module(func.module.path), func.name)
            func.docstring.value = inspect.getdoc(verb) or ""
