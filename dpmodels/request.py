"""A call, frozen: what was asked, checked, and nothing of the data."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError, shown
from dpmodels.units.person import Person

if TYPE_CHECKING:
    from dpmodels.registry import Method
    from dpmodels.schema import Schema


def check_eps_delta(eps: Any, delta: Any, *, allow_pure: bool = False) -> tuple[float, float]:
    """Return (eps, delta) as floats or raise ``RequestError`` naming the argument."""
    given = {"eps": shown(eps), "delta": shown(delta)}
    for name, value in (("eps", eps), ("delta", delta)):
        # numpy and pandas make a number of a column of one cell
        if isinstance(value, (list, tuple)) or getattr(value, "ndim", False):
            raise RequestError(f"{name} must be a number, got {given[name]}")
        if isinstance(value, str):
            example = "eps=1" if name == "eps" else "delta=1e-6"
            raise RequestError(
                f"{name} must be a number, got the text {given[name]}. For example {example}"
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            number = math.nan
            with contextlib.suppress(Exception):  # whose message may quote the value
                number = float(value)
            if math.isnan(number):
                raise RequestError(f"{name} must be a number, got {given[name]}")
            value = number
        if math.isnan(value):
            raise RequestError(f"{name} must be a number, got nan")
    eps, delta = float(eps), float(delta)
    if not (eps > 0 and math.isfinite(eps)):
        raise RequestError(
            f"eps must be positive and finite, got {given['eps']}. For example eps=1"
        )
    if delta == 0 and not allow_pure:
        raise RequestError(
            "delta = 0: this method needs delta > 0. A usual choice is well below 1/n, "
            "for example delta=1e-6"
        )
    if not 0 <= delta < 1:
        raise RequestError(
            f"delta must lie in [0, 1), got {given['delta']}. A usual choice is well below 1/n, "
            "for example delta=1e-6"
        )
    return eps, delta


def check_seed(seed: Any) -> None:
    """Raise ``RequestError`` unless this is a seed, or None."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise RequestError(f"seed must be a whole number or None, got {shown(seed)}")
    if seed is not None and seed < 0:
        raise RequestError(f"seed must not be negative, got {seed}. For example seed={-seed}")


def check_n(n: Any) -> None:
    """Raise ``RequestError`` unless this is a number of rows."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise RequestError(f"n must be a positive whole number, got {shown(n)}")


@dataclass(frozen=True)
class Request:
    """One validated call of a verb. Holds no data.

    Attributes
    ----------
    verb : str
        "dp_ols", ...
    formula : str
    method : Method
    eps, delta : float
        The guarantee of the whole call.
    schema : Schema
        Declared facts; variables without a range are bought where the method can.
    buy : {"undeclared", "all"}
        "all" is ``bounds="private"``.
    options : mapping
        The method's own options, resolved.
    unit : Person or None
        The column that names the unit of privacy; None: the row.
    identifier : str
        A column whose name says it is an identifier, where the unit is the row; or empty.
    alike : int
        Rows of one person that are kept (``max_rows=``): so many may depend on each other in any
        way, and sampling variances of rows are multiplied by it (``units/theory.md``, 7).
    sample : SampleDesign or None
        Clusters and strata of the rows (``design=``, ``vcov={"CRV1": ...}``).
    """

    verb: str
    formula: str
    method: Method
    eps: float
    delta: float
    schema: Schema
    buy: str = "undeclared"
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
    options: Mapping[str, Any] = field(default_factory=dict)
    public: Any = None
    reasons: tuple[str, ...] = ()
    unit: Person | None = None
    identifier: str = ""
    alike: int = 1
    sample: Any = None

    @property
    def public_count(self) -> bool:
        """Whether the number of units is public: of rows, or of people."""
        return self.relation == "replace"

    @property
    def by_person(self) -> bool:
        """Whether a stage gets whole people: not where ``max_rows=`` of each are kept, as rows."""
        return self.unit is not None and not self.unit.most

    def shares_of(self, names: Iterable[str]) -> dict[str, float] | None:
        """Return the shares that ``split=`` gives these names, or refuse; None: there is none."""
        if self.split is None:
            return None
        wanted = list(names)
        if set(self.split) != set(wanted):
            raise RequestError(
                f"split= must name {', '.join(wanted)} for this fit, got "
                f"{', '.join(self.split) or 'none'}"
            )
        return {name: float(self.split[name]) for name in wanted}

    def __getitem__(self, option: str) -> Any:
        """Return the value of a method option."""
        return self.options[option]
