"""Backends of ``dp_polr`` and ``dp_multinom``: passes over units of a likelihood of classes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.choice.likelihood import (
    LINKS,
    CategoryModel,
    Classes,
    Multinomial,
    ProportionalOdds,
)
from dpmodels.planning.plan import planning_rows
from dpmodels.scoring.coordinates import public_coordinates
from dpmodels.scoring.expand_engine import Begun, UnitChain, UnitRelease
from dpmodels.scoring.expand_fit import plan_units, release_units_fit
from dpmodels.scoring.expand_report import UnitPart, estimate_units
from dpmodels.scoring.expand_start import Number, Spread, numbers
from dpmodels.scoring.score import Beginning

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.privacy.mechanisms import Step
    from dpmodels.release import Estimate, Release
    from dpmodels.request import Request
    from dpmodels.scoring.coordinates import Coordinates

#: Noise sds of the first pass, in rows, that a class is to have.
SEEN = 1.5
#: Least share of a class in the start, where it is not below the noise.
LEAST_SHARE = 0.002

#: The release of the passes.
release = release_units_fit


@dataclass(frozen=True)
class ChoiceModel:
    """A likelihood of classes, as planned: the start is the released distribution of classes."""

    classes: Classes

    linear: ClassVar[bool] = False
    scale: ClassVar[bool] = False

    def numbers(self, design: Design) -> tuple[Number, ...]:
        """Return the predictors that are numbers, and the class."""
        return numbers(design, response="whole")

    def prelude(self, mu: float) -> tuple[Step, ...]:
        """Return none: the classes are among the places of values."""
        return ()

    def begin(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design, ask: Ask,
        mu: float,
    ) -> Begun:  # fmt: skip
        """Start at the shares of the classes, slopes 0."""
        K = self.classes.K
        released = spreads[-1]
        share = np.maximum(released.shares[:K], max(LEAST_SHARE, released.noise))
        share = share / share.sum()
        if isinstance(self.classes, ProportionalOdds):
            link = LINKS[self.classes.link]
            theta = np.zeros(K - 1 + coordinates.rank - 1)
            theta[: K - 1] = [link.quantile(float(q)) for q in np.cumsum(share)[:-1]]
        else:
            r, a = coordinates.rank, coordinates.constant
            theta = np.zeros((K - 1) * r)
            for k in range(1, K):
                if a is not None:
                    theta[(k - 1) * r : k * r] = math.log(float(share[k] / share[0])) * a
        start = Beginning(None, len(theta), None)
        model = CategoryModel(self.classes, coordinates, float(share.min()), theta)
        return Begun(model, start.state(theta))


def _classes(request: Request, design: Design) -> Classes:
    """Return the likelihood of a call, or refuse."""
    K = len(design.levels)
    if K < 2:
        raise RequestError(
            f'"{request.formula}" has a response with {K} declared level: declare all of them, '
            'for example y=dp.Ordered(["low", "mid", "high"])'
        )
    if request.verb == "dp_multinom":
        return Multinomial(K)
    return ProportionalOdds(K, request["link"])


def _checked(request: Request, design: Design) -> None:
    """Refuse what has no form here, before anything is read."""
    verb = request.verb
    if request.delta == 0:
        raise RequestError(f"{verb} adds Gaussian noise: give delta > 0, as in delta=1e-6")
    if request.weights is not None:
        raise RequestError(f"{verb} takes no weights=: every row counts once")
    if design.offset is not None:
        raise RequestError(f"{verb} takes no offset()")
    response = None if design.response is None else design.response.name
    declared = design.kinds.get(response or "")
    if verb == "dp_polr":
        if declared is not None and declared.kind != "ordered":
            raise RequestError(
                f"{response!r} has no declared order: schema={{{response!r}: dp.Ordered([...])}} "
                "lists its levels from the lowest; for levels without an order dp_multinom"
            )
        if not design.has_intercept:
            raise RequestError(
                "dp_polr has a threshold between any two levels and no intercept to leave out: "
                'write the formula without "- 1" and "+ 0"'
            )
        if design.p < 2:
            raise RequestError(
                f"dp_polr needs a predictor; for the shares of the levels dp_table('~ {response}')"
            )
        _refuse_aliased(design)


def _refuse_aliased(design: Design) -> None:
    """Refuse columns that are combinations of others: thresholds would be mixed. Public ranges."""
    if design.unknown:
        return
    lost = ~public_coordinates(design, raw=True).identified
    if lost.any():
        names = ", ".join(n for n, gone in zip(design.names, lost, strict=True) if gone)
        raise RequestError(
            f"dp_polr: {names} are combinations of other columns, whatever the rows, and "
            "thresholds would be mixed with them: drop a term"
        )


def _dimension(classes: Classes, rank: int) -> int:
    """Return the number of coefficients of a design of this rank."""
    if isinstance(classes, ProportionalOdds):
        return classes.K - 1 + rank - 1
    return (classes.K - 1) * rank


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a call of ``dp_polr`` or ``dp_multinom``."""
    _checked(request, design)
    classes = _classes(request, design)
    return plan_units(
        request, design, planning_rows(request, n), ((ChoiceModel(classes), ""),), linear=False,
        raw=True, dimension=functools.partial(_dimension, classes),
    )  # fmt: skip


def names_of(classes: Classes, design: Design) -> tuple[str, ...]:
    """Return the names of the coefficients: slopes and thresholds, or level by level."""
    labels = [str(level) for level in design.levels]
    if isinstance(classes, ProportionalOdds):
        cuts = [f"{low}|{high}" for low, high in itertools.pairwise(labels)]
        return (*design.names[1:], *cuts)
    return tuple(f"{label}:{name}" for label in labels[1:] for name in design.names)


def _back(
    classes: Classes, found: UnitRelease, chain: UnitChain
) -> tuple[Array, Array]:
    """Return (A, a): slopes and thresholds, or the coefficients of each level."""
    A, _ = found.coordinates.back()  # (p, r): of a linear predictor u'theta
    K = classes.K
    if not isinstance(classes, ProportionalOdds):
        out: Array = np.asarray(np.kron(np.eye(K - 1), A), dtype=float)
        return out, np.zeros(len(out))
    p, r = A.shape
    out = np.zeros((p - 1 + K - 1, K - 1 + r - 1))
    out[: p - 1, K - 1 :] = A[1:, 1:]
    out[p - 1 :, : K - 1] = np.eye(K - 1)
    out[p - 1 :, K - 1 :] = -A[0, 1:]  # what centred columns add to every threshold
    return out, np.zeros(len(out))


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to slopes and thresholds, or to log odds against the first level."""
    design = release.design
    classes = _classes(plan.request, design)
    lost = None
    if release.reply:
        gone = ~release.detail.coordinates.identified
        if isinstance(classes, ProportionalOdds):
            lost = np.concatenate([gone[1:], np.zeros(classes.K - 1, dtype=bool)])
        else:
            lost = np.tile(gone, classes.K - 1)
    base = str(design.levels[0])
    more = (
        ("Slopes are log odds of a higher level: P(y <= k) = F(threshold - x'b), as R's polr.",)
        if isinstance(classes, ProportionalOdds)
        else (f"Coefficients are log odds of each level against {base!r}, the first declared.",)
    )

    def stats(part: UnitPart) -> dict[str, float]:
        return {}

    back: Callable[[UnitRelease, UnitChain], tuple[Array, Array]]
    back = functools.partial(_back, classes)
    out = estimate_units(
        plan, release, stats, back=back, names=names_of(classes, design), lost=lost, more=more
    )
    if not release.reply or isinstance(classes, ProportionalOdds):  # whose thresholds hold
        return out
    few = _few(release.detail.chains[0], plan.detail.rows)
    if not few.any():
        return out
    each = len(out.names) // (classes.K - 1)
    open_ = np.repeat(few[1:] | few[0], each)
    levels = ", ".join(str(v) for v, one in zip(design.levels, few, strict=True) if one)
    counted = "people" if plan.request.unit is not None else "rows"
    said = (
        f"Not determined at this budget: what compares {levels} with others, as by the fit itself "
        f"too few {counted} are there for the first passes to see. Interval and bias may be larger "
        "than said, and no z and p are given: join levels, or a larger eps."
    )
    untested = open_ if out.untested is None else out.untested | open_
    return replace(out, untested=untested, notes=(*out.notes, said))


def _few(chain: UnitChain, N: int) -> npt.NDArray[np.bool_]:
    """Return the classes of which the first pass sees less than its own noise lets tell.

    A row moves the sum of scores by C at most, whose noise is so many rows long; classes are as
    many as the last theta expects at the centre of the predictors. Released numbers alone.
    """
    model, first = chain.expansion, chain.plans[0]
    assert isinstance(model, CategoryModel)
    p, _ = model.at_centre(chain.last.state.theta)
    return np.asarray(p * N < SEEN * first.noise.score / first.clip)
