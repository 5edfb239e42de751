"""Summaries, tidy frames and crosstabs of tables, tests and quantiles, from released numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, did_you_mean
from dpmodels.lazy import pd, special
from dpmodels.models.table.layout import Item, Layout, Section, layout_of
from dpmodels.models.table.table import medians_of
from dpmodels.models.table.table_one import is_table_one, requested, table_one
from dpmodels.tables.content import Column
from dpmodels.tables.numbers import spread_of, to_error
from dpmodels.tables.table import Table, grid, interval_heads


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
        stored = record.estimate.arrays.items()
        numbers = {k: values[here] for k, values in stored if not k.startswith("released_")}
        out.append((section, items, numbers))
    return out


def body(record: Any, digits: int, level: float, **requests: Any) -> Table:
    """Return the body of the summary: a table 1 of several variables, or a table per section."""
    _same_level(record, level)
    layout, sections = layout_from(record), parts(record)
    columns = requested(record, requests)
    if not is_table_one(record, requests):
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


def title_of(layout: Layout, section: Section) -> str:
    """Return the title of a part of a table: ``wage by region``."""
    by = " x ".join(layout.axes[j].name for j in section.axes)
    return " by ".join(filter(None, (section.variable, by)))


def cell_of(item: Item) -> str:
    """Return the levels of a cell as text."""
    return ", ".join(label for _, label in item.cell) or "all"


def _list_of_cells(
    layout: Layout, section: Section, items: list[Item], numbers: dict[str, Array], level: float
) -> Table:
    """Return a one-way table (or a long one of many ways): count, noise, interval, share."""
    columns = (
        title_of(layout, section), "Count", "noise sd", *interval_heads(level),
        "Share", *interval_heads(level, " "),
    )  # fmt: skip
    rows = []
    for i, item in enumerate(items):
        noise, sure = float(numbers["se_privacy"][i]), 100.0 * float(numbers["share_se"][i])
        counts = (float(numbers[k][i]) for k in ("estimate", "se_privacy", "low", "high"))
        shares = (100.0 * float(numbers[k][i]) for k in ("share", "share_low", "share_high"))
        percents = ("." if v != v else f"{to_error(v, 1, sure)} %" for v in shares)
        rows.append((cell_of(item), *(to_error(v, 1, noise) for v in counts), *percents))
    return grid(columns, rows)


def _crossed(layout: Layout, section: Section, numbers: dict[str, Array]) -> Table:
    """Return a crosstab of counts with its margins."""
    rows_axis, columns_axis = (layout.axes[j] for j in section.axes)
    matrix = numbers["estimate"].reshape(rows_axis.size, columns_axis.size)
    columns = (f"{rows_axis.name} \\ {columns_axis.name}", *columns_axis.labels, "Total")
    noise = float(np.nanmax(numbers["se_privacy"])) if numbers["se_privacy"].size else 0.0
    numbers_of = {**dict(zip(rows_axis.labels, matrix, strict=True)), "Total": matrix.sum(axis=0)}
    rows = [
        (label, *(to_error(float(v), 1, noise) for v in (*row, row.sum())))
        for label, row in numbers_of.items()
    ]
    rows.append(("noise sd of a cell", f"{noise:.3g}", *("",) * (len(columns) - 2)))
    return grid(columns, rows)


def _groups(
    layout: Layout, section: Section, items: list[Item], numbers: dict[str, Array], digits: int,
    level: float,
) -> Table:  # fmt: skip
    """Return means by group: n, mean, error, interval, sd."""
    columns = (
        title_of(layout, section), "n", "mean", "Std. Error", Column("privacy", "of which"),
        *interval_heads(level), "sd of people" if "test_effect" in numbers else "sd",
    )
    estimate, sampling, privacy, low, high = (
        numbers[k].reshape(-1, 3) for k in ("estimate", "se_sampling", "se_privacy", "low", "high")
    )
    total = np.hypot(sampling, privacy)
    rows = [
        (
            cell_of(item), to_error(float(estimate[g, 0]), 1),
            *(to_error(float(v[g, 1]), digits, float(total[g, 1]))
              for v in (estimate, total, privacy, low, high)),
            to_error(float(estimate[g, 2]), digits, float(total[g, 2])),
        )
        for g, item in enumerate(items[::3])
    ]  # fmt: skip
    return grid(columns, rows)


def _points(
    layout: Layout, section: Section, items: list[Item], numbers: dict[str, Array], digits: int
) -> Table:
    """Return quantiles by group."""
    per = len(layout.quantiles)
    columns = (
        title_of(layout, section),
        *(Column(f"{100 * q:g} %", "quantile") for q in layout.quantiles),
    )
    values = numbers["estimate"].reshape(-1, per)
    errors = spread_of(numbers["low"], numbers["high"]).reshape(-1, per)
    rows = [
        (
            cell_of(items[g * per]),
            *(to_error(float(v), digits, float(e)) for v, e in zip(row, errors[g], strict=True)),
        )
        for g, row in enumerate(values)
    ]
    return grid(columns, rows)


#: Columns of :func:`tidy` that are numbers of a table as they are.
_TIDY = {
    "std_error_sampling": "se_sampling", "std_error_privacy": "se_privacy",
    "conf_low": "low", "conf_high": "high", "share": "share", "share_std_error": "share_se",
    "share_conf_low": "share_low", "share_conf_high": "share_high",
}  # fmt: skip


def tidy(record: Any, conf_int: bool, level: float) -> pd.DataFrame:
    """Return one row per statistic: term, statistic, its group, estimate, errors, share."""
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
                "level": cell_of(item),
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
    est = record.estimate
    sampling, privacy = (np.sqrt(np.diag(v)) for v in (est.vcov_sampling, est.vcov_privacy))
    total = np.hypot(sampling, privacy)
    z = -float(special.ndtri((1.0 - level) / 2.0))
    low, high = est.params - z * total, est.params + z * total
    if est.names[0].startswith("cor("):  # on the scale of atanh
        with np.errstate(all="ignore"):
            middle, width = np.arctanh(est.params), z * total / (1.0 - est.params**2)
            low, high = np.tanh(middle - width), np.tanh(middle + width)
    columns = (est.params, total, privacy, low, high)
    return list(zip(est.names, *(map(float, c) for c in columns), strict=True))


def verdict_body(record: Any, digits: int, level: float) -> Table:
    """Return the body of the summary: estimates with their errors and intervals."""
    columns = (
        Column(left=True, width=8), "Estimate", "Std. Error", Column("privacy", "of which"),
        *interval_heads(level),
    )  # fmt: skip
    return grid(columns, (
        (name, *(to_error(v, digits, values[1]) for v in values))
        for name, *values in _estimates(record, level)
    ))  # fmt: skip


def verdict_tidy(record: Any, conf_int: bool, level: float) -> pd.DataFrame:
    """Return one row per estimate, with the statistic and the p-value of the test."""
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


def quantile_body(record: Any, digits: int, level: float) -> Table:
    """Return the body of the summary: quantiles with their intervals."""
    _same_level(record, level, "quantiles")
    est = record.estimate
    values = zip(est.params, est.arrays["low"], est.arrays["high"], strict=True)
    rows = (
        (name, *(to_error(float(v), digits, spread_of(*map(float, three[1:]))) for v in three))
        for name, three in zip(est.names, values, strict=True)
    )
    return grid((Column(left=True, width=8), "Quantile", *interval_heads(level)), rows)


def quantile_tidy(record: Any, conf_int: bool, level: float) -> pd.DataFrame:
    """Return one row per quantile: term, quantile, estimate, ends of the interval."""
    est = record.estimate
    frame = pd.DataFrame(
        {"term": list(est.names), "quantile": est.arrays["q"], "estimate": est.params}
    )
    if conf_int:
        _same_level(record, level, "quantiles")
        frame["conf_low"], frame["conf_high"] = est.arrays["low"], est.arrays["high"]
    return frame
