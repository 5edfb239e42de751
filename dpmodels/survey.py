"""Sample design as public facts: its columns, and the declared numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, UnknownOptionError, did_you_mean, shown
from dpmodels.sums.labels import Labels

#: Guessed correlation of the scores of one cluster.
ICC = 0.15
#: Fewer clusters than this determine no variance.
LEAST = 20


#: Name of an argument in svydesign and samplics -> the text to type here.
_MEANT_DESIGN = {
    **dict.fromkeys(("id", "ids", "cluster", "clusters"), 'psu="village" names its clusters'),
    **dict.fromkeys(("weight", "probs", "pw"), 'weights="w" names the column of weights'),
    **dict.fromkeys(("stratum", "stratas"), 'strata="region" names the strata'),
    "nest": "units of psu= are always nested in strata=",
    "data": "the table is an argument of the call, dp.dp_ols(formula, data, design=dp.Survey(...))",
}


def _name(what: str, value: Any) -> str | None:
    """Return the name of a column as given, or refuse a formula or another value."""
    if isinstance(value, str) and value.lstrip().startswith("~"):
        name = value.strip()[1:].strip()
        name = name if name.isidentifier() and len(name) < 40 else "w"
        raise RequestError(f"{what}= must be the name of a column, not a formula: {what}={name!r}")
    if value is not None and (not isinstance(value, str) or not value):
        raise RequestError(f"{what}= must be the name of a column, got {shown(value)}")
    return value


def _number(what: str, value: Any, least: float) -> float:
    """Return a number above a limit as given, or refuse it."""
    bad = isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating))
    if bad or not (math.isfinite(value) and value > least):
        raise RequestError(f"{what} must be a number above {least:g}, got {shown(value)}")
    return float(value)


def _by_stratum(what: str, value: Any, strata: str | None) -> Any:
    """Return a number, or one a stratum, as it is kept: (stratum, number) pairs."""
    if value is None:
        return None
    if isinstance(value, tuple) and value and all(type(v) is tuple and len(v) == 2 for v in value):
        value = dict(value)  # as it is kept: a survey built again from its own fields
    if isinstance(value, str) or hasattr(value, "dtype") or isinstance(value, (list, tuple)):
        raise RequestError(
            f"{what}= must be public numbers, for example {what}={{'north': 60, 'south': 40}}: a "
            "column, or a list without names, would be data"
        )
    if isinstance(value, Mapping):
        if strata is None:
            raise RequestError(f"{what}= by stratum needs strata=, the column that names them")
        return tuple((k, _number(f"{what}[{shown(k)}]", v, 0.0)) for k, v in value.items())
    return _number(f"{what}=", value, 0.0)


@dataclass(frozen=True)
class Survey:
    """The design of a sample: weights, strata, primary sampling units (PSUs, clusters).

    Parameters
    ----------
    weights : str, optional
        Column of sampling weights, in a declared range from 0: ``schema={"w": dp.Real(0, 60)}``.
        They say what the estimates are of (as ``weights=`` of R's ``svydesign``, ``pweight`` of
        Stata), and are taken as delivered: how they were computed is outside the guarantee.
    strata : str, optional
        Column of strata, with declared levels.
    psu : str, optional
        Column that says in which primary sampling unit (village, school, class) a row is. Its
        cells are compared for equality only, and never shown. Nested in strata. None: every row is
        its own. Declared as ``dp.Count(k)`` (labels 1 to k in each stratum) or ``dp.Levels`` the
        units are compared in pairs within strata, which takes stratum means out. Who is compared
        with whom is drawn once for all by a public hash of the number, so that the order in which
        units are numbered (region by region, say) takes out nothing that strata do not.
    fpc : number or mapping, optional
        Finite population correction: the number of units in the population of each stratum
        (``{"E": 4421}``), or the rate (a number up to 1).
    population : number, optional
        Size of the population, an external public number: means become totals.
    psus : int or mapping, optional
        How many units were drawn, in all or by stratum; survey reports print it. None: estimated,
        for a hundredth of mu^2.
    icc : float
        Public guess of the correlation within a unit, for radii.

    Notes
    -----
    **Privacy.** Holds names of columns and public numbers. The unit of privacy stays a row: no
    village, school or class is protected as a whole. Variances are those of a design with
    replacement at the first stage.
    """

    weights: str | None = None
    strata: str | None = None
    psu: str | None = None
    fpc: Any = None
    population: float | None = None
    psus: Any = None
    icc: float = ICC
    #: Whether it stands for ``vcov={"CRV1": ...}``: errors by cluster, and no more.
    errors_only: bool = field(default=False, repr=False)

    def __new__(cls, *positional: Any, **named: Any) -> Survey:
        """Answer the names that svydesign has for the same, and refuse others."""
        names = [f.name for f in fields(cls)]
        for name in named:
            if name in _MEANT_DESIGN:
                raise RequestError(f"dp.Survey has no {name}=: {_MEANT_DESIGN[name]}")
            if name not in names:
                raise UnknownOptionError(
                    f"design= has no {shown(name)}.{did_you_mean(name, names)} It has: "
                    f"{', '.join(names[:-1])}"
                )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name in ("weights", "strata", "psu"):
            _name(name, getattr(self, name))
        values = {
            "fpc": _by_stratum("fpc", self.fpc, self.strata),
            "psus": _by_stratum("psus", self.psus, self.strata),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.population is not None:
            _number("population=", self.population, 0.0)
        if not 0.0 <= _number("icc=", self.icc, -1.0) <= 1.0:
            raise RequestError(f"icc= lies between 0 and 1, got {shown(self.icc)}")
        if not (self.weights or self.strata or self.psu):
            raise RequestError(
                'dp.Survey has no arguments: give weights="w", strata="region" or psu="village"'
            )
        if self.psu is None and self.psus is not None:
            raise RequestError("psus= counts the units of psu=, the column that names them")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: names of columns and public numbers."""
        out: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and value is not False:
                out[f.name] = [list(p) for p in value] if isinstance(value, tuple) else value
        return out

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Survey:
        """Return the survey that :meth:`to_dict` wrote down."""
        values: dict[str, Any] = {
            k: dict(v) if isinstance(v, list) else v for k, v in saved.items()
        }
        return cls(**values)

    @property
    def text(self) -> str:
        """Text of the design in a summary."""
        facts = []
        if self.psu is not None:
            total = self.total
            many = "PSUs (number estimated)" if total is None else f"{total:g} PSUs (declared)"
            facts.append(f"{many} of {self.psu}")
        facts += [f"strata {self.strata}"] if self.strata else []
        facts += ["finite population"] if self.fpc is not None else []
        facts += [f"population {self.population:g}"] if self.population else []
        return ", ".join(facts)

    def counts(self, levels: tuple[Any, ...]) -> tuple[float, ...] | None:
        """Return the declared number of units of each stratum (or of all), or None if unknown."""
        return self._of_each("psus", self.psus, levels)

    def rates(self, levels: tuple[Any, ...], units: tuple[float, ...] | None) -> Array:
        """Return ``sqrt(1 - f_h)`` of each stratum: by which scores are multiplied."""
        sizes = self._of_each("fpc", self.fpc, levels)
        if sizes is None:
            return np.ones(max(len(levels), 1))
        out = []
        for h, size in enumerate(sizes):
            if size <= 1.0:
                out.append(size)
                continue
            if units is None:
                raise RequestError(
                    "fpc= as numbers of units needs psus=, how many of them were drawn; or give "
                    "the rate, a number up to 1"
                )
            if size < units[h]:
                raise RequestError(
                    f"fpc={size:g} is below the {units[h]:g} units that were drawn there (psus=)"
                )
            out.append(units[h] / size)
        return np.sqrt(1.0 - np.asarray(out))

    def _of_each(
        self, what: str, declared: Any, levels: tuple[Any, ...]
    ) -> tuple[float, ...] | None:
        """Return a declared number for each stratum, or None where only a total is known."""
        if declared is None:
            return None
        if not isinstance(declared, tuple):
            if not levels or what == "fpc":
                return (declared,) * max(len(levels), 1)
            return None  # a total over strata
        by_stratum = dict(declared)
        missing = [x for x in levels if x not in by_stratum]
        undeclared = [x for x in by_stratum if x not in levels]
        if missing or undeclared:
            raise RequestError(
                f"{what}= names {shown((undeclared or missing)[0])}, and the declared strata are "
                f"{', '.join(map(shown, levels))}: give a number for each of them"
            )
        return tuple(by_stratum[x] for x in levels)

    @property
    def total(self) -> float | None:
        """Declared number of units in all, or None if not declared."""
        if self.psus is None:
            return None
        return math.fsum(v for _, v in self.psus) if isinstance(self.psus, tuple) else self.psus


@dataclass(frozen=True, eq=False)
class Frame(Labels):
    """Public facts of clusters: how labels of rows become clusters, signs and factors."""

    survey: Survey
    levels: tuple[Any, ...] = ()  # Declared strata; empty: none
    labelled: bool = False  # Labels of units are declared: 1, 2, ... in each stratum.
    totals: bool = False  # Means of strata are taken out by released totals

    @property
    def strata(self) -> int:
        """Number of strata, at least one."""
        return max(len(self.levels), 1)

    @property
    def pairs(self) -> tuple[int, ...]:
        """Units of each stratum if they are compared in pairs, else empty."""
        counts = self.survey.counts(self.levels) if self.labelled else None
        return () if counts is None else tuple(int(c) for c in counts)

    @property
    def df(self) -> float | None:
        """Declared degrees of freedom, or None if the number of units is not declared."""
        if self.pairs:
            return float(sum(-(-k // 2) for k in self.pairs))
        total = self.survey.total
        return None if total is None else total - self.strata

    @property
    def units(self) -> tuple[float, ...]:
        """Declared number of units of each stratum, empty if not declared by stratum."""
        return self.survey.counts(self.levels) or ()

    @property
    def countable(self) -> bool:
        """Whether stratum totals would say means: strata whose numbers of units are declared."""
        return self.survey.psu is not None and self.strata > 1 and bool(self.units)

    @property
    def correction(self) -> float:
        """Factor on the released products if means of strata are subtracted by totals.

        ``n_h/(n_h - 1)`` of each stratum is a factor of its rows, and at most 1 there: the largest
        one is left for afterwards. A stratum of one unit keeps its mean.
        """
        return float(self._bessel().max()) if self.totals else 1.0

    def _bessel(self) -> Array:
        units = np.asarray(self.units, dtype=float)
        return np.where(units > 1.0, units / np.maximum(units - 1.0, 1.0), 1.0)

    def factors(self) -> Array:
        """Return ``sqrt(1 - f_h)`` of each stratum, times its part of ``n_h/(n_h - 1)``."""
        rates = self.survey.rates(self.levels, self.survey.counts(self.levels))
        return rates * np.sqrt(self._bessel() / self.correction) if self.totals else rates
