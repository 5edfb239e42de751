"""``NoisyTable``: a table released once, on which any model can be fitted at no further cost."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import math
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels._version import __version__
from dpmodels.arrays import Array
from dpmodels.door import checked, row_count, rows_of, run_stage
from dpmodels.errors import (
    RequestError,
    check_among,
    choice,
    damage_reported,
    path_of,
    shown,
)
from dpmodels.formula.design import Design
from dpmodels.formula.schema import Schema
from dpmodels.formula.survival import design_from
from dpmodels.formula.types import check_types
from dpmodels.lazy import pd
from dpmodels.models.noised.calibration import NoisePlan
from dpmodels.models.noised.curves import tradeoff
from dpmodels.notes import Note
from dpmodels.own.noised import Group, Layout, Noised, noised_rows
from dpmodels.own.radial import delta_exact, exact_eps
from dpmodels.privacy.composition import Guarantee
from dpmodels.quiet import tell
from dpmodels.sources.executors import need_rows
from dpmodels.sources.tasks import as_source
from dpmodels.sums.ask import Ask
from dpmodels.tables.table import (
    Table,
    Written,
    check_seal,
    forest,
    own_names,
    plain,
    sealed,
    write_whole,
)
from dpmodels.units import named

Names = tuple[str, ...]


@dataclass(frozen=True, repr=False, eq=False)
class NoisyTable(Written):
    """A noised table, with everything public about how it was made.

    Privacy
    -------
    Everything here is released or public. It holds no row of the data, no noise and no state of
    a generator. Whatever is computed from it costs nothing.
    """

    design: Design
    layout: Layout
    plan: NoisePlan
    guarantee: Guarantee
    values: Array
    public: Mapping[str, npt.NDArray[Any]]
    lower: Array
    scale: Array
    batches: tuple[int, ...]  # Sizes of the release and of the appended batches, in order
    bought: Names = ()
    keep_order: bool = False
    expected_clear: float = 0.0
    declared: Schema | None = None
    origins: tuple[Origin, ...] = field(default=(), repr=False, compare=False)

    __noisy_table__: ClassVar[bool] = True

    # -- shape -----------------------------------------------------------------------------
    @property
    def names(self) -> Names:
        """Noised columns, in order."""
        return self.layout.names

    @property
    def n(self) -> int:
        """Number of rows, public."""
        return int(self.values.shape[1])

    def __len__(self) -> int:
        return self.n

    @property
    def d(self) -> int:
        """Number of noised columns."""
        return self.layout.d

    @property
    def upper(self) -> Array:
        """Upper ends of the public ranges that the cells were clipped to before noise.

        Noised cells leave them: do not clip or round them, every later estimate is corrected for
        the noise as it is.
        """
        return self.lower + self.scale

    @property
    def noise_sd(self) -> Array:
        """Noise sd of each column (of the records that were noised)."""
        return np.asarray(self.plan.sd) * self.scale

    @property
    def noise(self) -> str:
        """Kind of noise: "sl", "laplace" or "gaussian"."""
        return self.plan.noise

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Columns that share one radius."""
        return self.plan.blocks

    @property
    def clear_prob(self) -> float:
        """Probability that a record was published unperturbed."""
        return self.plan.clear_prob

    @property
    def unit(self) -> str:
        """Unit of the guarantee: "record" or "attribute"."""
        return self.guarantee.unit

    @property
    def schema(self) -> Schema:
        """Public facts about the variables; estimated ranges are in ``lower, upper`` alone."""
        return self.design.schema if self.declared is None else self.declared

    @property
    def public_columns(self) -> Names:
        """Columns published as they are: NOT PROTECTED."""
        return tuple(self.public)

    @property
    def privacy(self) -> Guarantee:
        """The guarantee (the same object as ``guarantee``)."""
        return self.guarantee

    @property
    def frame(self) -> pd.DataFrame:
        """The released table: noised columns, then public ones, index 0..n-1."""
        frame = pd.DataFrame(self.values.T, columns=list(self.names), copy=False)
        for name, column in self.public.items():
            if name not in frame.columns:
                frame[name] = column
        return frame

    # -- privacy ---------------------------------------------------------------------------
    def _one_block(self) -> tuple[float, int, float] | None:
        """Return (c, d, p) of a table with one block of SL noise, or None for other noise."""
        simple = self.noise == "sl" and len(self.blocks) == 1 and len(self.guarantee.steps) == 1
        if not simple:
            return None
        parameters = dict(self.guarantee.steps[0].mechanism.parameters)
        return parameters["c"], int(parameters["d"]), parameters["p"]

    def delta_at(self, eps: float) -> float:
        """Return delta(eps) of the release (exact for one block of SL noise)."""
        block = self._one_block()
        if block is None or eps < 0:
            return self.guarantee.delta_at(eps)
        return block[2] + (1.0 - block[2]) * delta_exact(eps, block[0], block[1])

    def eps_at(self, delta: float) -> float:
        """Return the smallest eps with delta(eps) <= delta."""
        block = self._one_block()
        if block is None:
            return self.guarantee.eps_at(delta)
        if not 0 <= delta < 1:
            raise RequestError(f"delta must lie in [0, 1), got {shown(delta)}")
        if block[2] > delta or (delta == 0 and block[1] != 1):
            return math.inf
        return exact_eps(block[0], delta, block[1], block[2])

    def tradeoff(self, alpha: float) -> float:
        """Return the least type II error of a test of level ``alpha`` between neighbours."""
        block = self._one_block()
        return self.guarantee.tradeoff(alpha) if block is None else tradeoff(alpha, *block)

    # -- growing ---------------------------------------------------------------------------
    def append(self, new_data: Any, *, budget: Any = None, seed: int | None = None) -> NoisyTable:
        """Return the table with new records after the old ones, noised by the same parameters.

        Parameters
        ----------
        new_data : table
            Records that are in no earlier batch, with the same columns.
        budget : Budget, optional
            Charged with the noise of one batch, before a row is read. Default: the budget of the
            enclosing ``with budget:`` block, if there is one.
        seed : int, optional
            For tests: the result is then NOT PRIVATE.

        Privacy
        -------
        If each record is in exactly one batch, the guarantee of the whole is that of one batch
        (parallel composition; the sizes of the batches are public). Releasing the *same* record
        twice composes. A budget cannot see which of the two happens, so it is charged for each
        batch. The object or file of an earlier batch is refused; a copy of it, or the same file
        after ``load``, is not recognised. Ranges, levels and scales do not change; values outside
        are clipped.
        """
        checked(budget, seed)
        if hasattr(new_data, "__noisy_table__"):
            raise RequestError("append() needs new records, not a release")
        if any(origin.same(new_data) for origin in self.origins):
            raise RequestError(
                "this object or file is in the release already: fresh noise on the same records "
                "costs their privacy again. Append a table that holds the new records only. "
                "Nothing was read or charged"
            )
        source = as_source(new_data)
        need_rows(source, "append()")
        needed = tuple(dict.fromkeys((*self.design.variables, *self.public_columns)))
        missing = [c for c in needed if c not in source.kinds]
        if missing:
            raise RequestError(
                f"append() needs the columns of the release ({', '.join(needed)}); the new data "
                f"has no column {missing[0]!r}"
            )
        check_types(source.kinds, self.design.kinds)
        n = row_count(source, None, needed[0], asks_n=False)
        if n < 1:
            raise RequestError("the table to append has no rows")
        # what one further batch costs: the noise of the rows, not the ranges estimated before
        plan = Batch(self, replace(self.guarantee, steps=self.plan.steps), self.n + n)
        label = f"append({', '.join(self.layout.names)})"
        rows = functools.partial(rows_of, source, n)
        door, added = run_stage(label, plan, _noised, rows, budget, seed, what="the release is ")
        for name, column in added.public.items():
            if name != "id" and not name.endswith("_id"):
                continue
            both = np.intersect1d(self.public[name].astype(str), column.astype(str))
            if len(both):
                raise RequestError(
                    f"{len(both)} values of the public column {name!r} are in the release "
                    f"already, for example {both[0]!r}: the same record must not be released twice "
                    "(two releases of a record compose). Append records that are new"
                )
        return replace(
            self,
            values=_read_only(np.concatenate([self.values, added.values], axis=1)),
            public={k: np.concatenate([old, added.public[k]]) for k, old in self.public.items()},
            batches=(*self.batches, n),
            guarantee=self.guarantee.not_private() if door.guarantee.seeded else self.guarantee,
            origins=(*self.origins, Origin(new_data)),
        )

    # -- files -----------------------------------------------------------------------------
    def save(self, path: str | Path, table: str | None = None) -> Path:
        """Write ``<path>.json`` and ``<path>.parquet`` (or ``.csv``); return the JSON path.

        Parameters
        ----------
        path : str or Path
            Without a suffix, or with ``.json``.
        table : {"parquet", "csv"}, optional
            Default: Parquet if pyarrow is installed.
        """
        if table is None:
            table = "parquet" if importlib.util.find_spec("pyarrow") else "csv"
        choice("table", table, ("parquet", "csv"))
        base, facts = _paths(path)
        cells = base.with_name(f"{base.name}.{table}")
        frame = pd.DataFrame(self.values.T, columns=list(self.names), copy=False)
        for name, column in self.public.items():  # a public name may be a noised one too
            frame[f"public:{name}"] = column
        to_file = frame.to_parquet if table == "parquet" else frame.to_csv
        write_whole(cells, lambda aside: to_file(aside, index=False))
        saved = sealed(_facts(self, cells.name, __version__))
        text = json.dumps(saved, indent=1, allow_nan=False, default=str)
        write_whole(facts, text)
        return facts

    @classmethod
    def load(cls, path: str | Path) -> NoisyTable:
        """Read a table written by :meth:`save`."""
        _, facts = _paths(path)
        if not facts.exists():
            raise RequestError(f"there is no file {str(facts)!r}")
        try:
            saved = json.loads(facts.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            saved = None
        if not isinstance(saved, dict) or saved.get("format") != FORMAT:
            raise RequestError(
                f"{facts.name} is not a saved release. Write one with rel.save(path)"
            )
        if saved.get("version") != VERSION:
            raise RequestError(
                f"this release was saved in format {saved.get('version')!r}; this version of "
                f"dpmodels reads format {VERSION}. Install dpmodels {saved.get('dpmodels')}"
            )
        what = f"the release {facts.name}"
        again = "Write it again with rel.save(path), or use a copy"
        tell(*check_seal(saved, what, again))
        with damage_reported(what, again):
            return _read(cls, facts, saved)

    def __dir__(self) -> list[str]:
        other = ("guarantee", "origins", "declared")  # ``privacy`` and ``schema`` say them
        return [name for name in own_names(self) if name not in other]

    # -- text ------------------------------------------------------------------------------
    def summary(self) -> Table:
        """Return the facts of the release; ``print`` them."""
        g = self.guarantee
        batches = f" in {len(self.batches)} batches" if len(self.batches) > 1 else ""
        head = [
            ("Privacy", g.statement()),
            ("Rows", f"{self.n}{batches}"),
            ("Noise", f"{_NOISE[self.noise]} (noise={self.noise!r}), {self.d} columns"),
            ("Missing cells", "declared value, else the middle of the range, before noise"),
        ]
        if len(self.plan.c) == 1 and self.noise == "sl":
            text = f"c = {self.plan.c[0]:.6g} noise sd, d = {self.d}"
            head.append(("Distance of neighbours", text))
        rows = [
            (
                name, kind, f"[{lo:g}, {hi:g}]" + (" released" if name in self.bought else ""),
                f"{sd:.4g}", f"{sd / s:.3g}",
            )
            for name, kind, lo, hi, sd, s in zip(
                self.names, self.layout.kinds, self.lower, self.upper, self.noise_sd, self.scale,
                strict=True,
            )
        ]  # fmt: skip
        tail = "Noised cells lie outside their ranges and levels: do not clip, round or select on"
        return plain(
            ("column", "kind", "range", "noise sd", "sd / range"), rows, label=24,
            title="Noised table", facts=tuple(head),
            notes=(*map(str, notes_of_table(self)), f"{tail} them."),
        )  # fmt: skip

    def _shown(self) -> Table:
        return self.summary()

    def tidy(self) -> pd.DataFrame:
        """Return one row per noised column: its mean and range, and the sd of its noise.

        Means are of noised cells: unbiased for those of the clipped cells, with the noise and the
        sampling of n rows in their errors.
        """
        spread = self.values.std(axis=1, ddof=1) / math.sqrt(self.n)
        mean = self.values.mean(axis=1)
        return pd.DataFrame({
            "term": list(self.names), "estimate": mean, "std_error": spread,
            "conf_low": mean - 1.959964 * spread, "conf_high": mean + 1.959964 * spread,
            "noise_sd": self.noise_sd, "lower": self.lower, "upper": self.upper,
        })  # fmt: skip

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the noise of each column, in parts of its range (needs matplotlib)."""
        frame = self.tidy().drop(columns=["conf_low", "conf_high"])
        frame = frame.assign(estimate=self.noise_sd / self.scale)
        return forest(frame, ax, **{"xlabel": "noise sd / range", **style})

    def column(self, name: str) -> int:
        """Return the position of a noised column."""
        check_among(name, self.names, f"the release has no noised column {name!r}")
        return self.names.index(name)

    def __repr__(self) -> str:
        g = self.guarantee
        privacy = (
            "NOT PRIVATE (seeded)" if g.seeded else f"(eps = {g.eps:g}, delta = {g.delta:g})-DP"
        )
        return (
            f"<NoisyTable: {self.n} rows, {self.d} noised columns, {self.noise} noise | {privacy}, "
            f"unit: {named(g.unit)}>\nrel.summary() for the facts, rel.frame for the table"
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array


# -- What a release prints. Public and released facts only


_NOISE = {
    "sl": "symmetric Laplace, one radius a record",
    "laplace": "independent Laplace, column by column",
    "gaussian": "Gaussian",
}


def notes_of_table(rel: NoisyTable, *, brief: bool = False) -> tuple[Note, ...]:
    """Return the notes of a release; ``brief`` leaves out those of its guarantee."""
    notes: list[Note] = []
    if rel.clear_prob > 0 and not brief:
        notes.append(messages.CLEAR_RECORDS(count=rel.expected_clear, prob=rel.clear_prob))
    if rel.public_columns and not brief:
        notes.append(messages.PUBLIC_COLUMNS(columns=rel.public_columns))
    if rel.guarantee.unit == "attribute":
        eps, delta = rel.guarantee.record_pair or (float("inf"), 0.0)
        notes.append(messages.ONE_ATTRIBUTE(eps=rel.guarantee.eps, row_eps=eps, row_delta=delta))
    nullable = [
        name
        for name in rel.schema
        if getattr(rel.schema[name], "na", None) is not None and name not in rel.public_columns
    ]
    if nullable:
        notes.append(messages.FILLED_CELLS(columns=nullable))
    if rel.keep_order:
        notes.append(messages.PUBLIC_ORDER())
    return tuple(notes)


# -- New records for an existing release: the same design, the same noise, a fresh run.


class Origin:
    """Identity of the object or file of a batch, without holding it. Never saved or pickled."""

    def __init__(self, data: Any = None) -> None:
        self._path: Path | None = None
        self._refs: tuple[weakref.ref[Any], ...] = ()
        if isinstance(data, (str, os.PathLike)):
            self._path = Path(data).resolve()
            return
        parts = list(data.values()) if isinstance(data, Mapping) else [data]
        refs = []
        for part in parts:
            try:
                refs.append(weakref.ref(part))
            except TypeError:  # a list, a number: cannot be remembered without keeping it
                continue
        self._refs = tuple(refs)

    def same(self, data: Any) -> bool:
        """Return whether ``data`` is the object or the file of this batch."""
        other = Origin(data)
        if self._path is not None:
            return other._path == self._path
        held = [ref() for ref in self._refs]
        new = [ref() for ref in other._refs]
        if not held or len(held) != len(new):
            return False
        return all(a is not None and a is b for a, b in zip(held, new, strict=True))

    def __reduce__(self) -> Any:
        return Origin, ()


@dataclass(frozen=True)
class Batch:
    """Public facts of records to come; ``n`` includes the records of earlier batches."""

    table: NoisyTable
    guarantee: Guarantee
    n: int
    advice: tuple[str, ...] = ()


def _noised(plan: Batch, ask: Ask) -> Noised:
    """Add noise to the new rows as to the earlier ones."""
    table = plan.table
    return noised_rows(
        table.design, table.plan, table.public_columns, ask,
        keep_order=table.keep_order,
    )  # fmt: skip


# -- Saving and loading a release: JSON for the facts, Parquet or CSV for the cells.


FORMAT = "dpmodels.records"
VERSION = 1


def _paths(path: str | Path) -> tuple[Path, Path]:
    """Return the paths of a saved release: its cells without suffix, and its facts in JSON."""
    base = path_of(path, "the path of a release")
    if base.suffix in (".json", ".parquet", ".csv"):
        base = base.with_suffix("")
    return base, base.with_name(base.name + ".json")


def _hash(values: Any) -> str:
    """Return the checksum of the noised cells, bit for bit."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


#: Fields of the noise plan that a file stores unchanged.
_OF_PLAN = (
    "noise", "unit", "blocks", "sd", "clear_prob", "c", "shapes", "sensitivities", "eps", "delta",
)  # fmt: skip


def _facts(rel: NoisyTable, cells: str, version: str) -> dict[str, Any]:
    """Return the facts of a release as they are saved in JSON."""
    plan, layout = rel.plan, rel.layout
    return {
        "format": FORMAT,
        "version": VERSION,
        "dpmodels": version,
        "cells": cells,
        "values": _hash(rel.values),
        "n": rel.n,
        "batches": list(rel.batches),
        "design": rel.design.to_dict(),
        "declared": rel.schema.to_dict(),
        "guarantee": rel.guarantee.to_dict(),
        "lower": rel.lower.tolist(),
        "scale": rel.scale.tolist(),
        "bought": list(rel.bought),
        "public": list(rel.public),
        "keep_order": rel.keep_order,
        "expected_clear": rel.expected_clear,
        "layout": {
            **{name: getattr(layout, name) for name in ("rows", "names", "kinds")},
            "groups": [(g.columns, sorted(g.variables), g.diam, g.ldiam) for g in layout.groups],
        },
        "plan": {
            **{name: getattr(plan, name) for name in _OF_PLAN},
            "steps": [s.name for s in plan.steps],
            # JSON has no infinity
            "record_pair": plan.record_pair
            and [v if math.isfinite(v) else str(v) for v in plan.record_pair],
        },
    }


def _read(kind: type[NoisyTable], facts: Path, saved: dict[str, Any]) -> NoisyTable:
    """Return the release that a file describes."""
    cells = facts.with_name(saved["cells"])
    if cells.suffix == ".parquet":
        frame = pd.read_parquet(cells)
    else:
        # as text first: parsers of floats differ in the last bit, Python's does not
        frame = pd.read_csv(cells, dtype=dict.fromkeys(saved["layout"]["names"], str))
    lay = saved["layout"]
    names = lay["names"]
    if len(frame) != saved["n"] or any(c not in frame.columns for c in names):
        raise RequestError(f"{cells.name} does not hold the cells that {facts.name} describes")
    layout = Layout(
        tuple(lay["rows"]), tuple(names), tuple(lay["kinds"]),
        tuple(Group(tuple(c), frozenset(v), a, b) for c, v, a, b in lay["groups"]),
    )  # fmt: skip
    guarantee = Guarantee.from_dict(saved["guarantee"])
    values = np.ascontiguousarray(frame[names].to_numpy(dtype=object).astype(float).T)
    values.setflags(write=False)
    if "values" in saved and saved["values"] != _hash(values):  # not in files before 0.2.1
        raise ValueError("cells")
    if not len(names) == len(saved["lower"]) == len(saved["scale"]) == len(lay["kinds"]):
        raise ValueError("lengths")
    return kind(
        design=design_from(saved["design"]),
        layout=layout,
        plan=_plan(saved["plan"], guarantee),
        guarantee=guarantee,
        values=values,
        public={c: frame[f"public:{c}"].to_numpy() for c in saved["public"]},
        lower=np.array(saved["lower"]),
        scale=np.array(saved["scale"]),
        batches=tuple(saved["batches"]),
        bought=tuple(saved["bought"]),
        keep_order=bool(saved["keep_order"]),
        expected_clear=float(saved["expected_clear"]),
        declared=Schema.from_dict(saved["declared"]),
    )


def _plan(saved: dict[str, Any], guarantee: Any) -> NoisePlan:
    """Return the noise plan of a saved release."""
    steps = {s.name: s for s in guarantee.steps}
    pair = saved["record_pair"]
    plain = {name: saved[name] for name in ("noise", "unit", "clear_prob", "eps", "delta")}
    lists: dict[str, Any] = {k: tuple(saved[k]) for k in ("sd", "c", "shapes", "sensitivities")}
    return NoisePlan(
        **plain, **lists, blocks=tuple(map(tuple, saved["blocks"])),
        steps=tuple(steps[name] for name in saved["steps"]),
        record_pair=None if pair is None else (float(pair[0]), float(pair[1])),
    )  # fmt: skip
