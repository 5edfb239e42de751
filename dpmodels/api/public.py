"""Fit of public rows (``public=``): the program of a scoring method, answered with exact sums.

It reads no private row, and nothing is charged for it (``scoring/theory.md``, 3.6).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpmodels.door import people_count, rows_of
from dpmodels.errors import DPModelsError, RequestError
from dpmodels.formula.design import Design
from dpmodels.models.public import PublicRows, PublicStart, before_passes
from dpmodels.proof.prove import sensitivity
from dpmodels.records import OPEN_ENDS, Estimate, Request
from dpmodels.registry import resolve
from dpmodels.resources import one_thread
from dpmodels.scoring.models import LeastSquares
from dpmodels.scoring.pass_plan import Pilot
from dpmodels.sums.ask import ALL, Noisy, Query, Read

#: Budget for the rules of clips and radii of a public fit: so large that they cut no row.
PUBLIC_EPS, PUBLIC_DELTA = 1e6, 1e-9
#: Runs of the program over the public rows, each from the fit before it: about twelve steps.
ROUNDS = 3
#: Least number of public units beyond the coefficients.
UNITS_BEYOND = 8
#: Smallest information after the last public step, over that before it: without events it falls.
#: The same of models of a residual, whose scale falls if all responses are one number.
#: Smallest squared scale of a residual, in half ranges.
SETTLED, LEAST_OF_RESIDUAL, LEAST_SCALE = 0.78, 0.1, 1e-6


class Exact:
    """Exact sums of public rows, in the place of the private stage."""

    private = False

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self._sums: dict[tuple[int, Read], tuple[Any, Any]] = {}

    def __call__(self, step: str, query: Query, read: Read = ALL) -> Noisy:
        """Return the values of a query, without noise."""
        key, statistic = (id(query.over), read), query.statistic
        if key not in self._sums:
            self._sums[key] = query.over, query.over.total(self.rows, {})
        added = query.part(self._sums[key][1])
        flat = np.asarray(statistic.flat(added.values, "l2"), dtype=float) / read.every
        values = flat * (statistic.step if added.step is None else added.step) * query.unit
        sd = sensitivity(statistic, "replace", "l2") * query.unit / statistic.weights("l2")
        return Noisy(statistic.shaped(values, "l2"), statistic.shaped(sd / PUBLIC_EPS, "l2"))

    def pay(self, step: str, steps: Any) -> None:
        """Start steps, for which nothing is charged."""


def fitted(source: Any, m: int, request: Request, design: Design) -> PublicRows:
    """Return the fit of the public rows of a source, or refuse them: nothing was charged yet."""
    verb, unit, out = request.verb, request.unit, None
    if design.unknown or request.split is not None:
        why = "split= names releases that public rows replace: leave it out"
        if name := next(iter(design.unknown), ""):
            why = f"public rows are read by declared ranges: bounds={{{name!r}: (low, high)}}"
        raise RequestError(f"public= of {verb}: {why}, or drop public=")
    if unit is not None:
        if unit.column not in source.kinds:
            raise RequestError(f"the public data have no column {unit.column}, which is the unit")
        unit = replace(unit, count=None)
        m = people_count(source, unit, public_n=True)
    least = design.p + UNITS_BEYOND
    if m < least:
        raise RequestError(f"public= has {m} rows or people, and {least} are needed: drop public=")
    rows = rows_of(source, m, person=unit, kinds=design.kinds, seed=0)
    entry = resolve(verb, "scoring")
    options = {o.name: request.options.get(o.name, o.default) for o in entry.options}
    options |= {k: False for k in ("stop", "fit_stats", "concordance") if k in options}
    alone = replace(
        request, method=entry, eps=PUBLIC_EPS, delta=PUBLIC_DELTA, relation="replace", unit=unit,
        options=options, public=None, sample=None,
    )  # fmt: skip
    backend = entry.chosen(alone, design, m)[0]
    try:
        with one_thread(), np.errstate(all="ignore"):
            for _ in range(ROUNDS):
                plan = backend.plan(replace(alone, public=out), design, m)
                if isinstance(plan.detail.chains[0].score, LeastSquares):
                    raise RequestError(f'{verb} is least squares: dp_ols(method="pmt", public=)')
                detail = replace(plan.detail, pilot=Pilot(), known={})  # all rows are read
                release = backend.release(replace(plan, detail=detail), Exact(rows))
                fits, c = release.detail.fits, release.detail.coordinates
                start = PublicStart(c, tuple(before_passes(fit, c.constant, m) for fit in fits))
                estimate = backend.estimate(plan, release)
                out = PublicRows(m, start, estimate, "rows" if unit is None else "people")
            check_settled(fits, estimate, design)
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, DPModelsError):
            raise
        raise RequestError(
            f"the public rows do not determine a fit by {request.formula!r}: complete rows, events "
            "of every kind and columns that vary are needed. Give more public rows, or drop public="
        ) from None
    assert out is not None
    return out


def check_settled(fits: Any, estimate: Estimate, design: Design) -> None:
    """Raise ``ArithmeticError`` if public rows determine no fit."""
    ends = estimate.arrays.get(OPEN_ENDS, np.zeros(design.p))
    bad = any(end and c.kind == "numeric" for c, end in zip(design.columns, ends, strict=False))
    for fit in fits:
        least = LEAST_OF_RESIDUAL if getattr(fit.score, "of_residual", False) else SETTLED
        bad |= bool(np.mean(fit.last.axes[0]) < least) or fit.state.phi < LEAST_SCALE
    if bad or not np.isfinite(estimate.params).all():
        raise ArithmeticError
