"""Which test a formula calls for, and what it tests: public, checked before anything is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError, choice, shown
from dpmodels.models.table.layout import Layout, program_of
from dpmodels.models.table.noise import TableNoise

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

#: What ``test=`` may say.
NAMES = (
    "t", "mean", "paired", "welch", "anova", "proportion", "fit", "chi2", "independence",
    "correlation",
)  # fmt: skip


def _describe(design: Design) -> tuple[list[int], list[int], bool]:
    """Return the numbers and the categories of a formula, and whether it has two sides."""
    program = program_of(design)
    terms = (*program.left, *program.right)
    crossed = [t for t in terms if len(t) == 2]
    if (
        len(crossed) == 1
        and not program.left
        and {t for t in terms if len(t) == 1} <= {(j,) for j in crossed[0]}
    ):  # "~ a * b", as in a table; "~ a + b" says the same here
        terms = tuple((j,) for j in crossed[0])
    if any(len(t) > 1 for t in terms) or len(program.left) > 1:
        raise RequestError(f'"{design.formula}": a test takes "y ~ g", "y ~ 1", "~ g" or "~ a * b"')
    places = [t[0] for t in terms]
    numbers = [j for j in places if program.sources[j].levels is None]
    return numbers, [j for j in places if j not in numbers], bool(program.left and program.right)


def kind_of(request: Request, design: Design) -> str:
    """Return the kind of a test by the kinds of its variables, or as ``test=`` says."""
    numbers, categories, _ = _describe(design)
    shape = (len(numbers), len(categories))
    found = {
        (1, 0): "mean", (1, 1): "groups", (0, 1): "fit", (0, 2): "independence",
        (2, 0): "correlation",
    }.get(shape)  # fmt: skip
    left = program_of(design).left
    if (
        found is None
        or len({*numbers, *categories}) < sum(shape)
        or (found == "groups" and [t[0] for t in left] != numbers)
    ):
        raise RequestError(
            f'"{design.formula}" has {len(numbers)} numbers and {len(categories)} categories: a '
            'test takes "y ~ g" (means), "y ~ 1" (one mean), "~ g" (shares), "~ a * b" '
            "(independence of two categories, correlation of two numbers)"
        )
    asked = request["test"]
    if asked is None:
        return found
    serves = {
        "mean": ("t", "mean", "paired"), "groups": ("t", "welch", "anova"),
        "fit": ("chi2", "fit", "proportion"),
        "independence": ("chi2", "independence", "proportion"),
        "correlation": ("correlation",),
    }  # fmt: skip
    if asked not in serves[found]:
        fitting = ", ".join(map(repr, serves[found]))
        raise RequestError(
            f'test={asked!r} does not go with "{design.formula}", whose variables call for '
            f"{fitting}. Leave test= out to have it chosen"
        )
    levels = len(program_of(design).sources[categories[0]].levels or ()) if categories else 0
    if asked in ("t", "welch", "proportion") and levels > 2:
        raise RequestError(
            f"test={asked!r} takes two groups, and {design.columns[categories[0]].name!r} has "
            f"{levels} declared levels. For more: test='anova', or test='chi2' for counts"
        )
    return found


def null_of(request: Request, design: Design, kind: str) -> tuple[float, ...]:
    """Return the hypothesis: a mean inside the range, or shares of the levels."""
    mu0, p = request["mu0"], request["p"]
    if kind == "mean":
        if p is not None:
            raise RequestError("p= gives shares of levels; the hypothesis of a mean is mu0=")
        value = float(mu0 or 0.0)
        interval = design.columns[0].interval
        if interval is not None and not interval[0] < value < interval[1]:
            raise RequestError(
                f"mu0={value:g} is not inside the range [{interval[0]:g}, {interval[1]:g}] of "
                f"{design.columns[0].name!r}: no mean of clipped values could be that"
            )
        return (value,)
    if mu0 is not None:
        raise RequestError('mu0= is the hypothesis of one mean: "y ~ 1"')
    if kind != "fit":
        if p is not None:
            raise RequestError('p= is the hypothesis of one category: "~ g"')
        return ()
    levels = program_of(design).sources[0].levels or ()
    if p is None:
        return (1.0 / len(levels),) * len(levels)
    if isinstance(p, (int, float)) and not isinstance(p, bool) and len(levels) == 2:
        p = (1.0 - p, p)  # of the second level, as everywhere
    if isinstance(p, Mapping):
        unknown = [k for k in p if k not in levels]
        if unknown or len(p) != len(levels):
            raise RequestError(f"p= must give a share to each of {list(levels)!r}")
        p = [p[level] for level in levels]
    shares = [float(v) for v in p] if isinstance(p, (list, tuple, np.ndarray)) else []
    if len(shares) != len(levels) or min(shares) <= 0 or abs(math.fsum(shares) - 1.0) > 1e-9:
        raise RequestError(
            f"p={shown(request['p'])}: {len(levels)} positive shares that add up to 1 are needed, "
            f"one for each of {list(levels)!r}"
        )
    return tuple(shares)


def check_name(test: Any) -> Any:
    """Return a known name of a test, None, or a function; else refuse it."""
    if test is None or callable(test):
        return test
    meant = {"ttest": "t", "t.test": "t", "t-test": "t", "student": "t", "chisq": "chi2",
             "f": "anova", "chi-squared": "chi2", "pearson": "correlation"}  # fmt: skip
    near = meant.get(str(test).lower())
    return choice("test", test, NAMES, more=f" Did you mean {near!r}?" if near else "")


# -- What a test by sums is made from: its kind, layout and noise, decided from public facts


@dataclass(frozen=True)
class Facts:
    """What is public about a test.

    Attributes
    ----------
    kind : str
        "mean", "groups", "fit", "independence" or "correlation".
    layout : Layout or None
        None for a correlation.
    noise : TableNoise or None
    mu : float
        Of the release.
    null : tuple of float
        Hypothesised mean, in the user's units; or shares.
    alike : int
        Rows that may depend on each other (those of a person that are kept).
    """

    kind: str
    layout: Layout | None
    noise: TableNoise | None
    mu: float
    null: tuple[float, ...] = ()
    alike: int = 1
