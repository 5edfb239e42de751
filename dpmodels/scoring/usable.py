"""Noisy count of usable rows before the fit, and of the variable whose cells are not usable.

It is the first step of a scoring fit, but with ``stop=False`` or ``split=``. Below a public
threshold the call stops. Then counts by variable are released, with the share of the last pass,
and the rest of the charge is returned to the budget. Claims: ``theory.md``, 7.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.proof.sets import Box
from dpmodels.proof.statistics import Sum
from dpmodels.ranges import Part
from dpmodels.records import USABLE_ROWS, Release
from dpmodels.scoring import rules
from dpmodels.sums.ask import Added, Counts, Query

if TYPE_CHECKING:
    from dpmodels.arrays import Array
    from dpmodels.formula.design import Design
    from dpmodels.notes import Note
    from dpmodels.planning import Plan
    from dpmodels.records import Request
    from dpmodels.sums.ask import Ask

#: Name of the second step.
USABLE_BY_VARIABLE = "usable by variable"
#: What 1 is on the lattice of a box.
_ONE = 1 << 20


@dataclass(frozen=True)
class Look:
    """Noisy count of usable units below which a call stops early, decided by public numbers."""

    n: int  # Public number of units (rows, or people), or the guess
    mu: float  # mu of the whole call
    share: float  # Share of mu^2 for the count
    stop_below: float  # Units
    variables: tuple[str, ...]  # Variables of the design, as they are declared
    units: str = "rows"  # Noun for the counted units

    @property
    def sd(self) -> float:
        """Return the noise of the count."""
        return 1.0 / (self.mu * math.sqrt(self.share))

    @property
    def step(self) -> Step:
        """Return the step of the count."""
        mu = self.mu * math.sqrt(self.share)
        return Step(USABLE_ROWS, Gaussian(mu), share=self.share, reply_test=True)

    @property
    def blame(self) -> Step:
        """Return the step of the counts by variable, which the last pass pays for after a stop."""
        d = len(self.variables)
        share = rules.BLAME_SHARE_FACTOR * d / (self.mu * self.n) ** 2
        share = min(max(share, rules.BLAME_SHARE_MIN), rules.BLAME_SHARE_MAX)
        return Step(USABLE_BY_VARIABLE, Gaussian(self.mu * math.sqrt(share)), share=share)

    @classmethod
    def of(cls, request: Request, design: Design, mu: float, n: int) -> Look | None:
        """Plan the count of usable rows, or return None if it is not wanted or hidden by noise."""
        stop = request.options.get("stop", False)
        stop = request.split is None if stop is None else stop
        if not stop or not mu > 0.0:
            return None
        share = rules.LOOK_SHARE_FACTOR / (mu * n) ** 2
        share = min(max(share, rules.LOOK_SHARE_MIN), rules.LOOK_SHARE_MAX)
        noise = rules.STOP_SDS / (mu * math.sqrt(share))
        if noise > rules.LOOK_MAX_NOISE * n:
            return None
        least = rules.STOP_SHARE if stop is True else float(stop)
        if design.subset is not None:  # rows outside are not usable either
            least = 0.0
        units = "rows" if request.unit is None else "people"
        return cls(n, mu, share, max(least * n, noise), _examined_variables(design), units)

    @property
    def printed(self) -> dict[str, float]:
        """Return the facts that a plan prints about it."""
        return {
            f"stops below usable {self.units} (of {self.n})": self.stop_below,
            "part of mu^2 that goes back then": 1.0 - self.share - (self.blame.share or 0.0),
        }

    def first(self, part: Part) -> Part:
        """Return the ranges' part of the call with this count before it: the rest gets less."""
        remaining = 1.0 - self.share
        root = math.sqrt(remaining)
        steps = [replace(s, mechanism=Gaussian(s.mechanism.mu * root)) for s in part.steps]
        bought = part.purchase
        if bought is not None:
            bought = replace(bought, mu=bought.mu * root)
        return replace(
            part, share=self.share + remaining * part.share, purchase=bought,
            steps=(self.step, *(s.within(remaining) for s in steps)),
        )  # fmt: skip

    def ask(self, plan: Plan[Any], ask: Ask, payer: str) -> Release | None:
        """Release the count and, if it is too small, the count for each variable. None: go on.

        Privacy
        -------
        GDP for one unit, the mu of the step: a row adds 0 or 1, a person 1 if any of its rows is
        usable. After a stop also that of the counts by variable, of which a unit moves each by one
        at most; the last pass pays.
        """
        complete = Counts(plan.design, count_complete, of_people=True)
        released = ask(USABLE_ROWS, Query(Sum(Box(1, low=0)), complete, _sums))
        usable = float(released.values[0])
        if usable >= self.stop_below:
            return None
        ask.pay(payer, [self.blame])
        many = len(self.variables)
        bits: Any = replace(plan.design, program=Presence(self.variables))  # type: ignore[arg-type]
        present = Counts(bits, functools.partial(count_present, many=many), of_people=True)
        each = ask(USABLE_BY_VARIABLE, Query(Sum(Box(many, low=0)), present, _sums))
        return Release(
            {"usable rows": np.array(usable), "usable by variable": each.values},
            plan.guarantee, plan.design, reply=False, why="rows",
            detail=self,
        )  # fmt: skip

    def notes(self, release: Release) -> tuple[Note, ...]:
        """Return notes on the number of usable rows and on each variable: released numbers."""
        usable = max(float(release.values["usable rows"]), 0.0)
        notes = [
            messages.FEW_USABLE_ROWS(
                usable=usable, n=self.n, sd=self.sd, least=self.stop_below, units=self.units
            )
        ]
        mu = self.blame.mechanism.mu
        sd = math.sqrt(len(self.variables)) / mu / self.n
        counts = np.clip(release.values["usable by variable"] / self.n, 0.0, 1.0)
        for part, name in sorted(zip(counts.tolist(), self.variables, strict=True)):
            values = {"name": name, "share": 100.0 * part, "sd": 100.0 * sd}
            levels = getattr(release.design.schema[name], "levels", None)
            if levels and part < 1.0 - rules.STOP_SDS * sd:
                shown = ", ".join(repr(v) for v in list(levels)[:6])
                notes.append(messages.UNDECLARED_VALUES(levels=shown, **values))
            else:
                notes.append(messages.USABLE_VALUES(**values))
        return tuple(notes)


def count_complete(blocks: Iterable[Array]) -> tuple[npt.NDArray[np.int64]]:
    """Return how many units have a row without a missing cell. Confidential."""
    count = np.zeros(1, np.int64)
    for block in blocks:
        complete = np.asarray(np.isfinite(_rows(block)).all(axis=0), dtype=bool)
        count += _units_with(complete, block)
    return (count,)


def _rows(block: Any) -> Array:
    """Return the rows (q, m) of a block of rows, or of people."""
    return np.asarray(getattr(block, "rows", block))


def _units_with(marked: npt.NDArray[np.bool_], block: Any) -> int:
    """Return how many units of a block have a marked row. Confidential."""
    counts = getattr(block, "counts", None)
    if counts is None:
        return int(np.count_nonzero(marked))
    person = np.repeat(np.arange(len(counts)), counts)
    return int(np.count_nonzero(np.bincount(person[marked], minlength=len(counts))))


@dataclass(frozen=True)
class Presence:
    """Fills a block with which variables a row has, as bits; the counterpart of ``Program``."""

    variables: tuple[str, ...]

    def fill(self, chunk: Mapping[str, Any], out: Array, clips: Any, finals: Any) -> None:
        """Write the bits of ``VARIABLES_PER_ROW`` variables into each row of ``out``."""
        out[...] = 0.0
        for j, name in enumerate(self.variables):
            cells = chunk[name]
            present = ~np.isnan(cells) if cells.dtype.kind == "f" else cells >= 0
            out[j // rules.VARIABLES_PER_ROW] += present * 2.0 ** (j % rules.VARIABLES_PER_ROW)


def count_present(blocks: Iterable[Array], many: int) -> tuple[npt.NDArray[np.int64]]:
    """Return how many units have a row with each of ``many`` variables. Confidential."""
    each = np.zeros(many, np.int64)
    for block in blocks:
        for j in range(many):
            bits = _rows(block)[j // rules.VARIABLES_PER_ROW].astype(np.int64)
            present = np.asarray(bits >> (j % rules.VARIABLES_PER_ROW) & 1, dtype=bool)
            each[j] += _units_with(present, block)
    return (each,)


def _examined_variables(design: Design) -> tuple[str, ...]:
    """Return the variables that are looked at one by one, as many as a block has room for."""
    return design.variables[: rules.VARIABLES_PER_ROW * design.q]


def _sums(counts: tuple[npt.NDArray[np.int64], ...]) -> Added:
    """Return counts on the lattice of a box."""
    return Added(counts[0].astype(object) * _ONE)
