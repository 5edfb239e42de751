"""The record behind a fit: public facts, the guarantee, and released numbers. No rows.

``Fit`` is a face on a :class:`Record`; the JSON form (``_json.py``) is the record written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.estimate import Estimate

if TYPE_CHECKING:
    from dpmodels.planning import Plan
    from dpmodels.privacy.guarantee import Guarantee
    from dpmodels.release import Release
    from dpmodels.request import Request

__all__ = ["Call", "Record"]


@dataclass(frozen=True)
class Call:
    """The public words of a call: a ``Request`` without its method object, schema and public data.

    Attributes
    ----------
    method, method_title, privacy_se : str
        Name and title of the method, and what its ``bse_privacy`` means ("public", "released",
        "unavailable").
    options : mapping
        Plain values only; anything else is kept as its type's name.
    """

    verb: str
    formula: str
    method: str
    method_title: str
    privacy_se: str
    inference: bool = True
    level: float = 0.95
    relation: str = "replace"
    na: str = "zero-row"
    on_no_reply: str = "return"
    options: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    identifier: str = ""

    @classmethod
    def of(cls, request: Request) -> Call:
        """Copy the public words of a request."""
        return cls(
            verb=request.verb,
            formula=request.formula,
            method=request.method.name,
            method_title=request.method.title,
            privacy_se=request.method.privacy_se,
            inference=bool(request.inference),
            level=float(request.level),
            relation=request.relation,
            na=request.na,
            on_no_reply=request.on_no_reply,
            options={str(k): plain(v) for k, v in request.options.items()},
            reasons=tuple(request.reasons),
            identifier=request.identifier,
        )


@dataclass(frozen=True)
class Record:
    """Everything a fit keeps.

    Attributes
    ----------
    call : Call
    design : Design
        With every interval known (bought ones filled in).
    guarantee : Guarantee
    estimate : Estimate
        Arrays are read-only copies.
    n : int or None
        Public number of rows.
    shares, scales : mapping
        Of the plan.
    bought : tuple of str
        Columns whose range was bought.
    why : str
        For a no-reply: which kind of step ended the run.
    table : NoisyTable or None
        The release of ``method="drcl"`` and its kin.
    """

    call: Call
    design: Any
    guarantee: Guarantee
    estimate: Estimate
    n: int | None
    shares: Mapping[str, float] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    bought: tuple[str, ...] = ()
    why: str = ""
    #: A noised table that the fit was made from: public, kept in memory, left out of files.
    table: Any = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "table": None}

    @classmethod
    def of(cls, plan: Plan, release: Release, estimate: Estimate) -> Record:
        """Keep what is public or released of the three; their ``detail`` is dropped."""
        return cls(
            call=Call.of(plan.request),
            design=release.design,
            guarantee=release.guarantee,
            estimate=frozen(estimate, bool(release.reply and estimate.released)),
            n=None if plan.n is None else int(plan.people or plan.n),
            shares={str(k): float(v) for k, v in plan.shares.items()},
            scales={str(k): float(v) for k, v in plan.scales.items()},
            bought=tuple(plan.purchase.columns) if plan.purchase is not None else (),
            why=release.why,
            table=release.detail if hasattr(release.detail, "__noisy_table__") else None,
        )


def plain(value: Any) -> Any:
    """Return ``value`` if it is a plain scalar, text or list of such; else the name of its type."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.size <= 4096:
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"


def read_only(array: Any) -> Array:
    """Return a float64 copy that cannot be written to."""
    copy = np.array(array, dtype=float)
    copy.setflags(write=False)
    return copy


def _mask(which: Any) -> npt.NDArray[np.bool_]:
    copy = np.array(which, dtype=bool)
    copy.setflags(write=False)
    return copy


def frozen(estimate: Estimate, released: bool) -> Estimate:
    """Copy an estimate, with read-only arrays and plain floats."""
    optional = (estimate.vcov_sampling, estimate.vcov_privacy, estimate.bias)
    sampling, privacy, bias = (None if v is None else read_only(v) for v in optional)
    return replace(
        estimate,
        names=tuple(map(str, estimate.names)),
        params=read_only(estimate.params),
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        bias=bias,
        bias_bound=None if estimate.bias_bound is None else estimate.bias_bound.frozen(),
        untested=None if estimate.untested is None else _mask(estimate.untested),
        released=released,
        stats={str(k): float(v) for k, v in estimate.stats.items()},
        notes=tuple(map(str, estimate.notes)),
        warnings=tuple(map(str, estimate.warnings)),
        arrays={str(k): read_only(v) for k, v in estimate.arrays.items()},
    )
