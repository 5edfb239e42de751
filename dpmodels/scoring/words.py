"""What is said of a scoring fit: what its errors cover, and which coefficients deserve care."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.release import Estimate

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.scoring.clusters import ClusterRelease

#: So many bounds of a bias are printed under a summary.
SHOWN = 8
#: A share of empty rows below this is not worth a note; one within so many noise sds is none.
EMPTY, SEEN = 0.05, 3.0
CONSERVATIVE = (
    "Errors by cluster are careful: design effects are drawn together as far as noise explains "
    "their spread, and none below .7 is believed. Where rows of a cluster have nothing in common "
    "they come out up to 2 times too large."
)
_NO_RANGES = (
    "The ranges could not be found within the budget (too few rows, or a column that hardly "
    "varies). Declare them, for example bounds={'x': (0, 10)}: declared ranges cost nothing."
)


def no_ranges_note(names: Sequence[str]) -> Estimate:
    """Return the estimate of a run whose ranges could not be bought."""
    return Estimate.silent(names, _NO_RANGES)


def named(names: Sequence[str], label: str) -> tuple[str, ...]:
    """Return names of coefficients (or numbers) of a model; without a label it is the only one."""
    return tuple(f"{name} [{label}]" if label else name for name in names)


def expected_intervals(
    noise: float, fine: float, loud: float, *, between: str, beyond: str
) -> str:
    """Say what the public noise of the information lets expect of intervals.

    Parameters
    ----------
    noise : float
        Over the size of the information.
    fine, loud : float
        Up to the first intervals are narrow; above the second ``beyond`` is said.
    between : str
        What intervals are between the two.
    """
    said = f"forecast: the noise of the information will be {noise:.2g} of its size, so "
    if noise <= fine:
        return said + f"intervals will be about as narrow as they can be (below {fine:g})"
    if noise <= loud:
        return said + f"intervals will be {between} (between {fine:g} and {loud:g})"
    return said + f"{beyond} (above {loud:g})"


def empty_rows(lost: float, sd: float, design: Design, *, shortened: bool) -> list[str]:
    """Return a note on the released share of empty rows, where it exceeds its noise ``sd``."""
    if lost < EMPTY or lost <= SEEN * sd:
        return []
    outside = ", or outside subset=," if design.subset else ""
    return [
        f"About {lost:.0%} of the rows were empty"
        + (" or shortened" if shortened else "")
        + " (from the released count, free). A row is empty where a cell is missing, cannot be "
        f"read as its declared kind or is not a declared level{outside}: compare the spelling of "
        "levels."
    ]


def _listed(names: tuple[str, ...], bias: Array) -> str:
    """Return the first bounds in words."""
    given = [f"{n} {b:.2g}" for n, b in zip(names, bias, strict=True) if math.isfinite(b)]
    return ", ".join(given[:SHOWN]) + (", ..." if len(given) > SHOWN else "") or "none"


def counted(plan: Plan[Any]) -> str:
    """Return what n counts."""
    return "rows" if plan.request.unit is None else "people"


def _errors(plan: Plan[Any]) -> str:
    """Say what the errors allow for."""
    person = plan.request.unit
    if person is not None:
        between = (
            " Covariances between quantiles are those of unrelated rows: errors of differences "
            "between quantiles come out too large."
        )
        clusters = getattr(plan.detail, "clusters", None)
        psu = None if clusters is None else clusters.frame.survey.psu
        whose = f"person ({person.column})" if psu is None else f"cluster ({psu})"
        counts = plan.request.options.get("person_weights") == "equal"
        return (
            ("Each person counts once, whatever the number of rows. " if counts else "")
            + f"Errors allow unequal variances, and rows of one {whose} that go "
            "together in any way (cluster-robust)."
            + (between if len(plan.detail.models) > 1 else "")
        )
    if getattr(plan.detail, "clusters", None) is not None:
        column = plan.request.sample.frame.survey.psu
        return (
            "Errors allow unequal variances, and rows of one cluster that go together in any way "
            f"(cluster-robust by {column})."
        )
    if getattr(plan.detail, "model", None) is None or plan.detail.model.meat:
        return "Errors allow unequal variances (HC1 sandwich), not correlated rows."
    return "Errors are model-based (vcov='iid': one residual variance)."


def those(names: Sequence[str], which: npt.NDArray[np.bool_]) -> str:
    """Return the names that are marked, as a list in words."""
    return ", ".join(n for n, w in zip(names, which, strict=True) if w)


def fit_notes(
    plan: Plan[Any],
    names: tuple[str, ...],
    bias: Array,
    few: npt.NDArray[np.bool_],
    undetermined: npt.NDArray[np.bool_],
    lost: npt.NDArray[np.bool_],
) -> list[str]:
    """Say what the errors cover, and which coefficients deserve care."""
    notes = plan.sentences
    if 2 * int(undetermined.sum()) > len(names):
        notes.insert(
            0,
            f"More than half of the coefficients ({int(undetermined.sum())} of {len(names)}) are "
            f"not determined at this budget. More {counted(plan)}, a larger eps or fewer terms "
            "would help: dp.plan() says by how much, at no cost.",
        )
    notes.append(
        "Intervals and p-values are bias-aware: they allow for what the clipping of long scores "
        "may have moved, by a rule calibrated on real tables, not a proof. Bound of the bias "
        "(fit.bias_bound): "
        f"{_listed(names, bias)}."
    )
    notes.append(_errors(plan))
    if few.any():
        notes.append(
            f"Rests on {counted(plan)} of high leverage: {those(names, few)}. The interval allows "
            "for a bias of bias_bound; more is possible."
        )
    if undetermined.any():
        notes.append(
            f"Not determined at this budget, so the interval is wide and no z and p are given: "
            f"{those(names, undetermined)}. More {counted(plan)}, a larger eps, narrower ranges or "
            "fewer terms would help."
        )
    if lost.any():
        notes.append(
            f"Not determined by the design, whatever the rows: {those(names, lost)} (a column is a "
            "combination of others). Drop a term."
        )
    return notes


def cluster_notes(plan: Plan[Any], found: ClusterRelease | None, chains: int) -> list[str]:
    """Say what the errors by cluster rest on, and who is protected: a row, or a person."""
    if found is None:
        return []
    survey = plan.request.sample.frame.survey
    which = "declared" if not plan.detail.clusters.count else "bought, with noise"
    frame = plan.detail.clusters.frame
    centred = f"; {plan.detail.clusters.centring}" if frame.strata > 1 or frame.pairs else ""
    who = "row" if plan.request.unit is None else "person"
    out = [
        f"{found.clusters:.0f} clusters ({which}), t with {found.df:.0f} degrees of "
        f"freedom{centred}. The guarantee protects one {who}, not one {survey.psu} with all its "
        "rows.",
        *([CONSERVATIVE] if any(map(found.determined, range(chains))) else []),
    ] if survey.psu is not None else []  # fmt: skip
    lost = [i for i in range(chains) if not found.determined(i)]
    if found.few:
        out.append(
            "The number of clusters was bought and is too small to be told from its noise, so no "
            "errors are given: declare it, psus=<number>."
        )
    elif lost:
        out.append(
            f"The design variance is not determined at this budget (its noise is "
            f"{found.noise(lost[0]):.2g} of its size, above 1), so no errors are given: fewer "
            "coefficients, more rows or a larger eps; without its clusters a call gives errors, "
            "which are too small."
        )
    return out
