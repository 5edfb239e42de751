"""Noisy count of usable rows before the fit, and of the variable whose cells are not usable.

It is the first step of a scoring fit, but with ``stop=False`` or ``split=``. Below a public
threshold the call stops. Then counts by variable are released, with the share of the last pass,
and the rest of the charge is returned to the budget. Claims: ``theory.md``, 7.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels import messages
from dpmodels.core.release import End, Release
from dpmodels.core.rows import Rows, complete, stack
from dpmodels.core.sets import Complete, Marks
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import Part
from dpmodels.records import USABLE_ROWS
from dpmodels.scoring import rules
from dpmodels.scoring.pass_plan import usable_count

if TYPE_CHECKING:
    from dpmodels.arrays import Array
    from dpmodels.formula.design import Design
    from dpmodels.notes import Note
    from dpmodels.records import Release as Record
    from dpmodels.records import Request

#: Name of the second step.
USABLE_BY_VARIABLE = "usable by variable"


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
    def blame(self) -> Step:
        """Return the step of the counts by variable, which the last pass pays for after a stop."""
        mu = self.mu * math.sqrt(rules.BLAME_SHARE)
        return Step(USABLE_BY_VARIABLE, Gaussian(mu), share=rules.BLAME_SHARE)

    @classmethod
    def of(cls, request: Request, design: Design, mu: float, n: int) -> Look | None:
        """Plan the count of usable rows, or return None if it is not wanted or hidden by noise."""
        stop = request.options.get("stop", False)
        stop = request.split is None if stop is None else stop
        if not stop or not mu > 0.0:
            return None
        share = rules.LOOK_SHARE_FACTOR / (mu * n) ** 2
        share = min(max(share, rules.LOOK_SHARE_MIN), rules.LOOK_SHARE_MAX)
        noise = rules.CLEAR_OF_NOISE / (mu * math.sqrt(share))
        if noise > rules.LOOK_MAX_NOISE * n:
            return None
        least = rules.STOP_SHARE if stop is True else float(stop)
        if design.subset is not None:  # rows outside are not usable either
            least = 0.0
        units = "rows" if request.unit is None else "people"
        variables = design.variables[: rules.VARIABLES_PER_ROW * design.q]  # room of a block
        return cls(n, mu, share, max(least * n, noise), variables, units)

    @property
    def printed(self) -> dict[str, float]:
        """Return the facts that a plan prints about it."""
        return {
            f"stops below usable {self.units} (of {self.n})": self.stop_below,
            "part of mu^2 that goes back then": 1.0 - self.share - rules.BLAME_SHARE,
        }

    def first(self, part: Part) -> Part:
        """Return the ranges' part of the call with this count before it: the rest gets less."""
        remaining = 1.0 - self.share
        root = math.sqrt(remaining)
        steps = [replace(s, mechanism=Gaussian(s.mechanism.mu * root)) for s in part.steps]
        mu, bought = self.mu * math.sqrt(self.share), part.purchase
        count = Step(USABLE_ROWS, Gaussian(mu), share=self.share, reply_test=True)
        if bought is not None:
            bought = replace(bought, mu=bought.mu * root)
        return replace(
            part, share=self.share + remaining * part.share, purchase=bought,
            steps=(count, *(s.within(remaining) for s in steps)),
        )  # fmt: skip

    def ask(
        self, design: Design, payer: str, relation: str
    ) -> Generator[Release, Any, End | float]:
        """Release the count of usable units; return the usable part of n, or the end of the call.

        The call ends if the count is too small. Then counts by variable are released too, and
        ``payer`` is the step that pays for them.

        Privacy
        -------
        GDP for one unit, the mu of the step: a row adds 0 or 1, a person 1 if any of its rows is
        usable. After a stop also that of the counts by variable, of which a unit moves each by one
        at most.
        """
        released = yield Release(USABLE_ROWS, Complete(1), complete, design)
        usable = float(released.values[0])
        if usable >= self.stop_below:
            return min(usable_count(usable, self.sd, self.n, relation) / self.n, 1.0)
        many, per_row = len(self.variables), rules.VARIABLES_PER_ROW

        def present(z: Rows) -> Rows:
            bits = (z[j // per_row] / 2.0 ** (j % per_row) for j in range(many))
            return stack(*(np.mod(np.floor(bit), 2.0) for bit in bits))

        bits: Any = replace(design, program=Presence(self.variables))  # type: ignore[arg-type]
        each = yield Release(
            USABLE_BY_VARIABLE, Marks(many), present, bits, paid_by=payer, steps=(self.blame,)
        )
        values = {"usable rows": np.array(usable), "usable by variable": each.values}
        return End(values, design, why="rows", detail=self)

    def notes(self, release: Record) -> tuple[Note, ...]:
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
            if levels and part < 1.0 - rules.CLEAR_OF_NOISE * sd:
                shown = ", ".join(repr(v) for v in list(levels)[:6])
                notes.append(messages.UNDECLARED_VALUES(levels=shown, **values))
            else:
                notes.append(messages.USABLE_VALUES(**values))
        return tuple(notes)


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
