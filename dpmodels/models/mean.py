"""``dp_mean``: means of clipped columns in one Gaussian or Laplace release.

Released together: the sums of rows in half-ranges and the count of complete rows, which is free
(``core/means.py``). Standard errors take their second moments at a share of the budget.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels import messages
from dpmodels.core import release as core
from dpmodels.core.means import (
    CountAndPowers,
    Means,
    count_and_powers,
    half_ranges,
    sums_and_count,
)
from dpmodels.errors import RequestError
from dpmodels.models import weights
from dpmodels.models.window import (
    LOOK_FIRST,
    LOOK_OPTION,
    as_declared,
    look_steps,
    released_windows,
)
from dpmodels.planning import Plan, expected_errors
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.proof.prove import noise_of
from dpmodels.ranges import Split, gaussian_part, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    Backend,
    Ending,
    Method,
    register_method,
)
from dpmodels.scoring.rules import SEEN_COUNT

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.notes import Note
    from dpmodels.sums.ask import Ask


VARIANCE_SHARE = 0.2
_SD_OF_SUM = "noise sd of a sum in half-ranges"


def plan_clipped(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the release of d clipped means, after a look at wide ranges if it can pay."""
    look = look_steps(request, design, gaussian_part(request, design.unknown), n)
    left = 1.0 - math.fsum(step.share or 0.0 for step in look)
    square = left * VARIANCE_SHARE if request.inference else 0.0
    steps = {"mean": ("means and count", left - square), "variance": ("second moments", square)}
    split = Split(request, design, steps, first=look)
    sd = float(noise_of(sums_and_count(design.p)[0], split["mean"], "replace")[0])
    half = np.diff(design.intervals(), axis=1) / 2.0
    expected = {c: e for c, e in expected_errors(design.names, half, sd / n).items() if e == e}
    return split.plan(
        n, scales={_SD_OF_SUM: sd}, expected_se=expected, detail=split.parts | {"look": look},
        passes=1 + len(look) + bool(design.unknown),
        reasons=(*request.reasons, *(LOOK_FIRST,) * bool(look)),
    )  # fmt: skip


@with_ranges
def release_clipped(plan: Plan[Any], ask: Ask, design: Design) -> Release:
    """Release windows, then sums, the count of complete rows and (with inference) second moments.

    **Privacy.** Unit: one row; replace-one, n public. Sensitivities: :class:`Means`, the same in
    any windows. For people the row of a person is the mean of its complete rows (``units.md``, 8).
    """
    d = design.p
    look, sd = plan.detail["look"], plan.scales[_SD_OF_SUM]
    windows = released_windows(look, design, plan.public_n, sd, ask)
    to_unit, shift = 1.0 / windows.half, -windows.centre / windows.half
    into = Means(d, people=plan.request.unit is not None, squares="variance" in plan.detail)
    sums_release = core.Release("means and count", into, lambda z: z[:d] * to_unit + shift, design)
    noisy = core.answered(sums_release, ask)
    values = {"sums": noisy[0].values[:d], "count": noisy[0].values[d:]}
    if into.squares:
        values["squares"] = noisy[1].values
    return Release(values, plan.guarantee, design, detail=windows)


def estimate_clipped(plan: Plan[Any], release: Release) -> Estimate:
    """Return means ``c + h S/N``, N the released count, with errors by the delta method."""
    if not release.reply:
        return Estimate.silent(release.design.names)
    statistic, products = sums_and_count(release.design.p)
    noise, square = noise_of(statistic, plan.detail["mean"], "replace"), math.nan
    if "variance" in plan.detail:
        square = float(noise_of(products, plan.detail["variance"], "replace")[0])
    return _estimated(plan, release, float(noise[0]), float(noise[-1]), square)


def _estimated(
    plan: Plan[Any], release: Release, sd: float, sd_count: float, sd_square: float, *notes: Note
) -> Estimate:
    """Return the estimate, by the noise sds of sums, of the count, and of (sums of) squares."""
    names, windows, person = release.design.names, release.detail, plan.request.unit
    centre, half, d = windows.centre, windows.half, len(names)
    count = min(float(plan.public_n), float(release.values["count"][0]))
    if count < SEEN_COUNT * sd_count:
        units = "rows" if person is None else "people"
        few = messages.NO_USABLE(units=units, count=max(count, 0.0), sd=sd_count)
        return Estimate.silent(names, few)
    m = np.clip(release.values["sums"] / count, -1.0, 1.0)
    H = np.outer(half, half)
    privacy = H * (sd**2 * np.eye(d) + sd_count**2 * np.outer(m, m)) / count**2
    sampling = None
    stats = {"complete_rows" if person is None else "complete_people": count}
    who = messages.CLIPPED_MEAN() if person is None else messages.PEOPLE_MEAN(column=person.column)
    if "squares" in release.values:
        squares, floor = release.values["squares"] / count, min(sd_square / count, 1.0)
        if squares.ndim == 1:  # of each number, without products
            V = np.full((d, d), np.nan)
            np.fill_diagonal(V, np.clip(squares - m * m, floor, 1.0))
        else:
            w, Q = np.linalg.eigh(squares - np.outer(m, m))
            V = (Q * np.maximum(w, floor)) @ Q.T
        sampling = H * V / count
        if d == 1:
            stats["sd"] = float(half[0] * math.sqrt(V[0, 0]))
    return Estimate(
        names, centre + half * m, vcov_sampling=sampling, vcov_privacy=privacy,
        bias=windows.excess / count if windows.hidden else None, stats=stats,
        notes=(who, *notes, *windows.note(release.design, plan.request.delta)),
    )  # fmt: skip


CLIPPED = Backend(plan_clipped, release_clipped, estimate_clipped, people=True)


# -- Backend of ``dp_mean(delta=0)``: one Laplace release of sums, count and squares (``mean.md``).


_PURE_STEP = "means, count and squares"


def plan_pure(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one Laplace release of d sums. Reads no row."""
    if design.unknown:
        name = design.unknown[0]
        raise RequestError(
            "delta=0 cannot estimate ranges: declare them, for example "
            f"bounds={{{name!r}: (lower, upper)}}"
        )
    if request.split is not None:
        raise RequestError("split= is of several releases, and delta=0 makes one: leave split= out")
    part = Pure(request.eps)
    statistic = count_and_powers(design.p, squares=request.inference)
    noise = noise_of(statistic, part, request.relation)
    sd = math.sqrt(2.0) * float(noise[1])
    half = np.diff(design.intervals(), axis=1) / 2.0
    expected = {c: e for c, e in expected_errors(design.names, half, sd / n).items() if e == e}
    step = Step(_PURE_STEP, part, share=1.0, label="Laplace, joint")
    return Plan.of(
        request, design, n, (step,), scales={_SD_OF_SUM: sd},
        expected_se=expected, detail=part,
    )  # fmt: skip


def release_pure(plan: Plan[Any], ask: Ask) -> Release:
    """Release sums, the count of complete rows and (with inference) sums of squares.

    **Privacy.** Unit: one row, or one person by the mean of its complete rows; one unit is
    replaced, the number of units is public. One Laplace release: pure eps.
    """
    design, d = plan.design, plan.design.p
    centre, half = half_ranges(design)
    into = CountAndPowers(d, squares=plan.request.inference)
    sums_release = core.Release(_PURE_STEP, into, lambda z: (z[:d] - centre) / half, design)
    noisy = core.answered(sums_release, ask).values
    values = {"count": noisy[:1], "sums": noisy[1 : d + 1]}
    if into.squares:
        values["squares"] = noisy[d + 1 :]
    return Release(values, plan.guarantee, design, detail=as_declared(design))


def estimate_pure(plan: Plan[Any], release: Release) -> Estimate:
    """Estimate means ``c + h S/N``, with errors by the delta method, one mean at a time.

    Covariances of means are not released: they are NaN.
    """
    statistic = count_and_powers(release.design.p, squares=plan.request.inference)
    noise = math.sqrt(2.0) * noise_of(statistic, plan.detail, plan.request.relation)
    sds = float(noise[1]), float(noise[0]), float(noise[-1])
    return _estimated(plan, release, *sds, messages.PURE_MEAN())


PURE = Backend(
    plan_pure, release_pure, estimate_pure, title="Mean of clipped values, pure DP", people=True
)

# -- Methods of means, as data.


register_method(
    Method(
        name="clipped",
        verb="dp_mean",
        proof="models/mean.md",
        foretells=True,
        title="Mean of clipped values",
        backend=CLIPPED,
        endings=(
            Ending(weights.WEIGHTED_MEAN_BACKEND, weights.unweighted),
            Ending(PURE, lambda request, *_: "" if request.delta == 0 else "delta > 0"),
        ),
        aside=True,
        accepts=("weights", "design"),
        needs=("one pass",),
        reference="Gaussian mechanism (delta = 0: Laplace) on sums and the count; ranges by "
        "stability histograms",
        options=(BOUNDS_SHARE, LOOK_OPTION),
    )
)
