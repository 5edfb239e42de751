"""The release of second moments in a fit, and the numbers derived from it.

Correlations, paths, subsets and components, as tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.after.inference import correlation
from dpmodels.after.moments import (
    UNUSABLE,
    SecondMoments,
    best_subset,
    components,
    counted_rows,
    decompose,
    lasso,
    slopes,
)
from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, check_among, did_you_mean, shown
from dpmodels.formula.describe import independent, public_points, response_column
from dpmodels.lazy import pd, special
from dpmodels.results.inference import terms_of
from dpmodels.results.record import Record
from dpmodels.units import column_of


@dataclass(frozen=True, eq=False)
class MomentFacts:
    """A release of second moments in a fit."""

    moments: SecondMoments
    back: Array  # (q, k): columns of the design (response last, then the constant) as functionals
    names: tuple[str, ...]  # Names of the rows of ``back`` without the constant
    loose: bool  # The constant is a separate row, no column of the design
    weighted: bool  # Rows may have been scaled down
    # Sums are of people, whose rows may depend on each other: nothing here gives sampling errors.
    people: bool = False


def moments_of(record: Record) -> MomentFacts:
    """Return the release of second moments in a record; raise with the call that makes one."""
    arrays = record.estimate.arrays
    if not (record.estimate.released and "released_moments" in arrays):
        raise NotReleasedError(
            "this fit holds no release of second moments"
            + (": it got no reply" if not record.estimate.released else "")
            + '. One that does: m = dp.dp_moments("y + x1 + x2", data, eps=..., delta=...)'
        )
    people = column_of(record.guarantee.unit) is not None
    if people and (record.guarantee.most or record.call.verb != "dp_moments"):
        raise NotReleasedError(
            f"these moments are of several rows of {record.guarantee.unit}: results from them "
            "assume independent rows. Fit the data itself: dp_ols(..., unit=...)"
        )
    design, back = record.design, np.asarray(arrays["released_map"])
    names = tuple(c.name for c in design.z)
    loose = len(back) > len(names)
    constant = back[-1] if loose else None
    if not loose and design.has_intercept:
        constant = back[[c.kind for c in design.columns].index("intercept")]
    Q, rows = np.asarray(arrays["released_moments"]), float(arrays["released_rows"][0])
    n_eff = None
    if people and constant is not None:  # of people there are N, of their rows any number
        n_eff = counted_rows(Q, constant)
    blocks = tuple(map(int, arrays.get("released_blocks", ())))
    m = SecondMoments(Q, np.asarray(arrays["released_noise"]), rows, constant, n_eff, blocks)
    return MomentFacts(m, back, names, loose, "released_weighted" in arrays, people)


#: Largest number of terms of which all subsets are compared.
MOST_TERMS = 14
_PATH = 40
OF_PEOPLE = (
    "Rows of one person may be correlated, so there are no sampling errors: "
    "'std_error_privacy' is the noise of the release."
)
AFTER_SELECTION = (
    "Chosen by the release itself: p-values and intervals of the chosen model are conditional on "
    "the choice and too optimistic. A model fixed before has honest ones."
)


def _facts(record: Record) -> tuple[MomentFacts, Array]:
    """Return the release and its constant."""
    facts = moments_of(record)
    if facts.moments.constant is None:
        raise NotReleasedError("this release contains no constant: fit it with an intercept")
    return facts, facts.moments.constant


def _columns(facts: MomentFacts) -> dict[str, Array]:
    """Return the columns that vary, as functionals."""
    return {n: b for n, b in zip(facts.names, facts.back, strict=False) if n != "Intercept"}


def _terms(record: Record, facts: MomentFacts) -> dict[str, list[str]]:
    """Return term -> its columns."""
    design, out = record.design, {}
    for term in design.terms:
        names = [design.columns[j].name for j in range(design.p)[term.columns]]
        out[term.name] = [n for n in names if n != "Intercept"]
    if design.response is not None:
        out[design.response.name] = [design.response.name]
    return {k: v for k, v in out.items() if v}


def _free(record: Record, facts: MomentFacts, listed: list[str]) -> list[str]:
    """Leave out columns that are combinations of the constant and earlier columns (one dummy).

    Looked up at public points, so no noise is in it.
    """
    design = record.design
    rows = public_points(design, 64 * (len(facts.names) + 1), (1.0, 2.0))
    X = np.asarray(design.matrix(rows), dtype=float)
    cells = dict(zip(design.names, X.T, strict=True))
    if design.response is not None:
        cells[design.response.name] = response_column(design, rows, design.schema)
    return independent({name: cells[name] for name in listed})


def _chosen(names: Any, record: Record, facts: MomentFacts) -> list[str]:
    """Return the columns that names of columns or terms stand for."""
    listed = [names] if isinstance(names, str) else list(names)
    terms, columns = _terms(record, facts), _columns(facts)
    out: list[str] = []
    for name in listed:
        factor = f"C({name})"
        if name in columns:
            out.append(name)
        elif name in terms or factor in terms:
            out += terms.get(name, terms.get(factor, []))
        else:
            raise RequestError(
                f"{shown(name)} is not in the release.{did_you_mean(name, [*columns, *terms])} "
                f"It holds {', '.join(columns)}"
            )
    return _free(record, facts, out)


def correlations(record: Record, controls_named: Any, level: float) -> pd.DataFrame:
    """Return (partial) correlations of all pairs of columns."""
    facts, constant = _facts(record)
    columns = _columns(facts)
    held = _chosen(controls_named, record, facts)
    controls = np.vstack([constant, *(columns[n] for n in held)])
    names = [n for n in columns if n not in held]
    terms_held = [t for t in _terms(record, facts).values() if set(t) & set(held)]
    names = [n for n in names if not any(n in t for t in terms_held)]
    matrix = np.eye(len(names))
    rows = []
    for i, j in itertools.combinations(range(len(names)), 2):
        pair = correlation(facts.moments, columns[names[i]], columns[names[j]], controls, level)
        matrix[i, j] = matrix[j, i] = pair.value
        rows.append((names[i], names[j], pair.value, pair.se, pair.se_privacy, pair.low, pair.high))
    heads = ["x", "y", "correlation", "std_error", "std_error_privacy", "conf_low", "conf_high"]
    frame = pd.DataFrame(rows, columns=heads)
    if facts.people:
        frame[["std_error", "conf_low", "conf_high"]] = math.nan
        frame.attrs["notes"] = [OF_PEOPLE]
    frame.attrs["matrix"] = pd.DataFrame(matrix, index=names, columns=names)
    frame.attrs["given"] = held
    return frame


def _problem(
    record: Record, response: str
) -> tuple[MomentFacts, Array, Array, dict[str, list[str]]]:
    """Return release, constant, response functional and the terms of the others."""
    facts, constant = _facts(record)
    columns = _columns(facts)
    problem = f"{shown(response)} is not a column of the release"
    check_among(response, columns, problem, "It holds")
    others = {t: cols for t, cols in _terms(record, facts).items() if response not in cols}
    free = _free(record, facts, [n for cols in others.values() for n in cols])
    terms = {t: [n for n in cols if n in free] for t, cols in others.items()}
    terms = {t: cols for t, cols in terms.items() if cols}
    if not terms:
        raise RequestError("the release has no column besides the response")
    return facts, constant, columns[response], terms


def path(record: Record, response: str, lams: Any, *, lasso_: bool) -> pd.DataFrame:
    """Return the coefficients of a ridge or lasso path, in the units of the columns."""
    facts, constant, a, terms = _problem(record, response)
    names = [n for cols in terms.values() for n in cols]
    columns = _columns(facts)
    problem = slopes(facts.moments, np.array([columns[n] for n in names]), a, constant)
    if lams is None:
        top = float(np.abs(problem.h).max())
        least = max(top * 1e-3, min(problem.noise, top)) if lasso_ else max(problem.noise, 1e-4)
        end = top if lasso_ else 1e2
        listed = np.geomspace(max(least, 1e-12), max(end, least * 2), _PATH)[::-1]
    else:
        listed = np.atleast_1d(np.asarray(lams, dtype=float))
        if not (np.isfinite(listed).all() and (listed >= 0).all()):
            raise RequestError("lams= must be numbers, at least 0")
    rows, b = [], None
    for lam in listed:
        b = lasso(problem.M, problem.h, float(lam), b) if lasso_ else problem.ridge(float(lam))
        rows.append(problem.user(b))
    index = pd.Index(listed, name="lam")
    frame = pd.DataFrame(rows, columns=["Intercept", *names], index=index)
    frame.attrs |= {
        "penalty": problem.penalty,
        "noise": problem.noise,
        "notes": [
            "Penalties are per row, for columns of variance one. The moments carry noise "
            f"{problem.noise:.2g} on this scale; their eigenvalues are floored at it.",
            "Shrunk coefficients are biased: no intervals.",
        ],
    }
    return frame


def subsets(record: Record, response: str, top: int) -> pd.DataFrame:
    """Return the best subsets of terms."""
    facts, constant, a, terms = _problem(record, response)
    if facts.people:
        raise NotReleasedError(
            "subsets are compared by BIC, which assumes independent rows, and these moments are "
            "of people with several rows: use lasso_path(), or test terms of "
            "dp_ols(formula, data, unit=...)"
        )
    if len(terms) > MOST_TERMS:
        raise RequestError(
            f"{len(terms)} terms have more than 2^{MOST_TERMS} subsets: use lasso_path(), or a "
            "release with fewer terms"
        )
    columns, listed = _columns(facts), list(terms)
    blocks = [np.array([columns[n] for n in terms[t]]) for t in listed]
    best_first = best_subset(facts.moments, constant, blocks, a)
    best = best_first[0][1]
    rows = [
        (" + ".join(listed[j] for j in chosen) or "1", bic, bic - best, len(fit.b),
         math.sqrt(fit.v), fit.trust)
        for chosen, bic, fit in best_first[: max(int(top), 1)]
    ]  # fmt: skip
    heads = ["terms", "bic", "delta_bic", "coefficients", "sigma", "noise_margin"]
    frame = pd.DataFrame(rows, columns=heads)
    frame.attrs["notes"] = [AFTER_SELECTION]
    return frame


def principal(record: Record, standardised: bool) -> pd.DataFrame:
    """Return principal components of the columns."""
    facts, constant = _facts(record)
    columns = _columns(facts)
    principal_components = components(
        facts.moments, np.array(list(columns.values())), constant, standardised=standardised
    )
    index = [f"PC{k}" for k in range(1, len(columns) + 1)]
    frame = pd.DataFrame(principal_components.vectors.T, columns=list(columns), index=index)
    frame.insert(0, "eigenvalue", principal_components.values)
    frame.insert(1, "share", principal_components.values / principal_components.values.sum())
    gaps = np.abs(np.diff(principal_components.values, append=-np.inf))
    gaps = np.minimum(gaps, np.insert(gaps[:-1], 0, np.inf))
    frame.insert(
        2,
        "determined",
        (principal_components.values > principal_components.noise)
        & (gaps > principal_components.noise),
    )
    frame.attrs["noise"] = principal_components.noise
    return frame


# -- collinearity ----------------------------------------------------------------------------------


def inflation(record: Record) -> pd.DataFrame:
    """Return variance inflation factors from the released information of a fit."""
    if not record.estimate.released:
        raise NotReleasedError("this fit got no reply: there is nothing to read factors off")
    S, names = information_of(record), record.estimate.names
    if S is None:
        raise NotReleasedError(
            "vif is a function of the released information of the columns, which fits of full rank "
            "hold by dp_ols(method='ssp' or 'pmt'), dp_glm(method='scoring'), or on m = "
            "dp_moments('y + x1 + x2', ...)"
        )
    if "Intercept" in names:
        j = names.index("Intercept")
        S = S - np.outer(S[:, j], S[j]) / S[j, j]
    slopes = [k for k, n in enumerate(names) if n != "Intercept"]
    if not slopes:
        raise RequestError("vif needs a predictor: this fit has an intercept alone")
    S = S[np.ix_(slopes, slopes)]
    size = np.sqrt(np.maximum(np.diag(S), 0.0))
    if not (size > 0.0).all() or np.linalg.eigvalsh(S).min() <= 0.0:
        raise NotReleasedError(
            "the released information has a direction that is noise alone, so factors are not "
            "determined: more rows, a larger eps or fewer terms"
        )
    R = S / np.outer(size, size)
    factors = np.maximum(np.diag(np.linalg.inv(R)), 1.0)
    log_det = float(np.linalg.slogdet(R)[1])
    term: dict[int, str] = {}
    joint: dict[int, float] = {}
    df: dict[int, int] = {}
    for name, places in terms_of(record).items():
        term_places = [slopes.index(j) for j in places]
        others = [k for k in range(len(slopes)) if k not in term_places]
        logs = [np.linalg.slogdet(R[np.ix_(s, s)])[1] if s else 0.0 for s in (term_places, others)]
        for k in term_places:
            term.setdefault(k, name)
            joint.setdefault(k, max(math.exp(float(sum(logs)) - log_det), 1.0))
            df.setdefault(k, len(term_places))
    rows = [
        (names[j], factors[k], term.get(k, names[j]), joint.get(k, factors[k]), df.get(k, 1))
        for k, j in enumerate(slopes)
    ]
    frame = pd.DataFrame(rows, columns=["coefficient", "vif", "term", "gvif", "df"])
    return frame.set_index("coefficient")


def information_of(record: Record) -> Array | None:
    """Return the released information per row of a fit, (p, p): X'X, of other families X'WX."""
    est = record.estimate
    if est.bias_bound is not None and len(est.bias_bound.parts) == 1:
        T, allowance = est.bias_bound.parts[0]
        if T.shape[0] == T.shape[1]:
            return np.asarray(np.linalg.inv(T @ np.linalg.inv(allowance.H) @ T.T))
    elif "functionals" in est.arrays:
        B = np.asarray(est.arrays["functionals"])[:-1]
        return np.asarray(B @ np.asarray(est.arrays["released_moments"]) @ B.T)
    return None


# -- Gelbach's decomposition of a coefficient of a fit with released second moments.


def decomposition(
    record: Record, name: Any, groups: Any, base_names: Any, level: float
) -> pd.DataFrame:
    """Return base and full coefficient, and the part of each group in their difference."""
    facts, constant = _facts(record)
    columns, names = _columns(facts), record.estimate.names
    # the intercept of the fit, whose noise is not that of the constant of the release
    constant = dict(zip(facts.names, facts.back, strict=False)).get("Intercept", constant)
    slopes = [n for n in names if n != "Intercept"]
    if not isinstance(name, str) or name not in slopes:
        close = did_you_mean(str(name), slopes) if isinstance(name, str) else ""
        raise RequestError(
            f"{shown(name)} is not a coefficient of this fit.{close} Its coefficients: "
            f"{', '.join(slopes)}"
        )
    assert record.design.response is not None
    held = [n for n in _chosen(base_names, record, facts) if n != name]
    came = [n for n in slopes if n not in (name, *held)]
    if not came:
        raise RequestError(f"nothing came in besides {name}: leave something out of given=")
    parts = _groups(groups, came, record)
    base = np.vstack([constant, columns[name], *(columns[n] for n in held)])
    change = decompose(
        facts.moments, base, 1, np.vstack([columns[n] for n in came]),
        columns[record.design.response.name],
    )  # fmt: skip
    if change.trust < UNUSABLE:
        raise NotReleasedError(
            "the released moments have a direction that is noise alone, so the change of a "
            "coefficient is not determined: more rows, a larger eps or fewer terms"
        )
    pick = np.zeros((3 + len(parts), len(change.values)))
    pick[0, 0] = pick[1, 1] = pick[2, 0] = 1.0
    pick[2, 1] = -1.0
    for k, listed in enumerate(parts.values()):
        pick[3 + k, [2 + came.index(n) for n in listed]] = 1.0
    private = np.sqrt(np.maximum(np.diag(pick @ change.privacy @ pick.T), 0.0))
    both = np.diag(pick @ (change.privacy + change.sampling) @ pick.T)
    error = np.full(len(both), math.nan) if facts.people else np.sqrt(np.maximum(both, 0.0))
    values, half = pick @ change.values, float(special.ndtri(0.5 + level / 2.0)) * error
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
    """Return label -> columns: as typed, else one group per term."""
    facts, _ = _facts(record)
    if groups is None:
        terms = {t: [n for n in cols if n in came] for t, cols in _terms(record, facts).items()}
        return {t: cols for t, cols in terms.items() if cols}
    if not isinstance(groups, Mapping):
        raise RequestError("groups= must map names to terms: {'family': ['siblings', 'income']}")
    out = {str(label): _chosen(listed, record, facts) for label, listed in groups.items()}
    every = [n for listed in out.values() for n in listed]
    for n in every:
        if n not in came or every.count(n) > 1:
            raise RequestError(
                f"groups=: {n!r} {'is named twice' if n in came else 'did not enter'}. Columns "
                f"that entered: {', '.join(came)}"
            )
    others = [n for n in came if n not in every]
    return {**out, **({"(others)": others} if others else {})}
