"""Gelbach's decomposition of a coefficient of a fit that holds released second moments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.after.gelbach import decompose
from dpmodels.after.moments import UNUSABLE
from dpmodels.errors import NotReleasedError, RequestError, did_you_mean, shown
from dpmodels.results.moments import OF_PEOPLE, _chosen, _columns, _facts, _terms

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.results.record import Record


def decomposition(
    record: Record, name: Any, groups: Any, given: Any, level: float
) -> pd.DataFrame:
    """Return base and full coefficient, and the part of each group in their difference."""
    import pandas as pd
    from scipy.special import ndtri

    facts, constant = _facts(record)
    columns, names = _columns(facts), record.estimate.names
    # the intercept of the fit, whose noise is not that of the constant of the release
    constant = dict(zip(facts.names, facts.back, strict=False)).get("Intercept", constant)
    own = [n for n in names if n != "Intercept"]
    if not isinstance(name, str) or name not in own:
        close = did_you_mean(str(name), own) if isinstance(name, str) else ""
        raise RequestError(
            f"{shown(name)} is no coefficient of this fit.{close} Its coefficients: "
            f"{', '.join(own)}"
        )
    assert record.design.response is not None
    held = [n for n in _chosen(given, record, facts) if n != name]
    came = [n for n in own if n not in (name, *held)]
    if not came:
        raise RequestError(f"nothing came in beside {name}: leave something out of given=")
    parts = _groups(groups, came, record)
    base = np.vstack([constant, columns[name], *(columns[n] for n in held)])
    found = decompose(
        facts.moments, base, 1, np.vstack([columns[n] for n in came]),
        columns[record.design.response.name],
    )  # fmt: skip
    if found.trust < UNUSABLE:
        raise NotReleasedError(
            "the released moments have a direction that is noise alone, so the change of a "
            "coefficient is not determined: more rows, a larger eps or fewer terms"
        )
    pick = np.zeros((3 + len(parts), len(found.values)))
    pick[0, 0] = pick[1, 1] = pick[2, 0] = 1.0
    pick[2, 1] = -1.0
    for k, listed in enumerate(parts.values()):
        pick[3 + k, [2 + came.index(n) for n in listed]] = 1.0
    private = np.sqrt(np.maximum(np.diag(pick @ found.privacy @ pick.T), 0.0))
    both = np.diag(pick @ (found.privacy + found.sampling) @ pick.T)
    error = np.full(len(both), math.nan) if facts.people else np.sqrt(np.maximum(both, 0.0))
    values, half = pick @ found.values, float(ndtri(0.5 + level / 2.0)) * error
    frame = pd.DataFrame(
        {
            "term": ["base", "full", "explained", *parts], "estimate": values, "std_error": error,
            "std_error_privacy": private, "conf_low": values - half, "conf_high": values + half,
            "share": [math.nan, math.nan, *(values[2:] / values[2])],
        }
    )  # fmt: skip
    frame.attrs["notes"] = [OF_PEOPLE] if facts.people else []
    return frame


def _groups(groups: Any, came: list[str], record: Record) -> dict[str, list[str]]:
    """Return label -> columns: as typed, else one group a term."""
    facts, _ = _facts(record)
    if groups is None:
        terms = {t: [n for n in cols if n in came] for t, cols in _terms(record, facts).items()}
        return {t: cols for t, cols in terms.items() if cols}
    if not isinstance(groups, Mapping):
        raise RequestError("groups= takes names for terms: {'family': ['siblings', 'income']}")
    out = {str(label): _chosen(listed, record, facts) for label, listed in groups.items()}
    every = [n for listed in out.values() for n in listed]
    for n in every:
        if n not in came or every.count(n) > 1:
            raise RequestError(
                f"groups=: {n!r} {'stands twice' if n in came else 'did not come in'}. What came "
                f"in: {', '.join(came)}"
            )
    rest = [n for n in came if n not in every]
    return {**out, **({"(others)": rest} if rest else {})}
