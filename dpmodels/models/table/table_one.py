"""Table 1: variables in rows, groups and their total in columns. Post-processing of a table.

Counts are made consistent: none is negative, levels add up to their variable and groups to the
total, also after rounding (``theory.md``, 1.7).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.formula.schema import label_of
from dpmodels.lazy import special
from dpmodels.models.table.layout import (
    Layout,
    Section,
    largest_groups,
    program_of,
    variables_of,
)
from dpmodels.models.table.nulls import clear_cells, independence
from dpmodels.tables.content import Column, Row
from dpmodels.tables.numbers import fixed, places, space_thousands
from dpmodels.tables.table import Table
from dpmodels.units import column_of

#: Optional columns next to the table itself: arguments of ``summary`` and of the call.
REQUESTS = ("errors", "smd", "p_values")
#: A count of missing cells is shown where it is clear of its noise at this level, all columns of
#: its row together.
_MISSING_LEVEL = 0.005
#: Most significant digits of a standard deviation.
_SD_DIGITS = 3
#: Noise sds that a standard deviation must exceed: its variance is then above four of its own. Of a
#: group the variance of all rows must be above four noise sds of the group's.
_CLEAR_SD = 8.0
_NOT_KNOWN = "."


# -- Consistent counts.


def on_simplex(values: Array, total: float) -> Array:
    """Return the nearest numbers that are not negative and add up to a total (least squares)."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered - excess > 0.0)[-1]) if total > 0.0 else 0
    return np.asarray(np.maximum(values - excess[last], 0.0))


def consistent(values: Array, total: float) -> Array:
    """Return counts of one column (k,) that add up to its total; a suppressed one stays NaN."""
    finite = np.isfinite(values)
    if not math.isfinite(total):
        return np.where(finite, np.maximum(values, 0.0), np.nan)
    if finite.all():
        return on_simplex(values, max(total, 0.0))
    out = np.maximum(values, 0.0)
    if float(out[finite].sum()) > total:
        out[finite] = on_simplex(values[finite], max(total, 0.0))
    return out


def rounded(values: Array) -> Array:
    """Return whole numbers with the rounded sum of some numbers: largest remainders go up."""
    finite = np.isfinite(values)
    floors = np.floor(np.where(finite, values, 0.0) + 1e-9)
    fraction = np.where(finite, values, 0.0) - floors
    missing = round(float(np.where(finite, values, 0.0).sum())) - int(floors.sum())
    floors[np.argsort(-fraction, kind="stable")[: max(missing, 0)]] += 1.0
    return np.where(finite, floors, np.nan)


# -- What a table released, by variable and column.


@dataclass(frozen=True)
class Columns:
    """Groups of a table, the last column being their total."""

    group: tuple[int, ...]  # Axes of the groups; empty for the total alone
    labels: tuple[str, ...]
    count: Array  # (c,) consistent counts, whole numbers
    noise: Array  # (c,) noise sds of the counts
    lost: float  # Released count of rows without a known group, 0 if it is not above its noise

    @property
    def groups(self) -> int:
        """Number of groups besides the total."""
        return len(self.labels) - 1


@dataclass(frozen=True)
class Released:
    """Numbers of a table by section, with the description of the table."""

    layout: Layout
    numbers: Mapping[tuple[str, tuple[int, ...], int], Mapping[str, Array]]
    axes: tuple[int, ...]  # Axes of the groups
    weighted: bool  # By weights, or by the design of a survey

    def of(self, kind: str, axes: tuple[int, ...], number: int = -1) -> Mapping[str, Array]:
        """Return the numbers of a section; empty where it was not released."""
        return self.numbers.get((kind, tuple(sorted(axes)), number), {})

    def cells(self, axis: int, key: str) -> Array:
        """Return counts (or their noise) of a variable: (columns, levels and the missing one)."""
        axes = tuple(sorted((*self.axes, axis)))
        shape = [self.layout.axes[j].size for j in axes]
        counts = np.moveaxis(self.of("counts", axes)[key].reshape(shape), axes.index(axis), -1)
        inner = tuple(slice(0, -1) for _ in self.axes)
        return np.asarray(counts[inner].reshape(-1, shape[axes.index(axis)]))

    def group_means(self, number: int, total: bool) -> Mapping[str, Array]:
        """Return numbers (groups, 3) of n, mean and sd in every group, or of all rows."""
        numbers = self.of("means", () if total else self.axes, number)
        return {k: v.reshape(-1, 3) for k, v in numbers.items()}


def is_table_one(record: Any, arguments: Mapping[str, Any]) -> bool:
    """Return whether a table prints as a Table 1: several single variables by one grouping."""
    program = program_of(record.design)
    terms = variables_of(program)
    single = all(len(term) == 1 for term in terms) and len(largest_groups(program)) <= 1
    typed = any(_typed(record, arguments).values()) or bool(record.call.options.get("medians"))
    return single and len(terms) >= (1 if typed else 2)


def _typed(record: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed value of each optional column, or None; that of the print counts first."""
    options = record.call.options
    return {
        name: options.get(name) if arguments.get(name) is None else arguments[name]
        for name in REQUESTS
    }


def requested(record: Any, arguments: Mapping[str, Any]) -> dict[str, bool]:
    """Return the columns next to the numbers; noise is part of a number unless errors=False."""
    typed = _typed(record, arguments)
    return {name: bool(name == "errors" if v is None else v) for name, v in typed.items()}


def released_of(
    record: Any, layout: Layout, sections: Sequence[tuple[Section, Any, Mapping[str, Array]]]
) -> Released:
    """Return the numbers of a record by section."""
    numbers = {(s.kind, tuple(sorted(s.axes)), s.number): values for s, _, values in sections}
    groups = largest_groups(program_of(record.design))
    weighted = record.design.weights is not None or record.call.survey is not None
    return Released(layout, numbers, groups[0] if groups else (), weighted)


def _whole_table(released: Released, terms: Sequence[tuple[int, ...]]) -> float:
    """Return the number of rows (people, or the sum of weights) of the table."""
    for (axis,) in terms:
        if released.layout.axes[axis].kind == "level":
            return float(np.nansum(released.of("counts", (axis,))["estimate"]))
        means = released.group_means(axis, total=True)
        if "missing" in means:
            return float(means["estimate"][0, 0] + means["missing"][0, 0])
    return float(released.group_means(terms[0][0], total=True)["estimate"][0, 0])


def columns_of(released: Released, terms: Sequence[tuple[int, ...]]) -> Columns:
    """Return the columns: groups with consistent counts, and their total."""
    if not released.axes:
        total = _whole_table(released, terms)
        return Columns((), ("all",), np.array([float(round(total))]), np.zeros(1), 0.0)
    axes = [released.layout.axes[j] for j in released.axes]
    counts = released.of("counts", released.axes)
    cells = list(itertools.product(*(range(a.size) for a in axes)))
    is_level = np.array([all(c < a.size - 1 for c, a in zip(cell, axes, strict=True))
                      for cell in cells])  # fmt: skip
    count, noise = counts["estimate"], counts["se_privacy"]
    total, missing = float(np.nansum(count)), float(np.nansum(count[~is_level]))
    clear = missing > _threshold(1) * float(np.sqrt(np.nansum(noise[~is_level] ** 2)))
    lost = missing if clear else 0.0
    values = count[is_level]
    if lost:
        values = consistent(np.append(values, missing), total)
        values, lost = values[:-1], float(values[-1])
    else:
        values = consistent(values, total)
    groups = rounded(values)
    labels = tuple(
        ", ".join(a.labels[c] for c, a in zip(cell, axes, strict=True))
        for cell, shown in zip(cells, is_level, strict=True)
        if shown
    )
    everything = 0.0 if not lost else float(np.sqrt(np.nansum(noise[~is_level] ** 2)))
    return Columns(
        released.axes, (*labels, "all"), np.append(groups, np.nansum(groups)),
        np.append(noise[is_level], everything), lost,
    )  # fmt: skip


def _threshold(cells: int) -> float:
    """Return the noise sds that a count of missing cells must exceed in one of several cells."""
    return -float(special.ndtri(_MISSING_LEVEL / cells))


# -- Rows of a variable.


@dataclass(frozen=True)
class Level:
    """Counts of one level by column, and their shares of the rows with a known value."""

    count: Array
    noise: Array
    share: Array
    share_noise: Array


@dataclass(frozen=True)
class Variable:
    """Numbers of one variable in the table. Arrays are by column, (c,) or (c, levels)."""

    label: str
    missing: Level | None
    levels: tuple[tuple[str, Level], ...] = ()
    # (mean, sd) or (median, lower and upper quartile) of a numeric variable, with their noise sds.
    values: tuple[Array, ...] = ()
    errors: tuple[Array, ...] = ()
    medians: bool = False
    smd: tuple[float, float] = (math.nan, math.nan)  # With its noise sd
    p: float = math.nan


def _missing_shown(columns: Columns, count: Array, noise: Array) -> bool:
    """Return whether missing cells are above their noise in any column. By group, (g,)."""
    if columns.groups > 1:
        count = np.append(count, np.nansum(count))
        noise = np.append(noise, math.sqrt(float(np.nansum(noise**2))))
    with np.errstate(invalid="ignore"):
        return bool((count > _threshold(len(count)) * noise).any())


def _by_column(columns: Columns, values: Array) -> Array:
    """Return values by group (g, ...), with their sum as a last one if there are groups."""
    total = [np.nansum(values, axis=0, keepdims=True)] if columns.group else []
    return np.concatenate([values, *total])


def _level(columns: Columns, count: Array, noise: Array, of: Array, spread: Array) -> Level:
    """Return a level: ``of`` (c,) are the rows it is a share of, ``spread`` their noise sds."""
    squares = _by_column(columns, noise**2)
    with np.errstate(all="ignore"):
        share = np.where(of > 0.0, count / of, np.nan)
        error = np.sqrt(squares * np.abs(1.0 - 2.0 * share) + (share * spread) ** 2) / of
    return Level(count, np.sqrt(squares), share, error)


def levels_of(released: Released, columns: Columns, axis: int, label: str) -> Variable:
    """Return the counts of a variable with levels."""
    raw, noise = released.cells(axis, "estimate"), released.cells(axis, "se_privacy")
    groups = columns.count[:-1] if columns.group else columns.count
    shown = _missing_shown(columns, raw[:, -1], noise[:, -1])
    keep = raw.shape[1] if shown else raw.shape[1] - 1
    counts = np.stack([rounded(consistent(row[:keep], float(N)))
                    for row, N in zip(raw, groups, strict=True)])  # fmt: skip
    by_column = _by_column(columns, counts)
    names = released.layout.axes[axis].labels
    known_rows = by_column[:, : len(names) - 1].sum(axis=1)
    spread = np.sqrt(_by_column(columns, (noise[:, :-1] ** 2).sum(axis=1)))
    levels = tuple(
        (name, _level(columns, by_column[:, k], noise[:, k], known_rows, spread))
        for k, name in enumerate(names[:-1])
    )
    missing = None
    if shown:
        missing = _level(columns, by_column[:, -1], noise[:, -1], columns.count, columns.noise)
    return Variable(label, missing, levels)


def number_of(
    released: Released, columns: Columns, axis: int, label: str, medians: Sequence[float] | None,
    interval: tuple[float, float] | None = None,
) -> Variable:  # fmt: skip
    """Return the means (or medians) of a numeric variable by column."""
    number = released.layout.axes[axis].column
    means = released.group_means(number, total=not columns.group)
    missing = None
    if "missing" in means:
        count, noise = means["missing"][:, 0], means["missing_se"][:, 0]
        if _missing_shown(columns, count, noise):
            sizes = columns.count[:-1] if columns.group else columns.count
            clipped = np.array(
                [float(np.clip(m, 0.0, N)) for m, N in zip(count, sizes, strict=True)]
            )
            rounded_counts = _by_column(
                columns, np.where(np.isnan(clipped), np.nan, np.rint(clipped))
            )
            missing = _level(columns, rounded_counts, noise, columns.count, columns.noise)
    if medians is not None:
        values, errors = _quartiles(released, columns, number, medians)
    else:
        values, errors = _moments(released, columns, number)
    if medians is not None:
        values = tuple(_clear(v, e, interval) for v, e in zip(values, errors, strict=True))
    else:  # by the SD of all: of SDs that noise decides the largest would be shown
        sd = np.where(values[1][-1] ** 2 > _CLEAR_SD * values[1] * errors[1], values[1], np.nan)
        values = _clear(values[0], errors[0], interval), sd
    return Variable(label, missing, values=values, errors=errors, medians=medians is not None)


def _clear(values: Array, errors: Array, interval: tuple[float, float] | None) -> Array:
    """Return means or quantiles, NaN where the noise reaches an end of the declared range.

    Such a value is not above its noise, or was clipped at the end.
    """
    low, high = interval or (-math.inf, math.inf)
    with np.errstate(invalid="ignore"):
        clear = (values - low > errors) & (high - values > errors)
    return np.asarray(np.where(clear | (errors == 0.0), values, np.nan))


def _quartiles(
    released: Released, columns: Columns, number: int, quantiles: Sequence[float]
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return (median, lower, upper quartile) by column, and their noise sds."""
    sections = [released.of("quantiles", columns.group, number)]
    sections += [released.of("quantiles", (), number)] if columns.group else []
    order = [list(quantiles).index(q) for q in (0.5, 0.25, 0.75)]
    values, errors = (
        np.concatenate([s[key].reshape(-1, len(quantiles)) for s in sections])[:, order].T
        for key in ("estimate", "se_privacy")
    )
    return tuple(values), tuple(errors)


def _moments(
    released: Released, columns: Columns, number: int
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return (means, sds) by column and their noise sds.

    Those of the total are computed from the groups, so that they are between them. If a group has
    none, they are those released for all rows.
    """
    total = released.group_means(number, total=True)
    m, s = total["estimate"][:, 1], total["estimate"][:, 2]
    em, es = total["se_privacy"][:, 1], total["se_privacy"][:, 2]
    if not columns.group:
        return (m, s), (em, es)
    by_group = released.group_means(number, total=False)
    count = np.maximum(by_group["estimate"][:, 0], 0.0)
    means, sds = by_group["estimate"][:, 1], by_group["estimate"][:, 2]
    errors, errors_sd = by_group["se_privacy"][:, 1], by_group["se_privacy"][:, 2]
    w = count / max(float(np.nansum(count)), 1e-300)
    if np.isfinite(means).all():
        m = np.array([float(w @ means)])
        em = np.array([float(np.sqrt(np.sum((w * errors) ** 2)))])
        if np.isfinite(sds).all():
            v = float(w @ (sds**2 + (means - m) ** 2))
            s = np.array([math.sqrt(v)])
            slope = 2.0 * w * sds * errors_sd
            es = np.array([float(np.sqrt(np.sum(slope**2)) / (2.0 * math.sqrt(max(v, 1e-300))))])
    return (
        (np.append(means, m), np.append(sds, s)), (np.append(errors, em), np.append(errors_sd, es))
    )  # fmt: skip


# -- Differences of groups: standardised, and tests of their being none.


def smd_of(variable: Variable, groups: int) -> tuple[float, float]:
    """Return the largest standardised difference of two groups, with its noise sd.

    For a numeric variable it is the difference of means over the root of the mean variance. For
    levels it is the distance of shares in their mean covariance (Yang and Dalton 2012). NaN if it
    is not known.
    """
    pairs = itertools.combinations(range(groups), 2)
    distances = [_distance(variable, a, b) for a, b in pairs]
    finite = [pair for pair in distances if math.isfinite(pair[0])]
    return max(finite, default=(math.nan, math.nan))


def _distance(variable: Variable, a: int, b: int) -> tuple[float, float]:
    """Return the standardised difference of two groups in a variable, and its noise."""
    if variable.levels:
        p, q = (np.array([level.share[g] for _, level in variable.levels[1:]]) for g in (a, b))
        noise = np.array([np.hypot(level.share_noise[a], level.share_noise[b])
                          for _, level in variable.levels[1:]])  # fmt: skip
        S = (np.diag(p) - np.outer(p, p) + np.diag(q) - np.outer(q, q)) / 2.0
        if not np.isfinite(S).all() or not S.size:
            return math.nan, math.nan
        inverse = np.linalg.pinv(S)
        longest = float(np.max(np.linalg.eigvalsh(inverse)))
        size = math.sqrt(max(float((p - q) @ inverse @ (p - q)), 0.0))
        return size, float(np.max(noise)) * math.sqrt(max(longest, 0.0))
    if variable.medians:
        return math.nan, math.nan
    means, sds = variable.values
    spread = math.sqrt((float(sds[a]) ** 2 + float(sds[b]) ** 2) / 2.0)
    if not spread > 0.0:
        return math.nan, math.nan
    errors = variable.errors[0]
    return (
        abs(float(means[a] - means[b])) / spread, math.hypot(errors[a], errors[b]) / spread
    )  # fmt: skip


def p_of_means(released: Released, axis: int) -> float:
    """Return P of equal means in all groups: a Wald test with sampling error and noise."""
    means = released.group_means(released.layout.axes[axis].column, total=False)
    m = means["estimate"][:, 1]
    together = means["test_effect"][0, 0] if "test_effect" in means else 1.0
    variance = together * means["se_sampling"][:, 1] ** 2 + means["se_privacy"][:, 1] ** 2
    if not (np.isfinite(m).all() and (variance > 0.0).all()) or len(m) < 2:
        return math.nan
    w = 1.0 / variance
    statistic = float(w @ (m - float(w @ m) / float(w.sum())) ** 2)
    return float(special.chdtrc(len(m) - 1, statistic))


def p_of_levels(released: Released, axis: int) -> float:
    """Return P of equal shares in all groups, with the noise of counts: the test of ``dp_test``.

    The noise of consistent counts is that of white noise, or less (``theory.md``, 4.5).
    """
    raw, noise = released.cells(axis, "estimate")[:, :-1], released.cells(axis, "se_privacy")
    if not np.isfinite(raw).all() or len(raw) < 2:
        return math.nan
    cells = (raw.shape[0] + 1) * (raw.shape[1] + 1)
    v = float(np.nanmax(noise)) ** 2 * cells / (cells - 1.0)
    raw = raw[np.ix_(*clear_cells(raw, v * np.eye(raw.size)))]
    if not all((raw.sum(axis=a) > 0.0).all() for a in (0, 1)):
        return math.nan
    counts = released.of("counts", tuple(sorted((*released.axes, axis))))
    copies = float(counts["test_effect"][0]) if "test_effect" in counts else 1.0
    return independence(raw, float(raw.sum()), v * np.eye(raw.size), copies).p_value


# -- The printed table.


def p_text(p: float) -> str:
    """Return P with three decimals."""
    if p != p:
        return _NOT_KNOWN
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _pm(text: str, error: str, errors: bool) -> str:
    return f"{text}±{error}" if errors and text != _NOT_KNOWN and error else text


def _error(noise: float, decimals: int) -> str:
    return fixed(noise, decimals) if math.isfinite(noise) else _NOT_KNOWN


def _count(level: Level, k: int, errors: bool) -> str:
    """Return ``512 (50.2 %)``."""
    if level.count[k] != level.count[k]:
        return _NOT_KNOWN
    count = _pm(space_thousands(float(level.count[k])), _error(float(level.noise[k]), 0), errors)
    if level.share[k] != level.share[k]:
        return count
    share = _pm(f"{100.0 * float(level.share[k]):.1f}",
                _error(100.0 * float(level.share_noise[k]), 1), errors)  # fmt: skip
    return f"{count} ({share} %)"


def _decimals(variable: Variable) -> int:
    """Return the decimals of a row: two digits of its least error, three of its sd at most."""
    if variable.medians and all(np.all(v[np.isfinite(v)] % 1.0 == 0.0) for v in variable.values):
        return 0  # counts
    errors = variable.errors[0]
    finite = [float(e) for e in errors if math.isfinite(e) and e > 0.0]
    (few,) = places([min(finite)], 4) if finite else [None]
    spread = variable.values[1] if not variable.medians else (
        variable.values[2] - variable.values[1]
    )  # fmt: skip
    size = max((float(s) for s in spread if math.isfinite(s) and s > 0.0), default=0.0)
    most = _SD_DIGITS - 1 - math.floor(math.log10(size)) if size else 4
    return max(0, min(most if few is None else few, most))


def _value(variable: Variable, k: int, decimals: int, errors: bool) -> str:
    """Return ``54.1 (12.0)``, or ``26.1 [24.0, 28.7]``."""
    parts = [
        _NOT_KNOWN if not math.isfinite(v[k])
        else _pm(fixed(float(v[k]), decimals), _error(float(e[k]), decimals), errors)
        for v, e in zip(variable.values, variable.errors, strict=True)
    ]  # fmt: skip
    if variable.medians:
        return f"{parts[0]} [{parts[1]}, {parts[2]}]"
    return f"{parts[0]} ({parts[1]})"


@dataclass(frozen=True)
class Printed:
    """Print options of rows of variables: with errors, differences and P, or without."""

    columns: Columns
    errors: bool
    smd: bool
    p_values: bool

    def rows(self, variable: Variable) -> Iterator[Row]:
        """Yield the rows of a variable."""
        c = range(len(self.columns.labels))
        ends = self._ends(variable)
        blank = [""] * len(ends)
        if variable.levels:
            names = [name for name, _ in variable.levels]
            levels = variable.levels
            if names == ["0", "1"]:
                levels = levels[1:]
            short = len(names) < 3
            if not short:
                yield Row((variable.label, *[""] * len(c), *ends))
            for place, (name, level) in enumerate(levels):
                head = f"{variable.label}: {name}" if short else f"  {name}"
                if names == ["0", "1"]:
                    head = variable.label
                texts = (_count(level, k, self.errors) for k in c)
                yield Row((head, *texts, *(ends if short and not place else blank)))
        else:
            few = _decimals(variable)
            yield Row((variable.label, *(_value(variable, k, few, self.errors) for k in c), *ends))
        if variable.missing is not None:
            texts = (_count(variable.missing, k, self.errors) for k in c)
            yield Row(("  (missing)", *texts, *blank))

    def _ends(self, variable: Variable) -> list[str]:
        """Return the last cells of a line: standardised difference and P, if requested."""
        out = []
        if self.smd:
            size, noise = variable.smd
            text = _NOT_KNOWN if size != size else f"{size:.3f}"
            out.append(_pm(text, _error(noise, 3), self.errors))
        if self.p_values:
            out.append(p_text(variable.p))
        return out

    def heads(self, title: str, counted: str) -> tuple[Column, ...]:
        """Return the columns with their counts."""
        columns = self.columns
        out = [Column(left=True)]
        for k, label in enumerate(columns.labels):
            noise = float(columns.noise[k])
            count = float(columns.count[k])
            text = space_thousands(count) if count == count else _NOT_KNOWN
            text = _pm(text, _error(noise, 0) if noise else "", self.errors)
            group = title if k < columns.groups else ""
            out.append(Column(f"{label}\n({counted} = {text})", group))
        out += [Column("SMD")] if self.smd else []
        return (*out, Column("P")) if self.p_values else tuple(out)


def footnote(
    record: Any,
    released: Released,
    columns: Columns,
    variables: Sequence[Variable],
    printed: Printed,
) -> str:
    """Return the one footnote: a description of the numbers, and the size of their noise."""
    people = column_of(record.guarantee.unit) is not None
    counted = "people" if people else "rows"
    parts = {
        "Weighted.": released.weighted,
        "Each person counts once.": people,
        f"About {space_thousands(round(columns.lost))} {counted} have no known group: not shown.": (
            columns.lost > 0.0
        ),
        "SMD: largest standardised difference of two groups.": printed.smd,
        "P: equal in all groups (noise allowed for).": printed.p_values,
        "Medians have no P.": printed.p_values and any(v.medians for v in variables),
    }
    least = record.call.options.get("suppress")
    blank = any(not np.isfinite(part).all() for v in variables for part in v.values)
    parts["A point: not above its noise."] = blank and least is None
    if least is not None:
        parts[f"A point: not above its noise, or from a released count below {least:g}."] = True
    size = _noise_of_counts(columns, variables)
    shows = "± is its sd" if printed.errors else "errors=True shows its sd"
    noise = (
        f"Noise for privacy is in every number (sd of a count: {size}; {shows}); counts are made "
        "consistent: none is negative, and they add up."
    )
    return " ".join(
        [_contents(variables, people), noise, *(text for text, applies in parts.items() if applies)]
    )


def _contents(variables: Sequence[Variable], people: bool) -> str:
    """Return a description of the numbers in the cells."""
    sd = "SD of people" if people else "SD"
    levels = any(v.levels for v in variables)
    words = [
        *([f"mean ({sd})"] if any(not v.levels and not v.medians for v in variables) else []),
        *(["median [quartiles]"] if any(v.medians for v in variables) else []),
        *(["n (%) of known values"] if levels else []),
    ]
    text = ", ".join(words)
    return (text if text.startswith("n (") else text[0].upper() + text[1:]) + "."


def _noise_of_counts(columns: Columns, variables: Sequence[Variable]) -> str:
    """Return the largest noise sd of a printed count in the first column."""
    noise = [float(level.noise[0]) for v in variables for _, level in v.levels]
    noise += [float(v.missing.noise[0]) for v in variables if v.missing is not None]
    finite = [e for e in noise if math.isfinite(e)]
    size = max(finite, default=float(columns.noise[0]))
    return space_thousands(round(size)) if size >= 10.0 else f"{size:.2g}"


def table_one(
    record: Any, layout: Layout, sections: Sequence[tuple[Section, Any, Mapping[str, Array]]],
    requests: Mapping[str, bool], table_of: Callable[[Section], Table | None],
) -> Table:  # fmt: skip
    """Return the table of all variables; histograms and other quantiles follow below it."""
    terms = variables_of(program_of(record.design))
    released = released_of(record, layout, sections)
    columns = columns_of(released, terms)
    several = columns.groups > 1
    printed = Printed(
        columns, requests["errors"], requests["smd"] and several, requests["p_values"] and several
    )
    medians = layout.medians
    variables = []
    for (axis,) in terms:
        name = layout.axes[axis].name
        label = label_of(record.design.schema, name)
        if layout.axes[axis].kind == "level":
            variable = levels_of(released, columns, axis, label)
        else:
            quantiles = layout.quantiles if name in medians else None
            ends = record.design.columns[layout.axes[axis].column].interval
            variable = number_of(released, columns, axis, label, quantiles, ends)
        variables.append(_compared(released, columns, axis, variable, requests))
    title = " x ".join(label_of(record.design.schema, layout.axes[j].name) for j in columns.group)
    counted = "weighted n" if released.weighted else "n"
    tables = [
        table_of(section) for section, _, _ in sections
        if (section.kind == "quantiles" and section.variable not in medians)
        or any(layout.axes[j].kind == "bin" for j in section.axes)
    ]  # fmt: skip
    return Table(
        columns=printed.heads(title, counted),
        rows=tuple(row for v in variables for row in printed.rows(v)),
        notes=(footnote(record, released, columns, variables, printed),),
        more=tuple(t for t in tables if t is not None),
    )


def _compared(
    released: Released,
    columns: Columns,
    axis: int,
    variable: Variable,
    requests: Mapping[str, bool],
) -> Variable:
    """Return a variable with its differences between groups, where they are asked for."""
    if columns.groups < 2:
        return variable
    smd, p = variable.smd, math.nan
    if requests["smd"]:
        smd = smd_of(variable, columns.groups)
    if requests["p_values"] and variable.levels:
        p = math.nan if released.weighted else p_of_levels(released, axis)
    elif requests["p_values"] and not variable.medians:
        p = p_of_means(released, axis)
    return replace(variable, smd=smd, p=p)
