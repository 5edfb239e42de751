"""The plan of a call: the releases, their noise and shares. All of it public."""

from __future__ import annotations

import functools
import math
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.coefficient_forecasts import Facts, coefficient_forecasts
from dpmodels.errors import RequestError, printable
from dpmodels.formula.design import Column, Design
from dpmodels.lazy import pd
from dpmodels.notes import Note
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import (
    BOUGHT,
    Step,
    charged,
    gaussian_rows,
    is_gaussian,
    pair_of_rows,
)
from dpmodels.privacy.proofs import PROOF_OF_METHOD
from dpmodels.privacy.reports import shown_step
from dpmodels.records import Request
from dpmodels.tables.table import Shown, Table, plain

__all__ = ["Plan", "Purchase"]


#: Record of the decisions of a method before the first row.
Detail = TypeVar("Detail")


@dataclass(frozen=True)
class Purchase:
    """The part of a budget that buys ranges: two histograms a column (``ranges.md``)."""

    columns: tuple[str, ...]  # Columns of ``(x, y)`` whose range is bought
    mu: float  # Gaussian part, all histograms together
    delta: float  # Failure part, all histograms together


class Replanning(ABC):
    """Forecasts of a plan at other n and eps."""

    @abstractmethod
    def frame(self, plan: Plan[Any]) -> pd.DataFrame:
        """Return the forecast of each coefficient on a grid of eps and a grid of n."""

    @abstractmethod
    def plot(self, plan: Plan[Any], axes: Any) -> Any:
        """Draw the forecast of each coefficient against eps and against n."""


@dataclass(eq=False, repr=False)
class Later(Mapping[str, float]):
    """Numbers by name that are computed when they are first read: a fit does not show them."""

    _make: Callable[[], Mapping[str, float]]

    @functools.cached_property
    def _numbers(self) -> Mapping[str, float]:
        return self._make()

    def __getitem__(self, name: str) -> float:
        return self._numbers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


@dataclass(frozen=True)
class Plan(Shown, Generic[Detail]):
    """Decided before the first row."""

    request: Request
    design: Design  # Columns with their intervals (``None`` where the interval will be bought)
    n: int | None  # Public number of rows (None under add/remove without a guess)
    # Every mechanism of the call, ranges included, in the order of the ledger.
    steps: tuple[Step, ...]
    guarantee: Guarantee  # Composed from ``steps``
    # Budget shares as printed ("scale" -> .20, ...).
    shares: Mapping[str, float] = field(default_factory=dict)
    # Public numbers worth showing: radii, noise scales. Those that depend on a bought range or a
    # released bound are absent.
    scales: Mapping[str, float] = field(default_factory=dict)
    # Column -> expected privacy standard error, where it is public before the fit.
    expected_se: Mapping[str, float] = field(default_factory=dict)
    purchase: Purchase | None = None
    # The method's own frozen plan.
    detail: Detail = None  # type: ignore[assignment]
    # reasons, advice: why this method; what would make the answer better. From public numbers only.
    reasons: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    # Forecast of the intervals from the public noise, empty if there is none. Shown with the plan.
    forecast: str = ""
    # "fine", "rough" or "not determined": forecast of the coefficients, empty if there is none.
    verdict: str = ""
    # Why the call would be refused before anything is read or charged; empty: it is not.
    refusal: str = ""
    # Readings of the rows at least; a source that gives them once is refused above 1, before
    # anything is charged. Never a function of cells.
    passes: int = 1
    # Module that goes on from here, where the method has several endings.
    backend: Any = field(default=None, repr=False)
    # Number of people, where a person's rows are capped and n counts those kept.
    people: int | None = None
    # Facts of the data that dp.plan was given; expected errors and forecasts are of these.
    facts: Facts = field(default_factory=Facts, repr=False, compare=False)
    # Forecasts at other n and eps, of a plan of `dp.plan`. None for the plan of a fit.
    again: Replanning | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        request: Request,
        design: Design,
        n: int | None,
        steps: Iterable[Step],
        *,
        notes: tuple[Note, ...] = (),
        proved: str | None = None,
        **facts: Any,
    ) -> Plan[Any]:
        """Return the plan of these steps, under the guarantee that the request asks for.

        Parameters
        ----------
        request, design, n
            As the method's ``plan`` got them. A guess in place of a private n is not kept.
        notes, proved
            Of the guarantee.
        **facts
            The other attributes. ``reasons`` are those of the request if not given, ``passes``
            one, and one for the ranges.
        """
        listed = tuple(steps)
        own_proof = PROOF_OF_METHOD.get(f"{request.verb}.{request.method.name}")
        notes = notes if own_proof is None else (*notes, own_proof.note)
        guarantee = Guarantee(
            listed, request.eps, request.delta, request.relation, notes=notes, proved=proved,
            unit="record" if request.unit is None else request.unit.text,
        )  # fmt: skip
        public_n = n if request.relation == "replace" else None
        once = 1 + (facts.get("purchase") is not None)  # ranges are estimated in a separate pass
        if "shares" not in facts:
            facts["shares"] = shares_of(listed)
        facts = {"reasons": request.reasons, "passes": once, **facts}
        return cls(request, design, public_n, listed, guarantee, **facts)

    @property
    def public_n(self) -> int:
        """Number of rows where it is public: under replace-one."""
        assert self.n is not None
        return self.n

    @property
    def coefficient_forecasts(self) -> dict[str, str]:
        """Forecast of each coefficient: "fine", "rough" or "not determined"; empty without one."""
        return coefficient_forecasts(
            self.request, self.design, self.n, self.verdict,
            by_rows=self._forecasts_by_rows, facts=self.facts,
        )  # fmt: skip

    @property
    def _forecasts_by_rows(self) -> bool:
        """Whether the fit ends by passes over rows, for whose coefficients there is a forecast."""
        return bool(getattr(self.detail, "over_rows", False))

    @property
    def reason_notes(self) -> list[Note]:
        """The reasons, as notes of a fit."""
        return [
            messages.METHOD_CHOICE(text=text[:1].upper() + text[1:], more="")
            for text in self.reasons
        ]

    def table(self) -> Table:
        """Return the printed plan: facts, columns, releases, advice."""
        return plan_table(self)

    def __repr__(self) -> str:
        r = self.request
        return printable(f"<plan of {r.verb}: {r.formula} | {r.method.name} | n = {self.n}>")

    def to_frame(self, *, grid: bool = False) -> pd.DataFrame:
        """Return one row per design column: name, range, expected privacy error, forecast.

        With ``grid=True`` the numbers of :meth:`plot`: one row per coefficient, eps and n, with the
        expected error of the estimate, the half width of its interval, which allows for bias, and,
        after ``want="power"``, the power.
        """
        return self._replanning.frame(self) if grid else plan_frame(self)

    def plot(self, axes: Any = None) -> Any:
        """Draw expected half widths, or the power, against eps and against n; return two axes.

        The planned point is marked. Only for plans of ``dp.plan`` with expected errors.

        Privacy
        -------
        Reads no data and costs nothing.
        """
        return self._replanning.plot(self, axes)

    @property
    def _replanning(self) -> Replanning:
        """Forecasts at other n and eps; refused where there are none."""
        if self.again is None or self.n is None or not self.expected_se:
            raise RequestError(
                "A forecast over eps and n needs a plan of dp.plan(...) with expected errors. "
                "Declare every range, and use dp_ols(method='ssp') or dp_glm(method='scoring')."
            )
        return self.again

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "again": None}  # a function that plans cannot be pickled


# -- The plan of a method of rows for people of at most m rows: cap and pay


def capped_plan(
    planned: Callable[[Request, Design, int], Plan[Any]],
    request: Request,
    design: Design,
    n: int | None,
) -> Plan[Any]:
    """Return the plan of a call that keeps m rows of each of n people.

    The row-level call gets what, m times, is the (eps, delta) of a person: by mu where all its
    steps are Gaussian, else by the pair (``units.md``, 7). Public numbers only.
    """
    person = request.unit
    assert person is not None and n is not None  # replace-one alone (``api/requests.py``)
    m = person.most
    plan: Plan[Any] | None = None
    for by_mu in (True, False):
        rule = gaussian_rows if by_mu else pair_of_rows
        eps, delta = rule(request.eps, request.delta, m)
        if not eps > 0.0:
            continue
        alone = replace(request, unit=None, eps=eps, delta=delta, copies=m)
        plan = planned(alone, design, n * m)
        if not by_mu or (is_gaussian(plan.steps) and plan.guarantee.proved is None):
            break
    assert plan is not None
    row = plan.guarantee
    pair = (row.eps, row.delta)
    guarantee = Guarantee(
        charged(plan.steps, m, pair, by_pair=row.proved is not None),
        request.eps,
        request.delta,
        request.relation,
        person.text,
        notes=(
            *row.notes,
            messages.CAP_AND_PAY(m=m, eps=eps, delta=delta),
        ),
        inner=plan.steps,
        most=m,
        row_pair=pair,
    )
    return replace(plan, request=replace(plan.request, unit=person), guarantee=guarantee, people=n)


# -- The row count of public rules


#: More steps than this are printed by their kind.
_LISTED = 8


def shares_of(steps: Iterable[Step]) -> dict[str, float]:
    """Return the shares of steps by printed name, or by kind if there are many."""
    steps, out = (*steps,), dict[str, float]()
    paid_steps = sum(step.label != BOUGHT for step in steps)
    for step in steps:
        if step.share is not None:
            name = step.label if step.label and paid_steps > _LISTED else step.name
            name = "ranges" if step.label == BOUGHT else name
            out[name] = out.get(name, 0.0) + step.share
    return out if len(out) > 1 else {}


def planning_rows(request: Request, n: int | None) -> int:
    """Return the row count that rules may use: n, or the public guess where n is private."""
    if n is not None:
        return n
    guess = request["n_guess"]
    if guess is None:
        raise RequestError(
            "under relation='add-remove' the number of rows is private: give a public guess of "
            "it for the planning, for example n_guess=10000"
        )
    return int(guess)


def guessed_rows(request: Request) -> float:
    """Return the public guess of the rows of a person; 0 where the unit is a row."""
    return 0.0 if request.unit is None else request.unit.rows


def enough_rows(request: Request, design: Design, n: int | None) -> int:
    """Return the row count of the public rules; refuse fewer rows than coefficients."""
    rows = planning_rows(request, n)
    if request.relation == "replace" and rows <= design.p:
        counted = "rows" if request.unit is None else "people"
        raise RequestError(f"n = {rows} {counted} cannot carry {design.p} coefficients")
    return rows


# -- What a fit of many columns takes, from public numbers: said beforehand, refused if too muc


#: Verbs that release matrices of columns by columns.
_OF_MATRICES = ("dp_glm", "dp_mest", "dp_moments", "dp_ols", "dp_pca", "dp_quantreg")
#: Seconds a cell of a design, of a matrix, and a product of three of its sides: dp_ols of one
#: factor of 400 to 1600 levels and 2000 to 100 000 rows, one core of a machine of 2024. Good to a
#: factor of two there. (dp_glm takes the same, other endings up to a half more or less.)
_CELL, _ENTRY, _ALGEBRA = 3e-10, 4.5e-6, 6e-9
#: Bytes an entry of a matrix, at the peak: exact integers, noise, their floats (660 to 980 there).
_BYTES = 1000.0
#: Seconds that are worth a word; part of the machine's memory that a fit may take.
SLOW, ROOM = 20.0, 0.8
#: Number of levels above which the advice names the factor.
_MANY = 50


@dataclass(frozen=True)
class Size:
    """Estimated seconds and bytes of a fit of p columns."""

    p: int
    seconds: float
    bytes: float

    def __str__(self) -> str:
        size = self.bytes / 2**30
        memory = f"{size:.1f} GB" if size < 100 else f"{size:,.0f} GB"
        return f"{_time(self.seconds)} and {memory} of memory"


def _time(seconds: float) -> str:
    """Return a duration as text."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:,.0f} hours"


def size_of(p: int, n: int) -> Size:
    """Return the size of a fit of p columns and n rows: seconds and bytes. Public numbers only."""
    square = float(p) * p
    seconds = _CELL * n * square + _ENTRY * square + _ALGEBRA * square * p
    return Size(p, seconds, _BYTES * square)


def check_size(request: Request, design: Design, n: int | None) -> tuple[str, ...]:
    """Return advice on a design that takes long; refuse one that memory does not hold.

    Called before anything is read or charged. No row count is asked for under add-remove, where it
    is private: the columns alone decide.
    """
    if request.verb not in _OF_MATRICES or "release" in request.method.accepts:
        return ()
    size = size_of(design.p, n or 0)
    try:
        room = ROOM * float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # the machine does not say
        room = math.inf
    if size.bytes <= room and size.seconds < SLOW:
        return ()
    levels = {
        name: len(variable.codes)
        for name, variable in design.schema.variables.items()
        if getattr(variable, "codes", None) is not None and len(variable.codes) >= _MANY
    }
    why = ", ".join(f"{name!r} has {k:,} levels" for name, k in levels.items())
    cost = f"{design.p:,} coefficients{f' ({why})' if why else ''} need {size}"
    if size.bytes <= room:
        return (f"{cost} (a rough estimate from public numbers)",)
    raise RequestError(
        f"{cost}, more than this machine has to spare ({room / 2**30:.1f} GB); nothing was read or "
        "charged. A factor costs one coefficient a level: merge levels (regions for cities), or "
        "leave it out. If it says whose row it is, unit= protects that person and clusters errors "
        "by person, without any coefficient for it"
    )


# -- What errors are to be expected, by public numbers alone


#: Assumed sd of a column (and of a residual) unless sd= is given, in half of its declared range: a
#: quarter of the range. That of a uniform column is .58.
SPREAD = 0.5
#: Sd of the residuals of a linear model, over that: .65 at the median of 17 designs of real tables,
#: expected errors then 1.0 times those of the fits.
RESIDUAL = 0.75


def column_radius(design: Design) -> float:
    """Return R_x for rows in unit half-ranges: half the largest squared norm of the slopes.

    ``R_x^2 = 1 + d/2`` for d >= 2 numeric slopes (2 for one); a block of dummies counts 1. Rows
    beyond it are scaled down (weighted least squares), which costs less than the noise it saves.
    """
    numeric = sum(c.kind not in ("intercept", "dummy") for c in design.columns)
    factors = len({c.term for c in design.columns if c.kind == "dummy"})
    square = 1.0 if design.has_intercept else 0.0
    square += numeric / 2.0 if numeric + factors > 1 else numeric
    return math.sqrt(max(square + factors, 0.5))


#: Part of an even spread over the levels of a factor that is assumed of them.
EVEN = 0.85


def spreads(design: Design) -> Array:
    """Return the assumed root mean squares of columns about their middles, as unit columns.

    In half ranges; of a level as it is, 0 or 1: with k levels ``1/sqrt(2 k)``, less a part as
    levels are uneven, as the error of a level against the first one is that of such a column.
    """
    levels = Counter(c.term for c in design.columns if c.kind == "dummy")
    return np.array([_spread(design, c, levels[c.term] + 1) for c in design.columns])


def _spread(design: Design, column: Column, levels: int) -> float:
    """Return the assumed root mean square of one unit column."""
    if column.kind == "intercept":
        return 1.0
    if column.kind == "dummy":
        return EVEN * math.sqrt(0.5 / levels)
    binary = getattr(design.kinds.get(column.name), "kind", "") == "binary"
    return EVEN if binary else SPREAD


def expected_errors(names: Iterable[str], T: Array, sd: float) -> dict[str, float]:
    """Return the expected privacy errors of coefficients ``T e``.

    Parameters
    ----------
    names : iterable of str
        Of the coefficients.
    T : (p, r) array
        To the user's units, from coordinates in which the noise of a coefficient is the same in
        every direction, by the spreads that a plan assumes.
    sd : float
        Of that noise.
    """
    return dict(zip(names, (sd * np.linalg.norm(T, axis=1)).tolist(), strict=True))


# -- What a plan shows: the same facts as a table and as a frame. Computes nothing.


def _head(plan: Plan[Any]) -> list[tuple[str, str]]:
    """Return the facts above a printed plan, as (label, text)."""
    request, guarantee = plan.request, plan.guarantee
    title = (plan.backend.title if plan.backend else "") or request.method.title
    short = "replace one row" if request.relation == "replace" else "add or remove"
    shares = " ".join(f"{k} {v:.2f}".replace("0.", ".") for k, v in plan.shares.items())
    rows = [
        ("Formula", request.formula),
        ("Method", f'{title} (method="{request.method.name}")'),
        ("Guarantee", f"(eps = {guarantee.eps:g}, delta = {guarantee.delta:g})-DP"),
        ("Neighbours", short if request.unit is None else guarantee.neighbours),
        (
            "Rows" if request.unit is None else "People",
            "private" if plan.n is None else f"{plan.people or plan.n}",
        ),
    ]
    if plan.design.cells:
        rows.append(("Variables", f"{plan.design.p}"))
    else:
        rows.append(("Coefficients", f"{plan.design.p}"))
        rows.append(("Row norm bound", _number(plan.design.row_norm())))
    if shares:
        rows.append(("Budget", shares))
    if plan.purchase is not None:
        rows.append(("Ranges to estimate", ", ".join(plan.purchase.columns)))
    rows += [(k[:1].upper() + k[1:], _number(v)) for k, v in plan.scales.items()]
    return rows


def _number(x: float | None) -> str:
    return "not known yet" if x is None or x != x else f"{x:.4g}"


def _range(plan: Plan[Any], interval: tuple[float, float] | None) -> str:
    if interval is not None:
        return "[{:g}, {:g}]".format(*interval)
    return "not needed" if plan.purchase is None else "to buy"


def plan_frame(plan: Plan[Any]) -> pd.DataFrame:
    """Return one row per design column: name, term, kind, lower, upper, privacy_se, forecast."""
    columns, forecasts = plan.design.z, plan.coefficient_forecasts
    # without a range, public data bound the row
    origin = {c.name: "not needed" if c.interval is None else "declared" for c in columns}
    origin |= {} if plan.purchase is None else dict.fromkeys(plan.purchase.columns, "bought")
    return pd.DataFrame(
        {
            "column": [c.name for c in columns],
            "term": [c.term for c in columns],
            "kind": [c.kind for c in columns],
            "lower": [c.lower for c in columns],
            "upper": [c.upper for c in columns],
            "range": [origin[c.name] for c in columns],
            "privacy_se": [plan.expected_se.get(c.name, float("nan")) for c in columns],
            "forecast": [forecasts.get(c.name, "") for c in columns],
        }
    )


def plan_table(plan: Plan[Any]) -> Table:
    """Return the plan as a table of columns, and one of the releases below it."""
    has_errors, forecasts = bool(plan.expected_se), plan.coefficient_forecasts
    columns = [
        (
            c.name,
            c.kind,
            _range(plan, c.interval),
            *(
                [f"{plan.expected_se[c.name]:.4g}" if c.name in plan.expected_se else ""]
                * has_errors
            ),
            *([forecasts.get(c.name, "")] * bool(forecasts)),
        )
        for c in plan.design.z
    ]
    steps = [
        (
            shown_step(s.name),
            s.label or s.mechanism.kind,
            "" if s.share is None else f"{s.share:.2f}",
            f"{s.mechanism.mu:.4g}" if hasattr(s.mechanism, "mu") else "",
            f"{s.failure:.3g}" if s.failure else "0",
        )
        for s in plan.steps
    ]
    titles = ["column", "kind", "range", *(["expected privacy se"] * has_errors)]
    titles += ["forecast"] * bool(forecasts)
    below = plain(("what is released", "mechanism", "share", "mu", "delta+"), steps)
    return plain(
        titles, columns, title="Plan of a private fit (no data read, nothing charged)",
        facts=tuple(_head(plan)), more=(below,),
        notes=(
            *plan.reasons, *filter(None, (plan.forecast, plan.refusal)), *plan.advice,
            *_assumption(plan),
        ),
    )  # fmt: skip


#: Forecasts from ranges alone, over the privacy se of fits of real tables with ranges
#: rounded outwards (tables of ``benchmarks/``, n = 10 000, eps = 1; medians over coefficients).
_MEASURED = {
    "dp_ols": "A rough guide: on 12 models of real tables .2 to 9 times the error of the fit, half "
    "of them within .9 to 1.7; with sd= .7 to 1.1 times",
    "dp_glm": "A rough guide, and mostly too small: on eight models of real tables .1 to 1.8 times "
    "the error of the fit, half of them within .2 to .6; with sd= and events= .6 to 1.2 times",
}


def _assumption(plan: Plan[Any]) -> tuple[str, ...]:
    """Return notes on the assumptions of a plan's forecasts and expected errors."""
    forecasts = plan.coefficient_forecasts
    note = (
        "forecast of a coefficient: for equally frequent levels and uncorrelated numbers, unless "
        "sd= and corr= say otherwise; its limits are from simulations",
    ) * (len(forecasts) > 1 and plan._forecasts_by_rows)
    return (*note, *_assumed_errors(plan))


def _assumed_errors(plan: Plan[Any]) -> tuple[str, ...]:
    """Return a note on the assumptions of a plan's expected errors, if it has any."""
    if not plan.expected_se:
        return ()
    if plan.design.cells:
        return ("expected privacy se: public, for a mean in a group of average size",)
    assumption = (
        "expected privacy se: public, for uncorrelated predictors with an sd of a quarter of their "
        "declared range (where rows are scaled by a released fit, residuals with three quarters of "
        "that) unless sd= gives it; narrower columns get larger errors"
    )
    return (
        f"{assumption}. {_MEASURED[plan.request.verb]}"
        if plan.request.verb in _MEASURED
        else assumption,
    )
