"""``NoisyTable``: a table released once, on which any model can be fitted at no further cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, did_you_mean, shown
from dpmodels.models.noised.exact import delta_exact, exact_eps, tradeoff
from dpmodels.tables import Table, Written, own_names, plain
from dpmodels.units.person import named

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.formula.design import Design
    from dpmodels.models.noised.calibration import NoisePlan
    from dpmodels.models.noised.grow import Origin
    from dpmodels.models.noised.layout import Layout
    from dpmodels.privacy.guarantee import Guarantee
    from dpmodels.schema import Schema

Names = tuple[str, ...]


@dataclass(frozen=True, repr=False, eq=False)
class NoisyTable(Written):
    """A noised table, with everything public about how it was made.

    Attributes
    ----------
    names : tuple of str
        Noised columns, in order.
    lower, upper : (d,) arrays
        Public ranges the cells were clipped to before noise. Noised cells leave them: do not clip
        or round them, every later estimate is corrected for the noise as it is.
    noise_sd : (d,) array
        Noise sd of each column (of the records that were noised).
    noise : {"sl", "laplace", "gaussian"}
    blocks : tuple of tuple of int
        Columns that share one radius.
    clear_prob : float
        Probability that a record was published unperturbed.
    unit : {"record", "attribute"}
    public_columns : tuple of str
        Columns that were published as they are: NOT PROTECTED.
    guarantee : Guarantee
    n : int
    batches : tuple of int
        Sizes of the release and of what was appended, in order.
    schema : Schema
        Of the variables; ranges that were bought are not in it but in ``lower, upper``.

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
    batches: tuple[int, ...]
    bought: Names = ()
    keep_order: bool = False
    expected_clear: float = 0.0
    declared: Schema | None = None
    origins: tuple[Origin, ...] = field(default=(), repr=False, compare=False)

    __noisy_table__: ClassVar[bool] = True

    # -- shape -----------------------------------------------------------------------------
    @property
    def names(self) -> Names:
        """Noised columns."""
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
        """Upper ends of the ranges."""
        return self.lower + self.scale

    @property
    def noise_sd(self) -> Array:
        """Noise sd of each column."""
        return np.asarray(self.plan.sd) * self.scale

    @property
    def noise(self) -> str:
        """Kind of noise."""
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
        """Unit of the guarantee."""
        return self.guarantee.unit

    @property
    def schema(self) -> Schema:
        """Public facts about the variables."""
        return self.design.schema if self.declared is None else self.declared

    @property
    def public_columns(self) -> Names:
        """Columns published as they are."""
        return tuple(self.public)

    @property
    def privacy(self) -> Guarantee:
        """The guarantee (the same object as ``guarantee``)."""
        return self.guarantee

    @property
    def frame(self) -> pd.DataFrame:
        """The released table: noised columns, then public ones, index 0..n-1."""
        import pandas as pd

        frame = pd.DataFrame(self.values.T, columns=list(self.names), copy=False)
        for name, column in self.public.items():
            if name not in frame.columns:
                frame[name] = column
        return frame

    # -- privacy ---------------------------------------------------------------------------
    def _one_block(self) -> tuple[float, int, float] | None:
        simple = self.noise == "sl" and len(self.blocks) == 1 and len(self.guarantee.steps) == 1
        if not simple:
            return None
        parameters = dict(self.guarantee.steps[0].mechanism.parameters)
        return parameters["c"], int(parameters["d"]), parameters["p"]

    def delta_at(self, eps: float) -> float:
        """Return delta(eps) of the release (exact for one block of SL noise)."""
        one = self._one_block()
        if one is None or eps < 0:
            return self.guarantee.delta_at(eps)
        return one[2] + (1.0 - one[2]) * delta_exact(eps, one[0], one[1])

    def eps_at(self, delta: float) -> float:
        """Return the smallest eps with delta(eps) <= delta."""
        one = self._one_block()
        if one is None:
            return self.guarantee.eps_at(delta)
        if not 0 <= delta < 1:
            raise RequestError(f"delta must lie in [0, 1), got {shown(delta)}")
        if one[2] > delta or (delta == 0 and one[1] != 1):
            return math.inf
        return exact_eps(one[0], delta, one[1], one[2])

    def tradeoff(self, alpha: float) -> float:
        """Return the least type II error of a test of level ``alpha`` between neighbours."""
        one = self._one_block()
        return self.guarantee.tradeoff(alpha) if one is None else tradeoff(alpha, *one)

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
        from dpmodels.models.noised.grow import appended

        return appended(self, new_data, seed, budget)

    def _grown(self, values: Array, public: Mapping[str, Any], seeded: bool) -> NoisyTable:
        for name, column in public.items():
            self._check_ids(name, column)
        joined = {k: np.concatenate([self.public[k], public[k]]) for k in self.public}
        guarantee = self.guarantee.not_private() if seeded else self.guarantee
        return replace(
            self,
            values=_read_only(np.concatenate([self.values, values], axis=1)),
            public=joined,
            batches=(*self.batches, int(values.shape[1])),
            guarantee=guarantee,
        )

    def _check_ids(self, name: str, column: npt.NDArray[Any]) -> None:
        """Refuse ids that are there already (public values only)."""
        if name != "id" and not name.endswith("_id"):
            return
        both = np.intersect1d(self.public[name].astype(str), column.astype(str))
        if len(both):
            raise RequestError(
                f"{len(both)} values of the public column {name!r} are in the release already, "
                f"for example {both[0]!r}: the same record must not be released twice (two "
                "releases of a record compose). Append records that are new"
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
        from dpmodels.models.noised.files import save

        return save(self, path, table)

    @classmethod
    def load(cls, path: str | Path) -> NoisyTable:
        """Read what :meth:`save` wrote."""
        from dpmodels.models.noised.files import load

        return load(cls, path)

    def __dir__(self) -> list[str]:
        other = ("guarantee", "origins", "declared")  # ``privacy`` and ``schema`` say them
        return [name for name in own_names(self) if name not in other]

    # -- text ------------------------------------------------------------------------------
    def summary(self) -> Table:
        """Return the facts of the release; ``print`` them."""
        from dpmodels.models.noised.table import table_of

        return table_of(self)

    def _shown(self) -> Table:
        return self.summary()

    def tidy(self) -> pd.DataFrame:
        """Return one row a noised column: its mean and range, and the sd of its noise.

        Means are of noised cells: unbiased for those of the clipped cells, with the noise and the
        sampling of n rows in their errors.
        """
        import pandas as pd

        spread = self.values.std(axis=1, ddof=1) / math.sqrt(self.n)
        mean = self.values.mean(axis=1)
        return pd.DataFrame({
            "term": list(self.names), "estimate": mean, "std_error": spread,
            "conf_low": mean - 1.959964 * spread, "conf_high": mean + 1.959964 * spread,
            "noise_sd": self.noise_sd, "lower": self.lower, "upper": self.upper,
        })  # fmt: skip

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the noise of each column, in parts of its range (needs matplotlib)."""
        from dpmodels.tables.pictures import forest

        frame = self.tidy().drop(columns=["conf_low", "conf_high"])
        frame = frame.assign(estimate=self.noise_sd / self.scale)
        return forest(frame, ax, **{"xlabel": "noise sd / range", **style})

    def column(self, name: str) -> int:
        """Return the position of a noised column."""
        if name not in self.names:
            raise RequestError(
                f"the release has no noised column {name!r}.{did_you_mean(name, self.names)}"
            )
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
        from dpmodels.models.noised.table import table_of

        return table_of(self).as_html()


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array


# -- What a release prints. Public and released facts only


_NOISE = {
    "sl": "symmetric Laplace, one radius a record",
    "laplace": "independent Laplace, column by column",
    "gaussian": "Gaussian",
}


def notes_of_table(rel: NoisyTable, *, brief: bool = False) -> tuple[str, ...]:
    """Return the sentences of a release; ``brief``: without those its guarantee prints anyway."""
    notes: list[str] = []
    if rel.clear_prob > 0 and not brief:
        notes.append(
            f"clear_prob = {rel.clear_prob:g}: expected number of records released unperturbed: "
            f"{rel.expected_clear:.4g}."
        )
    if rel.public_columns and not brief:
        notes.append("NOT PROTECTED, published as they are: " + ", ".join(rel.public_columns) + ".")
    if rel.guarantee.unit == "attribute":
        eps, delta = rel.guarantee.record_pair or (float("inf"), 0.0)
        notes.append(
            f"The guarantee at eps = {rel.guarantee.eps:g} is for ONE ATTRIBUTE of a row. A "
            f"whole row is not protected at that eps: it has (eps = {eps:.4g}, "
            f"delta = {delta:g})."
        )
    nullable = [
        name
        for name in rel.schema
        if getattr(rel.schema[name], "na", None) is not None and name not in rel.public_columns
    ]
    if nullable:
        notes.append(
            "Missing cells of " + ", ".join(nullable) + " were filled with the declared value "
            "before noise: estimates carry the bias of that, and no correction removes it."
        )
    if rel.keep_order:
        notes.append("keep_order=True: the order of the rows is public.")
    return tuple(notes)


def table_of(rel: NoisyTable) -> Table:
    """Return the facts of a release as a table."""
    g = rel.guarantee
    head = [
        ("Privacy", g.statement()),
        ("Rows", f"{rel.n}" + (f" in {len(rel.batches)} batches" if len(rel.batches) > 1 else "")),
        ("Noise", f"{_NOISE[rel.noise]} (noise={rel.noise!r}), {rel.d} columns"),
        ("Missing cells", "declared value, else the middle of the range, before noise"),
    ]
    if len(rel.plan.c) == 1 and rel.noise == "sl":
        head.append(("Distance of neighbours", f"c = {rel.plan.c[0]:.6g} noise sd, d = {rel.d}"))
    bought = set(rel.bought)
    rows = [
        (
            name,
            kind,
            f"[{lo:g}, {hi:g}]" + (" bought" if name in bought else ""),
            f"{sd:.4g}",
            f"{sd / s:.3g}",
        )
        for name, kind, lo, hi, sd, s in zip(
            rel.names, rel.layout.kinds, rel.lower, rel.upper, rel.noise_sd, rel.scale, strict=True
        )
    ]
    tail = "Noised cells lie outside their ranges and levels: do not clip, round or select on them."
    return replace(
        plain(("column", "kind", "range", "noise sd", "sd / range"), rows, label=24),
        title="Noised table",
        facts=tuple(head),
        notes=(*notes_of_table(rel), tail),
    )
