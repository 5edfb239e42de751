"""Display of curves and log-rank tests, and numbers derived from them. Nothing new is released."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, choice, did_you_mean, shown
from dpmodels.formula.schema import label_of
from dpmodels.lazy import pd, special
from dpmodels.models.survival.curve import Curve, covariance_of, curves, first_shown, level_at
from dpmodels.models.survival.incidence import Incidence
from dpmodels.models.survival.table import CellNoise, layout_of
from dpmodels.tables.content import Column
from dpmodels.tables.numbers import fixed, spread_of, to_error
from dpmodels.tables.pictures import numbers_under_axis
from dpmodels.tables.table import Axes, Table, grid, interval_heads, new_axes

#: Rows of a life table that a summary shows.
_SHOWN = 20


def curves_from(record: Any, steps: bool | None = None) -> tuple[Curve, ...]:
    """Return the curves of a fit: functions of its released cells and public facts.

    ``steps``: whether they fall at once, and not on straight lines between breaks.
    """
    if steps is not None and not isinstance(steps, bool):
        raise RequestError(f"steps={shown(steps)} must be True, False or None")
    arrays = record.estimate.arrays
    layout = layout_of(record.design, record.call.options)
    if len(arrays["cells"]) != layout.M:  # of a file of version 0.2
        layout = layout_of(record.design, record.call.options, opening=False)
    layout = replace(layout, steps=steps)
    return curves(layout, CellNoise(layout, float(arrays["sd"][0])), np.asarray(arrays["cells"]))


def _label(curve: Curve) -> str:
    return curve.label or "all"


def _of_groups(by_group: Sequence[Curve]) -> list[tuple[str, Curve]]:
    """Return the label of each group and its (first) curve: causes have one number at risk."""
    return [(c.layout.labels[c.group], c) for c in by_group if not c.cause]


def _conf_type(record: Any) -> str:
    return str(record.call.options["conf_type"])


def _z(level: float) -> float:
    return -float(special.ndtri((1.0 - level) / 2.0))


def tidy(record: Any, conf_int: bool, level: float) -> pd.DataFrame:
    """Return one row per interval and group, with the columns of R's ``tidy.survfit``.

    ``time`` is the end of an interval, ``n_risk`` the number at risk at its beginning, ``n_event``
    and ``n_censor`` those within it; ``std_error`` is that of survival (R's is that of its log).
    """
    rows, by_group = [], curves_from(record)
    first = first_shown(by_group)
    for curve in by_group:
        band = curve.band(level, _conf_type(record))
        estimate, low, high = curve.reported(np.clip(curve.S, 0.0, 1.0), *band)
        table = {
            "time": curve.layout.edges[1:],
            "n_risk": curve.entering[:-1],
            "n_event": curve.d,
            "n_censor": curve.c,
            "estimate": estimate,
            "std_error": curve.S * np.sqrt(curve.variance),
            "conf_low": low,
            "conf_high": high,
        }
        if not conf_int:
            del table["conf_low"], table["conf_high"]
        rows.append(pd.DataFrame(table).iloc[first:].assign(strata=_label(curve)))
    return pd.concat(rows, ignore_index=True)


def body(record: Any, digits: int, level: float) -> Table:
    """Return the body of the summary: medians by group, then life tables."""
    rows, tables, by_group = [], [], curves_from(record)
    for curve in by_group:
        median = _curve_quantile(curve, 0.5, level, _conf_type(record))
        rows.append((
            _label(curve), _one_decimal(curve.units_followed), _one_decimal(float(curve.d.sum())),
            *(to_error(v if math.isfinite(v) else math.nan, digits, spread_of(*median[1:]))
              for v in median),
        ))  # fmt: skip
        tables.append(_life_table(curve, digits, level, _conf_type(record), first_shown(by_group)))
    columns = ("Group", "N", "Events", "Median", *interval_heads(level))
    return grid(columns, rows, more=tuple(tables))


def _one_decimal(x: float) -> str:
    return fixed(x, 1) if math.isfinite(x) else "."


def _life_table(curve: Curve, digits: int, level: float, conf_type: str, first: int) -> Table:
    """Return the life table of a group from an interval on, thinned if there are many intervals."""
    columns = (
        _label(curve) if curve.label else "Time", "At risk", "Events", "Censored",
        "Incidence" if isinstance(curve, Incidence) else "Survival", "Std. Error",
        Column("privacy", "of which"), *interval_heads(level),
    )  # fmt: skip
    estimates, low, high = curve.reported(curve.S, *curve.band(level, conf_type))
    K = curve.layout.K
    every = -(-(K - first) // _SHOWN)
    chosen = [k for k in range(first, K) if (k + 1 - first) % every == 0 or k == K - 1]
    rows: list[tuple[str, ...]] = []
    for k in chosen:
        since = first if not rows else chosen[len(rows) - 1] + 1
        few = [
            float(estimates[k]), float(curve.S[k] * math.sqrt(curve.variance[k])),
            float(curve.S[k] * math.sqrt(curve.privacy[k])), float(low[k]), float(high[k]),
        ]  # fmt: skip
        rows.append((
            f"{curve.layout.edges[k + 1]:g}", _one_decimal(float(curve.entering[since])),
            _one_decimal(float(curve.d[since : k + 1].sum())),
            _one_decimal(float(curve.c[since : k + 1].sum())),
            *(to_error(min(max(v, 0.0), 1.0) if v == v else v, digits, few[1]) for v in few),
        ))  # fmt: skip
    return grid(columns, rows)


# -- read off the curve ----------------------------------------------------------------------------


def _curve_quantile(
    curve: Curve, q: float, level: float, conf_type: str
) -> tuple[float, float, float]:
    """Return the time at which survival is 1 - q, and the times at which its band is."""
    edges = np.array(curve.layout.edges)
    low, high = curve.band(level, conf_type)
    periods = curve.layout.periods
    times = [level_at(edges, S, 1.0 - q, periods) for S in (curve.S, low, high)]
    return times[0], times[1], times[2]


def _listed(numbers: Any, word: str, example: str) -> list[float]:
    """Return one number or several as a list of floats, or refuse them."""
    listed = (
        list(numbers)
        if isinstance(numbers, Iterable) and not isinstance(numbers, str)
        else [numbers]
    )
    try:
        out = [float(v) for v in listed]
    except (TypeError, ValueError):
        out = []
    if not out or not all(map(math.isfinite, out)):
        raise RequestError(f"{word}= must be public numbers, for example {word}={example}")
    return out


def quantile(
    fit: Any, q: Any = 0.5, *, level: float | None = None, steps: bool | None = None
) -> pd.DataFrame:
    """Return times by which shares q have died, with intervals by inversion of the band."""
    record, level = fit._record, fit._level(level)
    shares = _listed(q, "q", "0.5")
    if not all(0.0 < v < 1.0 for v in shares):
        raise RequestError("q= must be shares between 0 and 1: q=0.5 is the median")
    rows = []
    for curve in curves_from(record, steps):
        for share in shares:
            times = _curve_quantile(curve, share, level, _conf_type(record))
            ends = (v if math.isfinite(v) else math.nan for v in times)
            rows.append((_label(curve), share, *ends))
    return pd.DataFrame(rows, columns=["strata", "q", "estimate", "conf_low", "conf_high"])


def at(fit: Any, times: Any, *, level: float | None = None) -> pd.DataFrame:
    """Return survival at public times; between breaks that of the last one, intervals hold both."""
    record, level = fit._record, fit._level(level)
    rows = []
    for curve in curves_from(record):
        low, high = (np.append(1.0, v) for v in curve.band(level, _conf_type(record)))
        for t in _listed(times, "times", "[6, 12]"):
            w = curve.at(t)
            sampling, privacy = covariance_of([(curve, w)])
            ends = sorted([float(curve.at(t, after=True) @ low), float(w @ high)])
            rows.append((_label(curve), t, curve.value(w), math.sqrt(sampling + privacy), *ends))
    return pd.DataFrame(
        rows, columns=["strata", "time", "estimate", "std_error", "conf_low", "conf_high"]
    )


_ERROR_COLUMNS = ["estimate", "std_error", "std_error_privacy", "conf_low", "conf_high"]


def _errors(parts: list[tuple[Curve, Array]], level: float) -> tuple[float, ...]:
    """Return the columns of :data:`_ERRORS` for a sum of linear functions of curves."""
    value = sum(curve.value(w) for curve, w in parts)
    sampling, privacy = covariance_of(parts)
    se = math.sqrt(sampling + privacy)
    half = _z(level) * se
    return value, se, math.sqrt(privacy), value - half, value + half


def rmst(
    fit: Any, tau: float | None = None, *, level: float | None = None, steps: bool | None = None
) -> pd.DataFrame:
    """Return restricted mean survival times up to tau, with their errors."""
    level = fit._level(level)
    by_group = curves_from(fit._record, steps)
    end = by_group[0].layout.edges[-1] if tau is None else _listed(tau, "tau", "24")[0]
    rows: list[tuple[Any, ...]] = []
    for curve in by_group:
        rows.append((_label(curve), end, *_errors([(curve, curve.up_to(end))], level)))
    return pd.DataFrame(rows, columns=["strata", "tau", *_ERROR_COLUMNS])


def difference(
    fit: Any, times: Any = None, *, tau: float | None = None, level: float | None = None,
    steps: bool | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return differences between groups in survival at given times or in restricted means."""
    level = fit._level(level)
    by_group = curves_from(fit._record, steps)
    if len(_of_groups(by_group)) < 2:
        raise RequestError("a difference needs two groups: Surv(time, event) ~ group")
    if (times is None) == (tau is None):
        raise RequestError(
            "difference() needs either times= (difference in survival) or tau= (difference in "
            "restricted means)"
        )
    word = "time" if tau is None else "tau"
    rows: list[tuple[Any, ...]] = []
    for point in _listed(times if tau is None else tau, word, "24"):
        for i, a in enumerate(by_group):
            for b in (c for c in by_group[i + 1 :] if c.cause == a.cause):
                w = a.at(point) if tau is None else a.up_to(point)
                v = a.at(point, after=True) if tau is None else w
                pair = f"{_label(a)} - {_label(b)}"
                *errors, _, _ = _errors([(a, w), (b, -w)], level)
                v, w = (v, w) if a.cause is None else (w, v)  # an incidence rises
                low = _errors([(a, v), (b, -w)], level)[3]
                high = _errors([(a, w), (b, -v)], level)[4]
                rows.append((pair, point, *errors, low, high))
    return pd.DataFrame(rows, columns=["contrast", word, *_ERROR_COLUMNS])


def cumulative_hazard(fit: Any, *, level: float | None = None) -> pd.DataFrame:
    """Return cumulative hazards, ``-log S``, at the ends of the intervals."""
    record, level = fit._record, fit._level(level)
    rows, by_group = [], curves_from(record)
    for curve in by_group:
        low, high = curve.band(level, _conf_type(record))
        with np.errstate(divide="ignore"):
            table = {
                "time": curve.layout.edges[1:],
                "estimate": -curve.log_S,
                "std_error": np.sqrt(curve.variance),
                "conf_low": -np.log(high),
                "conf_high": -np.log(low),
                "strata": _label(curve),
            }
        rows.append(pd.DataFrame(table).iloc[first_shown(by_group) :])
    return pd.concat(rows, ignore_index=True)


def risk_table(fit: Any, times: Any = None) -> pd.DataFrame:
    """Return numbers at risk, one row per group and one column per break."""
    by_group = _of_groups(curves_from(fit._record))
    edges = list(by_group[0][1].layout.edges)
    breaks = list(dict.fromkeys(edges)) if times is None else _listed(times, "times", "[0, 12]")
    for t in breaks:
        if t not in edges:
            shown = ", ".join(f"{e:g}" for e in edges)
            raise RequestError(
                f"numbers at risk are known at the breaks: {t:g} is none of {shown}"
                + did_you_mean(f"{t:g}", [f"{e:g}" for e in edges])
            )
    return pd.DataFrame(
        [[float(c.entering[edges.index(t)]) for t in breaks] for _, c in by_group],
        index=pd.Index([label or "all" for label, _ in by_group], name="strata"),
        columns=pd.Index(breaks, name="time"),
    )


# -- log-rank --------------------------------------------------------------------------------------


def _groups(record: Any) -> list[tuple[Any, ...]]:
    """Return (group, N, observed, expected, U, error, privacy part) of every group."""
    est = record.estimate
    sampling, privacy = (np.diag(V) for V in (est.vcov_sampling, est.vcov_privacy))
    a, total = est.arrays, np.sqrt(sampling + privacy)
    columns = (a["n"], a["observed"], a["expected"], est.params, total, np.sqrt(privacy))
    return [(name, *map(float, values)) for name, *values in zip(est.names, *columns, strict=True)]


def verdict_body(record: Any, digits: int, level: float) -> Table:
    """Return the body of the summary of a log-rank test."""
    columns = (
        Column("Group", left=True, width=8), "N", "Observed", "Expected", "O - E", "Std. Error",
        Column("privacy", "of which"),
    )  # fmt: skip
    return grid(columns, (
        (name, *map(_one_decimal, values[:3]), *(to_error(v, 2, values[4]) for v in values[3:]))
        for name, *values in _groups(record)
    ))  # fmt: skip


def verdict_tidy(record: Any, conf_int: bool, level: float) -> pd.DataFrame:
    """Return one row per group, with the statistic and the p-value of the test."""
    est = record.estimate
    frame = pd.DataFrame(
        _groups(record),
        columns=[
            "term", "n", "observed", "expected", "estimate", "std_error", "std_error_privacy",
        ],
    )  # fmt: skip
    if conf_int:
        half = _z(level) * frame["std_error"]
        frame["conf_low"], frame["conf_high"] = frame["estimate"] - half, frame["estimate"] + half
    frame["statistic"] = est.stats["statistic"]
    frame["parameter"] = est.stats["df"]
    frame["p_value"] = est.stats["p_value"]
    return frame


# -- The picture of survival curves: bands, and numbers at risk under the axis.


def plot_curves(
    fit: Any, ax: Axes | None = None, *, level: float = 0.95, kind: str | None = None,
    bands: bool = True, at_risk: bool = True, colors: list[str] | None = None, joint: float = 0.0,
) -> Axes:  # fmt: skip
    """Draw the curves of all groups.

    Parameters
    ----------
    fit : Fit
    ax : matplotlib Axes, optional
    level : float
    kind : {"survival", "event", "hazard"}
        Survival (default), its complement, or the cumulative hazard. Incidences are "event".
    bands, at_risk : bool
        Pointwise intervals; numbers at risk (released, so noisy) under the axis.
    colors : list of str, optional
        One a group; lines of several causes differ in their dashes.
    joint : float
        Probability with which bands at ``level`` hold at all points together, 0 if not computed.

    Privacy
    -------
    Draws released numbers: costs nothing.
    """
    if not fit.released:
        raise NotReleasedError("there was no reply: nothing to draw")
    by_group = curves_from(fit._record)
    kinds = ("event",) if isinstance(by_group[0], Incidence) else ("survival", "event", "hazard")
    kind = kinds[0] if kind is None else choice("kind", kind, kinds)
    rows = [(label, c.entering) for label, c in _of_groups(by_group) if at_risk]
    ax = new_axes(ax, (6.4, 4.0 + 0.22 * len(rows)))
    edges = np.array(by_group[0].layout.edges)
    conf_type = _conf_type(fit._record)

    def shown(S: Any) -> Any:
        with np.errstate(divide="ignore"):
            return {"survival": S, "event": 1.0 - S, "hazard": -np.log(S)}[kind]

    listed = colors or [f"C{i}" for i in range(10)]
    drawn = [listed[c.group % len(listed)] for c in by_group]
    for curve, color in zip(by_group, drawn, strict=True):
        # a rise is noise: the drawn curve is levelled out, the intervals are as they are
        S = np.minimum.accumulate(np.clip(np.append(1.0, curve.S), 0.0, 1.0))
        line = ("-", "--", ":", "-.")[(curve.cause or 0) % 4]
        ax.plot(edges, shown(S), line, color=color, label=curve.label or None, marker=".", ms=3)
        if bands:
            low, high = curve.band(level, conf_type)
            ends = [shown(np.append(1.0, v)) for v in (low, high)]
            ax.fill_between(edges, *ends, color=color, alpha=0.18, linewidth=0)
    ax.set_xlabel(label_of(fit.design.schema, fit.design.survival.names[1]))
    incidence = "share with the event" if by_group[0].cause is None else "cumulative incidence"
    labels = {"event": incidence, "hazard": "cumulative hazard"}
    ax.set_ylabel(labels.get(kind, kind))
    ax.set_xlim(edges[0], edges[-1])
    if kind != "hazard":
        ax.set_ylim(0.0, 1.0)
    promise = fit.privacy.statement().partition(";")[0]
    together = f"; {100 * joint:g} % joint bands" if joint else ""
    ax.set_title(f"{fit.formula}\n{promise}{together}", fontsize=9)
    if len(by_group) > 1:
        ax.legend(frameon=False)
    if at_risk:
        numbers_under_axis(ax, "numbers at risk", rows, edges, drawn[:: len(by_group) // len(rows)])
    return ax
