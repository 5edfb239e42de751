"""Frozen records of a call: its checked arguments, releases and estimates."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.after.inference import BiasBound
from dpmodels.arrays import Array, plain
from dpmodels.errors import RequestError, shown
from dpmodels.units import Person

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.formula.schema import Schema
    from dpmodels.notes import Note
    from dpmodels.privacy.composition import Guarantee
    from dpmodels.privacy.ledger_file import Charge
    from dpmodels.registry import Method


def check_eps_delta(eps: Any, delta: Any, *, allow_pure: bool = False) -> tuple[float, float]:
    """Return (eps, delta) as floats or raise ``RequestError`` naming the argument."""
    typed = {"eps": shown(eps), "delta": shown(delta)}
    for name, value in (("eps", eps), ("delta", delta)):
        # numpy and pandas make a number of a column of one cell
        if isinstance(value, (list, tuple)) or getattr(value, "ndim", False):
            raise RequestError(f"{name} must be a number, got {typed[name]}")
        if isinstance(value, str):
            example = "eps=1" if name == "eps" else "delta=1e-6"
            raise RequestError(
                f"{name} must be a number, got the text {typed[name]}. For example {example}"
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            number = math.nan
            with contextlib.suppress(Exception):  # whose message may quote the value
                number = float(value)
            if math.isnan(number):
                raise RequestError(f"{name} must be a number, got {typed[name]}")
            value = number
        if math.isnan(value):
            raise RequestError(f"{name} must be a number, got nan")
    eps, delta = float(eps), float(delta)
    if not (eps > 0 and math.isfinite(eps)):
        raise RequestError(
            f"eps must be positive and finite, got {typed['eps']}. For example eps=1"
        )
    if delta == 0 and not allow_pure:
        raise RequestError(
            "delta = 0: this method needs delta > 0. A usual choice is well below 1/n, "
            "for example delta=1e-6"
        )
    if not 0 <= delta < 1:
        raise RequestError(
            f"delta must lie in [0, 1), got {typed['delta']}. A usual choice is well below 1/n, "
            "for example delta=1e-6"
        )
    return eps, delta


def check_seed(seed: Any) -> int | None:
    """Return a seed, or None; raise ``RequestError`` where it is none."""
    typed, seed = shown(seed), plain(seed)  # a number of numpy may be a cell: it is not repeated
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise RequestError(f"seed must be a whole number or None, got {typed}")
    if seed is not None and seed < 0:
        raise RequestError(f"seed must not be negative, got {typed}. For example seed=1")
    return seed  # type: ignore[no-any-return]


def check_n(n: Any) -> int:
    """Return a number of rows; raise ``RequestError`` where it is none."""
    typed, n = shown(n), plain(n)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise RequestError(f"n must be a positive whole number, got {typed}")
    return n


@dataclass(frozen=True)
class Request:
    """One validated call of a verb. Holds no data."""

    verb: str  # "dp_ols", ..
    formula: str
    method: Method
    # eps, delta: the guarantee of the whole call.
    eps: float
    delta: float
    schema: Schema  # Declared facts; undeclared ranges are estimated if the method can
    buy: str = "undeclared"  # {"undeclared", "all"}: "all" is ``bounds="private"``
    inference: bool = True
    split: Mapping[str, float] | None = None
    level: float = 0.95
    relation: str = "replace"
    na: str = "zero-row"
    on_no_reply: str = "return"
    engine: str = "formulaic"
    subset: str | None = None
    weights: str | None = None
    seed: int | None = None
    progress: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # The method's own options, resolved
    public: Any = None
    reasons: tuple[str, ...] = ()
    unit: Person | None = None  # The column that names the unit of privacy; None: the row
    # Column with the name of an identifier if the unit is the row, else empty.
    identifier: str = ""
    # Rows kept per person (``max_rows=``). They may depend on each other in any way, so sampling
    # variances of rows are multiplied by it (``units.md``, 7).
    copies: int = 1
    sample: Any = None  # Clusters and strata of the rows (``design=``, ``vcov={"CRV1": ...}``)

    @property
    def by_person(self) -> bool:
        """Whether a stage gets whole people: not where ``max_rows=`` of each are kept, as rows."""
        return self.unit is not None and not self.unit.most

    def shares_of(self, names: Iterable[str]) -> dict[str, float] | None:
        """Return the shares that ``split=`` gives these names, or None without ``split=``."""
        if self.split is None:
            return None
        expected = list(names)
        if set(self.split) != set(expected):
            raise RequestError(
                f"split= must name {', '.join(expected)} for this fit, got "
                f"{', '.join(self.split) or 'none'}"
            )
        return {name: float(self.split[name]) for name in expected}

    def __getitem__(self, option: str) -> Any:
        """Return the value of a method option."""
        return self.options[option]


# -- A release: noisy numbers and the guarantee that produced them. The far side of the wall.


@dataclass(frozen=True)
class Release:
    """Numbers that left the private stage."""

    # Released numbers by step name (or a name the method documents). Everything here went through
    # :class:`dpmodels.privacy.run.Run` or is public.
    values: Mapping[str, npt.NDArray[np.float64]]
    guarantee: Guarantee
    design: Design  # The design with all intervals known (estimated ones filled in)
    reply: bool = True  # False: the private test did not pass (or ranges could not be estimated)
    # For a no-reply, which *kind* of step ended the run ("ranges", "test"): an output of the
    # mechanism, charged, and safe to print.
    why: str = ""
    # The method's own frozen record (public numbers derived from released ones).
    detail: Any = field(default=None)
    # Remark on each step for the ledger, from released numbers.
    remarks: Mapping[str, str] = field(default_factory=dict)
    ended: str = ""  # For a no-reply: the last step that was drawn. Set by the door
    back: Charge | None = None  # The charge, where a part of it went back. Set by the door


# -- An estimate: post-processing of a release, in the user's units


#: Name of the step that counts usable rows before a fit. It can stop a call.
USABLE_ROWS = "usable rows"
#: Statistics whose errors assume that rows are independent.
_OF_ROWS = frozenset({"sigma_se", "r_squared_se", "r_squared_low", "r_squared_high"})


#: Array of an estimate: the side, 1 or -1, on which the interval of a coefficient is open; 0: none.
OPEN_ENDS = "open_ends"


@dataclass(frozen=True)
class Estimate:
    """Coefficients and their errors."""

    names: tuple[str, ...]  # Coefficient names ("Intercept" first), length p
    params: Array  # (p,): naN after a no-reply
    # vcov_sampling, vcov_privacy: (p, p); the two parts; None where not released.
    vcov_sampling: Array | None = None
    vcov_privacy: Array | None = None
    # (p,): bound on what clipping may have moved; intervals allow for it. None: no such bound.
    bias: Array | None = None
    released: bool = True
    # Released or public scalars ("sigma", "ridge", ...), for ``glance`` and the summary.
    stats: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[Note | str, ...] = ()  # From released and public numbers only
    warnings: tuple[str, ...] = ()  # Shown as warnings too ("the fit is noise-dominated")
    # Released arrays worth keeping (the noisy moment matrix, draws of a bootstrap, ...).
    arrays: Mapping[str, Array] = field(default_factory=dict)
    use_t: float | None = None  # Degrees of freedom if a t reference is right; None: normal
    # The same bound of any combination of coefficients. None: that of a combination is ``sum |l_j|
    # bias_j``.
    bias_bound: BiasBound | None = None
    # (p,): coefficients whose error does not hold all there is (not determined at this budget, or a
    # ridge's bias): no z and no p are given for them, the interval stays. None: none.
    untested: npt.NDArray[np.bool_] | None = None

    def bias_of(self, L: Array) -> Array | None:
        """Return bounds (k,) on the bias of ``L b``, L (k, p), or None if there is no bound.

        The smaller of the combination's own and of the sum over its coefficients.
        """
        if self.bias is None:
            return None
        by_parts = np.abs(L) @ np.nan_to_num(np.asarray(self.bias))
        if self.bias_bound is None:
            return np.asarray(by_parts)
        return np.minimum(by_parts, self.bias_bound.of(np.asarray(L, dtype=float)))

    def of_copied_rows(self, m: int) -> Estimate:
        """Return the estimate where up to m rows go together in any way; made of single rows.

        Sampling variances m times as large are enough whatever m rows of one person have to do
        with each other (``units.md``, 7). Scalars whose errors are of single rows go.
        """
        V = self.vcov_sampling
        if not self.released or (V is None and "low" not in self.arrays):
            return self
        return replace(
            self,
            vcov_sampling=None if V is None else m * V,
            stats={k: v for k, v in self.stats.items() if k not in _OF_ROWS},
            notes=(*self.notes, messages.MAX_ROWS(m=m)),
        )

    @classmethod
    def silent(
        cls, names: Sequence[str], *notes: Note | str, stats: Mapping[str, float] | None = None
    ) -> Estimate:
        """Return the estimate after a no-reply: the names, and the reason."""
        blank = np.full(len(names), np.nan)
        return cls(tuple(names), blank, released=False, stats=dict(stats or {}), notes=notes)
