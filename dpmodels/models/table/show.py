"""Summaries, tidy frames and crosstabs of tables, tests and quantiles, from released numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, choice, did_you_mean
from dpmodels.models.table.layout import Item, Layout, Section, layout_of
from dpmodels.models.table.table import medians_of
from dpmodels.models.table.table_one import is_table_one, requested, table_one
from dpmodels.tables.content import Column, Row
from dpmodels.tables.content import Layout as Look
from dpmodels.tables.numbers import MISSING, cell, places, spread_of
from dpmodels.tables.table import Table, new_axes, one_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


_LOOK = Look(gap=2)


def layout_from(record: Any) -> Layout:
    """Return the layout of a saved table: a function of its formula, schema and options."""
    options = record.call.options
    typed = options.get("quantiles")
    listed = [] if typed is None else typed if isinstance(typed, list) else [typed]
    return layout_of(
        record.design, histogram=options.get("histogram"),
        quantiles=tuple(sorted({float(q) for q in listed})),
        medians=medians_of(options.get("medians"), record.design),
    )  # fmt: skip


def parts(record: Any) -> list[tuple[Section, list[Item], dict[str, Array]]]:
    """Return the sections of a table, each with its items and their numbers."""
    layout, out, at = layout_from(record), [], 0
    for section in layout.sections:
        items = layout.items(section)
        here = slice(at, at + len(items))
        at += len(items)
        numbers = {name: values[here] for name, values in record.estimate.arrays.items()}
        out.append((section, items, numbers))
    return out


def _dots_for_unknown(cells: list[str]) -> list[str]:
    """Return cells with a point where a number is not known."""
    return ["." if text == MISSING else text for text in cells]


def number(x: float, decimals: int, error: float = math.nan) -> str:
    """Return ``x`` with at least two digits of its error, or with ``decimals`` if it has none."""
    (few,) = places([error], decimals)
    return _dots_for_unknown([cell(x, few, decimals)])[0]


def body(record: Any, digits: int, level: float, **requests: Any) -> Table:
    """Return the body of the summary: a table 1 of several variables, or a table per section."""
    _same_level(record, level)
    layout, sections = layout_from(record), parts(record)
    columns = requested(record, requests)
    if not is_table_one(record, columns):
        first, *others = (_section(layout, *section, digits, level) for section in sections)
        return replace(first, more=tuple(others))
    numbers = {section: (items, values) for section, items, values in sections}
    return table_one(
        record, layout, sections, columns,
        lambda section: _section(layout, section, *numbers[section], digits, level),
    )  # fmt: skip


def _section(
    layout: Layout, section: Section, items: list[Item], numbers: dict[str, Array], digits: int,
    level: float,
) -> Table:  # fmt: skip
    """Return the table of a section."""
    if section.kind == "counts" and len(section.axes) == 2:
        return _crossed(layout, section, numbers)
    if section.kind == "counts":
        return _list_of_cells(layout, section, items, numbers, level)
    if section.kind == "means":
        return _groups(layout, section, items, numbers, digits, level)
    return _points(layout, section, items, numbers, digits)


def _same_level(record: Any, level: float, of: str = "a table") -> None:
    """Refuse intervals at another level than that of the call."""
    if abs(level - record.call.level) > 1e-12:
        subject = "some of them" if of == "a table" else "they"
        raise RequestError(
            f"the intervals of {of} are made at the level= of the call ({record.call.level:g}): "
            f"{subject} are not estimate -+ multiple of an error"
        )


def _title(layout: Layout, section: Section) -> str:
    by = " x ".join(layout.axes[j].name for j in section.axes)
    return " by ".join(filter(None, (section.variable, by)))


def _cell(item: Item) -> str:
    return ", ".join(label for _, label in item.cell) or "all"


def _list_of_cells(
    layout: Layout, section: Section, items: list[Item], numbers: dict[str, Array], level: float
) -> Table:
    """Return a one-way table (or a long one of many ways): count, noise, interval, share."""
    interval = f"{100 * level:g} % interval"
    columns = (
        Column(_title(layout, section), left=True, over=False), Column("Count"),
        Column("noise sd"), Column("low", interval), Column("high", interval), Column("Share"),
        Column("low", interval + " "), Column("high", interval + " "),
    )  # fmt: skip
    rows = []
    for i, item in enumerate(items):
        noise, sure = float(numbers["se_privacy"][i]), 100.0 * float(numbers["share_se"][i])
        counts = (float(numbers[k][i]) for k in ("estimate", "se_privacy", "low", "high"))
        shares = (100.0 * float(numbers[k][i]) for k in ("share", "share_low", "share_high"))
        percents = ("." if v != v else f"{number(v, 1, sure)} %" for v in shares)
        rows.append(Row((_cell(item), *(number(v, 1, noise) for v in counts), *percents)))
    return Table(columns=columns, rows=tuple(rows), layout=_LOOK)


def _crossed(layout: Layout, section: Section, numbers: dict[str, Array]) -> Table:
    """Return a crosstab of counts with its margins."""
    rows_axis, columns_axis = (layout.axes[j] for j in section.axes)
    matrix = numbers["estimate"].reshape(rows_axis.size, columns_axis.size)
    columns = (
        Column(f"{rows_axis.name} \\ {columns_axis.name}", left=True),
        *(Column(label) for label in (*columns_axis.labels, "Total")),
    )
    noise = float(np.nanmax(numbers["se_privacy"])) if numbers["se_privacy"].size else 0.0
    rows = [
        Row((label, *(number(float(v), 1, noise) for v in (*row, row.sum()))))
        for label, row in zip(rows_axis.labels, matrix, strict=True)
    ]
    down = matrix.sum(axis=0)
    rows.append(Row(("Total", *(number(float(v), 1, noise) for v in (*down, down.sum())))))
    rows.append(Row(("noise sd of a cell", f"{noise:.3g}", *("",) * (len(columns) - 2))))
    return Table(columns=columns, rows=tuple(rows), layout=_LOOK)


def _groups(
    layout: Layout, section: Section, items: list[Item], numbers: dict[str, Array], digits: int,
    level: float,
) -> Table:  # fmt: skip
    """Return means by group: n, mean, error, interval, sd."""
    interval = f"{100 * level:g} % interval"
    columns = (
        Column(_title(layout, section), left=True),
        Column("n"), Column("mean"), Column("Std. Error"), Column("privacy", "of which"),
        Column("low", interval), Column("high", interval), Column("sd"),
    )  # fmt: skip
    estimate, sampling, privacy, low, high = (
        numbers[k].reshape(-1, 3)
        for k in ("estimate", "se_sampling", "se_privacy", "low", "high")
    )
    total = np.hypot(sampling, privacy)
    rows = [
        Row((
            _cell(item), number(float(estimate[g, 0]), 1),
            *(number(float(v[g, 1]), digits, float(total[g, 1]))
              for v in (estimate, total, privacy, low, high)),
            number(float(estimate[g, 2]), digits, float(total[g, 2])),
        ))
        for g, item in enumerate(items[::3])
    ]  # fmt: skip
    return Table(columns=columns, rows=tuple(rows), layout=_LOOK)


def _points(
    layout: Layout, section: Section, items: list[Item], numbers: dict[str, Array], digits: int
) -> Table:
    """Return quantiles by group."""
    per = len(layout.quantiles)
    columns = (
        Column(_title(layout, section), left=True),
        *(Column(f"{100 * q:g} %", "quantile") for q in layout.quantiles),
    )
    values = numbers["estimate"].reshape(-1, per)
    errors = spread_of(numbers["low"], numbers["high"]).reshape(-1, per)
    rows = [
        Row((
            _cell(items[g * per]),
            *(number(float(v), digits, float(e)) for v, e in zip(row, errors[g], strict=True)),
        ))
        for g, row in enumerate(values)
    ]  # fmt: skip
    return Table(columns=columns, rows=tuple(rows), layout=_LOOK)


#: Columns of :func:`tidy` that are numbers of a table as they are.
_TIDY = {
    "std_error_sampling": "se_sampling", "std_error_privacy": "se_privacy",
    "conf_low": "low", "conf_high": "high", "share": "share", "share_std_error": "share_se",
    "share_conf_low": "share_low", "share_conf_high": "share_high",
}  # fmt: skip


def tidy(record: Any, conf_int: bool, level: float) -> pd.DataFrame:
    """Return one row per statistic: term, statistic, its group, estimate, errors, share."""
    import pandas as pd

    if conf_int:
        _same_level(record, level)
    rows = []
    for _, items, numbers in parts(record):
        for i, item in enumerate(items):
            value = {k: float(v[i]) for k, v in numbers.items()}
            rows.append({
                "term": item.name,
                "measure": item.statistic,
                "variable": item.variable or " x ".join(axis for axis, _ in item.cell),
                "level": _cell(item),
                "estimate": value["estimate"],
                "std_error": float(np.hypot(value["se_sampling"], value["se_privacy"])),
                **{column: value[k] for column, k in _TIDY.items()},
            })  # fmt: skip
    frame = pd.DataFrame(rows)
    if not conf_int:
        frame = frame.drop(columns=[c for c in frame if "conf_" in c])
    return frame


def crosstab(
    fit: Any, rows: str | None = None, columns: str | None = None, *, margins: bool = True
) -> pd.DataFrame:
    """Return the released counts of two variables as a frame; see ``Tabulation.crosstab``."""
    import pandas as pd

    layout = layout_from(fit._record)
    crossed = {
        tuple(layout.axes[j].name for j in section.axes): (section, numbers)
        for section, _, numbers in parts(fit._record)
        if section.kind == "counts" and len(section.axes) == 2
    }
    if not crossed:
        raise RequestError('this table crosses no two variables: ask for "~ a * b"')
    pair_asked = (rows, columns) if rows and columns else next(iter(crossed))
    turned = (pair_asked[1], pair_asked[0])
    key = pair_asked if pair_asked in crossed else turned
    if key not in crossed:
        raise RequestError(
            f"{pair_asked[0]!r} and {pair_asked[1]!r} were not crossed."
            + did_you_mean(str(pair_asked[0]), [n for pair in crossed for n in pair])
            + f" Crossed: {', '.join(' x '.join(pair) for pair in crossed)}"
        )
    section, numbers = crossed[key]
    first, second = (layout.axes[j] for j in section.axes)
    table: pd.DataFrame = pd.DataFrame(
        numbers["estimate"].reshape(first.size, second.size),
        index=pd.Index(first.labels, name=first.name),
        columns=pd.Index(second.labels, name=second.name),
    )
    if margins:
        table["Total"] = table.sum(axis=1)
        table.loc["Total"] = table.sum(axis=0)
    return table if key == pair_asked else table.T


# -- tests ----------------------------------------------------------------------------------------


def _estimates(record: Any, level: float) -> list[tuple[str, float, float, float, float, float]]:
    """Return (name, estimate, error, privacy part, ends of the interval) of every estimate."""
    from scipy.special import ndtri

    est = record.estimate
    sampling, privacy = (np.sqrt(np.diag(v)) for v in (est.vcov_sampling, est.vcov_privacy))
    total = np.hypot(sampling, privacy)
    z = -float(ndtri((1.0 - level) / 2.0))
    low, high = est.params - z * total, est.params + z * total
    if est.names[0].startswith("cor("):  # on the scale of atanh
        with np.errstate(all="ignore"):
            middle, width = np.arctanh(est.params), z * total / (1.0 - est.params**2)
            low, high = np.tanh(middle - width), np.tanh(middle + width)
    columns = (est.params, total, privacy, low, high)
    return list(zip(est.names, *(map(float, c) for c in columns), strict=True))


def verdict_body(record: Any, digits: int, level: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return (columns, rows, more tables) of the summary."""
    interval = f"{100 * level:g} % interval"
    columns = (
        Column(left=True, width=8), Column("Estimate"), Column("Std. Error"),
        Column("privacy", "of which"), Column("low", interval), Column("high", interval),
    )  # fmt: skip
    listed = _estimates(record, level)
    rows = (
        Row((name, *(number(v, digits, values[1]) for v in values))) for name, *values in listed
    )
    return columns, tuple(rows), ()


def verdict_tidy(record: Any, conf_int: bool, level: float) -> pd.DataFrame:
    """Return one row per estimate, with the statistic and the p-value of the test."""
    import pandas as pd

    est = record.estimate
    frame = pd.DataFrame(
        _estimates(record, level),
        columns=[
            "term", "estimate", "std_error", "std_error_privacy", "conf_low", "conf_high",
        ],
    )  # fmt: skip
    frame["statistic"] = est.stats["statistic"]
    frame["parameter"] = est.stats["df"]
    frame["p_value"] = est.stats["p_value"]
    return frame if conf_int else frame.drop(columns=["conf_low", "conf_high"])


# -- quantiles ------------------------------------------------------------------------------------


def quantile_body(record: Any, digits: int, level: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return (columns, rows, more tables) of the summary."""
    _same_level(record, level, "quantiles")
    interval = f"{100 * level:g} % interval"
    columns = (
        Column(left=True, width=8), Column("Quantile"), Column("low", interval),
        Column("high", interval),
    )  # fmt: skip
    est = record.estimate
    values = zip(est.params, est.arrays["low"], est.arrays["high"], strict=True)
    rows = tuple(
        Row((name, *(number(float(v), digits, spread_of(*map(float, three[1:]))) for v in three)))
        for name, three in zip(est.names, values, strict=True)
    )
    return columns, rows, ()


def quantile_tidy(record: Any, conf_int: bool, level: float) -> pd.DataFrame:
    """Return one row per quantile: term, quantile, estimate, ends of the interval."""
    import pandas as pd

    est = record.estimate
    frame = pd.DataFrame(
        {"term": list(est.names), "quantile": est.arrays["q"], "estimate": est.params}
    )
    if conf_int:
        _same_level(record, level, "quantiles")
        frame["conf_low"], frame["conf_high"] = est.arrays["low"], est.arrays["high"]
    return frame


# -- Pictures of tables: bars with error bars, dots of group means. Released numbers only.


def _chosen(fit: Any, what: str | None) -> Any:
    """Return the section to draw: the last with bins, means with groups, else the first."""
    sections = {_name(fit, s): (s, items, numbers) for s, items, numbers in parts(fit._record)}
    if what is None:
        rank = {"means": 1, "counts": 2, "quantiles": 3}
        best = min(sections, key=lambda k: (not sections[k][0].axes, rank[sections[k][0].kind]))
        return sections[best]
    if what not in sections:
        raise RequestError(
            f"what={what!r} is not a part of this table.{did_you_mean(what, sections)} "
            f"Parts: {', '.join(map(repr, sections))}"
        )
    return sections[what]


def _one_a_variable(fit: Any) -> list[str]:
    """Return the parts that show every variable once: numbers by groups, then counts of others."""
    layout = layout_from(fit._record)
    sections = sorted((s for s, _, _ in parts(fit._record)), key=lambda s: len(s.axes) or 99)
    out: list[Section] = []
    shown: dict[str, set[str]] = {}
    for section in (s for s in sections if s.kind != "counts"):
        by = {layout.axes[j].name for j in section.axes}
        axes_shown = shown.setdefault(section.variable, set())
        if not by <= axes_shown or not any(s.variable == section.variable for s in out):
            out.append(section)
            axes_shown |= by
    seen = set(shown).union(*shown.values())
    for section in (s for s in sections if s.kind == "counts"):
        names = {layout.axes[j].name for j in section.axes}
        if not names <= seen:
            out.append(section)
            seen |= names
    return [_name(fit, section) for section in out]


def _panels_of(fit: Any, names: list[str], level: float, color: str) -> Any:
    """Draw parts of a table below each other, under one title."""
    import matplotlib.pyplot as plt

    sections = {_name(fit, s): (s, items) for s, items, _ in parts(fit._record)}
    heights = [
        3.0 if sections[name][0].kind == "counts" else 1.0 + 0.28 * len(sections[name][1])
        for name in names
    ]
    figure, axes = plt.subplots(
        len(names), 1, figsize=(6.4, 0.4 + sum(heights)), height_ratios=heights,
        layout="constrained", squeeze=False,
    )  # fmt: skip
    for ax, name in zip(axes[:, 0], names, strict=True):
        plot_table(fit, ax, level=level, what=name, color=color)
        ax.set_title(name, fontsize="small")
    figure.suptitle(one_line(fit), fontsize="small")
    return axes[:, 0]


def _name(fit: Any, section: Section) -> str:
    head = "quantiles of " if section.kind == "quantiles" else ""
    return head + _title(layout_from(fit._record), section)


def plot_table(
    fit: Any, ax: Axes | None = None, *, level: float = 0.95, what: str | None = None,
    color: str = "C0", kind: str = "bars",
) -> Axes:  # fmt: skip
    """Draw a table: means as dots with error bars, counts as bars with error bars.

    Where ``what`` is left out every variable is drawn, in panels below each other if there are
    several; the axes are then returned as an array.

    Parameters
    ----------
    fit : Fit
    ax : matplotlib Axes, optional
    level : float
        That of the fit: the intervals are made with it.
    what : str, optional
        ``"wage by region"``, ``"region"``, ``"region x gender"``. Default: each numeric variable by
        its groups, and counts of variables without an axis; with ``ax`` the first of these.
    color : str
    kind : {"bars", "density", "ecdf"}
        Of a histogram: its bars, the density, or the empirical distribution with its band.

    Privacy
    -------
    Draws released numbers: costs nothing.
    """
    if not fit.released:
        raise NotReleasedError("there was no reply: nothing to draw")
    choice("kind", kind, ("bars", "density", "ecdf"))
    if kind != "bars":
        return _distribution(fit, what, ax, level, color, kind)
    several = _one_a_variable(fit) if what is None and ax is None else []
    if len(several) > 1:
        return _panels_of(fit, several, level, color)
    section, items, numbers = _chosen(fit, what)
    if section.kind == "means":
        keep = [i for i, item in enumerate(items) if item.statistic == "mean"]
    elif section.kind == "counts":
        keep = [i for i, item in enumerate(items) if "(missing)" not in dict(item.cell).values()]
    else:
        keep = list(range(len(items)))
    labels = [_cell(items[i]) for i in keep]
    values = numbers["estimate"][keep]
    low, high = numbers["low"][keep], numbers["high"][keep]
    bars = np.nan_to_num(np.abs(np.stack([values - low, high - values])))
    ax = new_axes(ax, (6.0, 1.0 + 0.28 * len(keep) if section.kind != "counts" else 3.4))
    text = f"{100 * level:g} % interval"
    if section.kind == "counts":
        at = np.arange(len(keep))
        ax.bar(at, values, color=color, alpha=0.5, width=0.95 if "bin" in str(labels) else 0.8)
        ax.errorbar(at, values, yerr=bars, fmt="none", ecolor="0.2", elinewidth=1.2, label=text)
        long = max(map(len, labels)) > 6
        ax.set_xticks(at, labels, rotation=60 if long else 0, ha="right" if long else "center")
        ax.set_ylabel("count")
        ax.axhline(0.0, color="0.6", linewidth=0.8)
    else:
        at = np.arange(len(keep))[::-1]
        ax.errorbar(values, at, xerr=bars, fmt="o", color=color, elinewidth=1.2, label=text)
        ax.set_yticks(at, labels)
        ax.set_ylim(-0.5, len(keep) - 0.5)
        ax.set_xlabel(f"{section.kind[:-1]} of {section.variable}")
    return _with_title(fit, ax)


def _distribution(fit: Any, what: str | None, ax: Any, level: float, color: str, kind: str) -> Axes:
    """Draw the density, or the distribution function, of a variable that was counted in bins."""
    from scipy.special import ndtri

    layout = layout_from(fit._record)
    histograms = {
        layout.axes[s.axes[0]].name: (layout.axes[s.axes[0]], numbers)
        for s, _, numbers in parts(fit._record)
        if s.kind == "counts" and len(s.axes) == 1 and layout.axes[s.axes[0]].kind == "bin"
    }
    if not histograms or fit.nobs is None or (what is not None and what not in histograms):
        hint = f" Histograms: {', '.join(map(repr, histograms))}" if histograms else ""
        raise RequestError(
            f"kind={kind!r} draws a histogram of one number, dp_table('~ wage', ..., "
            f"histogram=40).plot(kind={kind!r}, what='wage').{hint}"
        )
    axis, numbers = histograms[what] if what is not None else next(iter(histograms.values()))
    column = next(c for c in fit.design.columns if c.name == axis.name)
    bins = axis.size - 1
    edges = np.linspace(column.interval[0], column.interval[1], bins + 1)
    z = -float(ndtri((1.0 - level) / 2.0))
    ax = new_axes(ax, (6.0, 3.4))
    if kind == "density":
        width = edges[1] - edges[0]
        middle = (edges[:-1] + edges[1:]) / 2.0
        shares = (numbers[k][:bins] / width for k in ("share", "share_low", "share_high"))
        values, low, high = shares
        ax.plot(middle, np.maximum(values, 0.0), color=color, drawstyle="steps-mid")
        ax.fill_between(
            middle, np.maximum(low, 0.0), np.maximum(high, 0.0), step="mid", alpha=0.25,
            color=color, linewidth=0, label=f"{100 * level:g} % interval",
        )  # fmt: skip
        ax.set_ylabel("density")
    else:
        n = float(fit.nobs)
        k = np.arange(bins + 1)
        S = np.clip(np.append(0.0, np.cumsum(numbers["estimate"][:bins]) / n), 0.0, 1.0)
        # cells of alike noise add up to n: k of K of them have k (K - k) / K of its variance
        tau = float(np.nanmax(numbers["se_privacy"])) / n
        spread = np.sqrt(S * (1.0 - S) / n + tau**2 * k * (axis.size - k) / axis.size)
        S = np.maximum.accumulate(S)
        ax.plot(edges, S, color=color)
        ax.fill_between(
            edges, np.clip(S - z * spread, 0, 1), np.clip(S + z * spread, 0, 1), alpha=0.25,
            color=color, linewidth=0, label=f"{100 * level:g} % interval at each point",
        )  # fmt: skip
        ax.set_ylabel("share of rows at most")
    ax.set_xlabel(column.name)
    return _with_title(fit, ax)


def _with_title(fit: Any, ax: Axes) -> Axes:
    ax.set_title(one_line(fit), fontsize="small")
    ax.legend(fontsize="small", frameon=False)
    return ax


def plot_quantiles(
    fit: Any, ax: Axes | None = None, *, level: float = 0.95, color: str = "C0"
) -> Axes:
    """Draw quantiles against their probabilities, with intervals where there are any."""
    if not fit.released:
        raise NotReleasedError("there was no reply: nothing to draw")
    est = fit._record.estimate
    ax = new_axes(ax, (6.0, 3.4))
    q, values = est.arrays["q"], est.params
    ends = np.stack([values - est.arrays["low"], est.arrays["high"] - values])
    bars = np.nan_to_num(np.abs(ends))
    ax.errorbar(q, values, yerr=bars, fmt="o", color=color, label=f"{100 * level:g} % interval")
    ax.set_xlabel("probability")
    ax.set_ylabel("quantile")
    return _with_title(fit, ax)
