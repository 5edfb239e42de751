"""Audit cases of the package's own methods, by room; broken twins of generic mechanisms beside them.

``load()`` registers them with :mod:`dpmodels.audit`: ``audit("eptr")`` then runs those of a method.
"""

import importlib

from dpmodels.audit import kit as cases
from dpmodels.audit.kit import findings_of_queries

ROOMS = ("linear", "propose", "posterior", "noised", "tables", "people", "scoring", "survival")


def load():
    """Register the cases of every room; return all registered (verb, method)."""
    from dpmodels.registry import method_names, methods

    for room in ROOMS:
        importlib.import_module(f"tests.privacy.cases.{room}")
    return [(str(v), name) for v in dict.fromkeys(methods()["verb"]) for name in method_names(v)]


def uncovered():
    """Return the registered (verb, method) that have no audit case and ask no query."""
    return [key for key in load() if key not in cases._CASES and not findings_of_queries(*key)]
