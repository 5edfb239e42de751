"""Levels released for a part of the budget: values that occur often enough (``levels.md``).

One stability histogram over the values of k columns at once: one Gaussian release of all counts,
of which only those above a threshold leave.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpmodels.errors import RequestError
from dpmodels.own.levels import MOST_VALUES, STEP
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Gaussian, Step, mu_gdp
from dpmodels.privacy.run import stability_threshold
from dpmodels.tables.content import Column, Layout
from dpmodels.tables.table import Shown, Table, grid
from dpmodels.units import Person, unit_of
from dpmodels.variables import Levels, as_key, missing_spans

#: Part of delta for a value that only one row, or person, has and that exceeds the threshold.
FAILURE = 0.25


@dataclass(frozen=True)
class LevelsPlan:
    """Cost of releasing levels, and the rows (or people) that a value needs; public."""

    columns: tuple[str, ...]
    missing: tuple[tuple[str, ...], ...]  # codes of each column that are not values
    sd: float  # noise of a count
    tau: float  # count below which a value is not released
    guarantee: Guarantee
    n: int | None
    advice: tuple[str, ...] = ()
    seeded: bool = False
    most: int = 0  # Values of one person that count in a column, 0 where rows are protected

    @classmethod
    def of(
        cls, columns: tuple[str, ...], missing: tuple[tuple[str, ...], ...], n: int, eps: float,
        delta: float, *, seeded: bool = False, person: Person | None = None,
    ) -> LevelsPlan:  # fmt: skip
        """Return the plan of k columns at (eps, delta): claims 1 and 2 of ``levels.md``."""
        k, failure = len(columns), FAILURE * delta
        shift = -math.log1p(-failure)  # the factor 1 / (1 - delta_t) of the proof
        if not eps > shift:
            raise RequestError(f"eps = {eps:g} is too small to estimate levels")
        mu = mu_gdp(eps - shift, delta - failure)
        sd = math.sqrt(2.0 * k) / mu
        step = Step(STEP, Gaussian(mu), share=1.0, failure=failure, label="levels bought")
        unit = "record" if person is None else unit_of(person.column)
        guarantee = Guarantee((step,), eps, delta, "replace", unit=unit)
        most = 0 if person is None else MOST_VALUES
        if seeded:
            guarantee = replace(guarantee, seeded=True)
        advice: tuple[str, ...] = ()
        tau = threshold(sd, failure, k, most)
        counted = "people" if most else "rows"
        if n < 4.0 * tau:
            advice = (
                f"a value is released if about {tau:.0f} {counted} have it, and the table has {n}: "
                "few or none can be found. Declare the levels from a codebook, or use a larger eps",
            )
        return cls(columns, missing, sd, tau, guarantee, n, advice, seeded, most)


def threshold(sd: float, failure: float, k: int, most: int = 0) -> float:
    """Return tau: the values of one row, or person, alone pass it with probability ``failure``.

    ``most``: values of a person that count in a column; 0: of a row, which has one.
    """
    return stability_threshold(sd, failure, k, most)


class FoundLevels(Mapping[str, Levels], Shown):  # type: ignore[misc]
    """Levels that were estimated: a mapping from column to :class:`dpmodels.Levels`.

    Attributes
    ----------
    counts : mapping
        Column -> value -> noisy count, as it was released.
    sd, threshold : float
        Noise of a count; the count below which a value is not released.
    privacy : Guarantee

    Notes
    -----
    **Privacy.** Released values; ``schema.update(found)`` puts them into a schema, at no cost.
    """

    def __init__(
        self, counts: Mapping[str, Mapping[str, float]], plan: LevelsPlan,
        others: Mapping[str, Any],
    ) -> None:
        self.counts = {name: merged(values) for name, values in counts.items()}
        self.sd, self.threshold, self.privacy = plan.sd, plan.tau, plan.guarantee
        self.people, self.n = plan.most > 0, plan.n or 1
        self._levels = {}
        for name, values in self.counts.items():
            other, words = others.get(name), plan.missing[plan.columns.index(name)]
            coded = {as_key(word) for word in words}  # another spelling of a missing code is none
            spans = missing_spans(words)
            listed = [
                text for text, key in zip(values, map(as_key, values), strict=True)
                if key not in coded
                and not (isinstance(key, float) and any(a <= key <= b for a, b in spans))
            ]  # fmt: skip
            listed.sort(key=lambda text: (-values[text], text))
            if len({*listed, *([other] if other is not None else [])}) >= 2:
                self._levels[name] = Levels(listed, other=other, missing=words or None)

    def __getitem__(self, name: str) -> Levels:
        return self._levels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._levels)

    def __len__(self) -> int:
        return len(self._levels)

    def shares(self, n: int) -> dict[str, float]:
        """Return the part of n units that the released levels of each column hold.

        It is 1 if other values count as a level, and at most 1 for people with several values.
        """
        parts: dict[str, float] = {}
        for name, level in self._levels.items():
            held = sum(self.counts[name].get(str(text), 0.0) for text in level.levels)
            parts[name] = 1.0 if level.other is not None else min(held / n, 1.0)
        return parts

    def table(self) -> Table:
        """Return the released values and their noisy counts."""
        rows = [
            (name, text, f"{count:.0f}")
            for name, values in self.counts.items()
            for text, count in sorted(values.items(), key=lambda item: -item[1])
        ]
        counted = "people" if self.people else "rows"
        columns = ("column", Column("value", left=True), f"{counted} (noisy)")
        notes = (
            f"Noise sd {self.sd:.3g}. A value is released if its noisy count is at least "
            f"{self.threshold:.0f}; others are missing, or count as other=.",
            f"{self.privacy.statement()}.",
            *((
                f"A person with t values of a column adds 1/sqrt(t) to each, at most {MOST_VALUES} "
                "of them.",
            ) if self.people else ()),
        )  # fmt: skip
        return grid(columns, rows, notes=notes, layout=Layout(ruled=False))

    __str__, __repr__ = Shown.__str__, Shown.__str__


def merged(values: Mapping[str, float]) -> dict[str, float]:
    """Return released values with those that differ by case alone as one, under the commonest."""
    groups: dict[str, list[str]] = {}
    for text in values:
        groups.setdefault(text.casefold(), []).append(text)
    out = {}
    for texts in groups.values():
        name = max(texts, key=lambda text: (values[text], text))
        out[name] = sum(values[text] for text in texts)
    return out
