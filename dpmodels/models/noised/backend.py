"""``method="drcl"`` and its kin: plan, release and estimate of every verb that offers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError
from dpmodels.models.noised.general import box_of, check_loss, fit_model, loss_of
from dpmodels.models.noised.model import model_of
from dpmodels.models.noised.stage import RANGE_EPS, Settings, make_table, plan_table
from dpmodels.planning import Plan
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.models.noised.table import NoisyTable
    from dpmodels.request import Request


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a release of the design's own columns, and the fit on it."""
    if request.na != "impute-midpoint":
        raise RequestError(
            f"na={request.na!r}: a noised table has no zero rows, and refusing a row would reveal "
            "a missing cell. method='drcl' and its kin use na='impute-midpoint' only"
        )
    for what in ("subset", "weights", "offset"):
        if getattr(design, what) is not None:
            raise RequestError(
                f"{what}= needs public columns with method={request.method.name!r}. Make the "
                "release first, rel = dp_release(data, ..., public_columns=[...]), and fit on it"
            )
    box_of(request, design.names)
    settings = _settings(request)
    made = plan_table(design, n, request.eps, request.delta, settings)
    scale: Mapping[str, float] = {
        f"noise sd of {name}": sd * s
        for name, sd, s in zip(
            made.layout.names, made.noise.sd, _widths(design, made.layout.rows), strict=True
        )
        if s == s
    }
    from dpmodels.models.noised.expected import expected_of

    noisy_y = design.p in made.layout.rows
    check_loss(request, made.noise.noise, len(made.noise.blocks), made.noise.clear_prob, noisy_y)

    expected = expected_of(request, design, made, n)
    return Plan(
        request=request,
        design=design,
        n=n,
        steps=made.steps,
        guarantee=made.guarantee,
        shares=(
            {"ranges": RANGE_EPS, "table": 1.0 - RANGE_EPS} if made.purchase is not None else {}
        ),
        scales={**scale, **expected.scales},
        expected_se=expected.se,
        purchase=made.purchase,
        detail=made,
        reasons=(*request.reasons, *expected.sentences),
        advice=made.advice,
        passes=1 + (made.purchase is not None),
    )


def _settings(request: Request) -> Settings:
    """Return the release's options; losses with kinks and free functions ask for SL noise."""
    from dpmodels.models.noised.losses import Loss

    settings = Settings.of(request.options)
    if settings.noise != "auto" or request.method.name == "naive":
        return settings
    loss = loss_of(request)
    if not isinstance(loss, Loss) or loss.kinked:
        return replace(settings, noise="sl")
    if request.verb != "dp_ols" and loss.name != "squared":
        return replace(settings, noise="auto-smooth")
    return settings


def _widths(design: Design, rows: tuple[int, ...]) -> list[float]:
    ends = design.intervals()[list(rows)]
    return [float(v) for v in ends[:, 1] - ends[:, 0]]


def release(plan: Plan[Any], ask: Ask) -> Release:
    """Release the noised table of the plan.

    Privacy
    -------
    Unit and charge: as in the plan; see :func:`dpmodels.models.noised.stage.make_table`.
    """
    table = make_table(plan.detail, ask)
    if table is None:
        return Release({}, plan.guarantee, plan.design, reply=False, why="ranges")
    return Release({}, plan.guarantee, table.design, detail=table)


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Fit the model to the released table."""
    names = release.design.names
    if not release.reply:
        note = (
            "The ranges could not be found within the budget. Declare them, for example "
            "bounds={'x': (0, 10)}: declared ranges cost nothing."
        )
        return Estimate.silent(names, note)
    table: NoisyTable = release.detail
    return fit_model(plan.request, release.design, model_of(release.design, table), table)


def plan_on_release(request: Request, design: Design, table: NoisyTable) -> Plan[Any]:
    """Return the plan of a fit on a release: nothing is read and nothing is charged."""
    scales: dict[str, Any] = {
        f"noise sd of {name}": float(sd)
        for name, sd in zip(table.names, table.noise_sd, strict=True)
    }
    return Plan(
        request=request,
        design=design,
        n=table.n,
        steps=table.guarantee.steps,
        guarantee=table.guarantee,
        scales=scales,
        reasons=("Fitted on a release that was made before: this fit cost nothing.",),
    )
