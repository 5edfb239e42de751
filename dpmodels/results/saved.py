"""The portable form of a fit: JSON with a format version. Public and released numbers only."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.after.allowance import Allowance, BiasBound, Carried, Tail
from dpmodels.arrays import Array
from dpmodels.errors import RequestError, whole
from dpmodels.estimate import Estimate
from dpmodels.privacy.guarantee import Guarantee
from dpmodels.results.record import Call, Record, frozen

__all__ = ["AGAIN", "WHAT", "dumps", "from_dict", "loads", "to_dict"]

FORMAT = "dpmodels.fit"
VERSION = 1
#: What a damaged file is called, and what to do.
WHAT, AGAIN = "this saved fit", "Write it again with fit.to_json(path), or use a copy"


def to_dict(record: Record) -> dict[str, Any]:
    """Return a record as plain lists, numbers and text."""
    from dpmodels._version import __version__

    return {
        "format": FORMAT,
        "version": VERSION,
        "dpmodels": __version__,
        "call": _call_out(record.call),
        "design": record.design.to_dict(),
        "n": record.n,
        "shares": dict(record.shares),
        "scales": dict(record.scales),
        "bought": list(record.bought),
        "why": record.why,
        "guarantee": record.guarantee.to_dict(),
        "estimate": _estimate_out(record.estimate),
    }


def from_dict(saved: Mapping[str, Any]) -> Record:
    """Return the record that :func:`to_dict` wrote down."""
    from dpmodels.formula.build import design_from

    if not isinstance(saved, Mapping) or saved.get("format") != FORMAT:
        raise RequestError("this is not a saved dpmodels fit. Write one with fit.to_json(path)")
    if saved.get("version") != VERSION:
        raise RequestError(
            f"this fit was saved in format {saved.get('version')!r}; this version of dpmodels "
            f"reads format {VERSION}. Install dpmodels {saved.get('dpmodels')}"
        )
    with whole(WHAT, AGAIN):
        return _checked(_record_in(saved, design_from))


def _record_in(saved: Mapping[str, Any], design_from: Callable[[Any], Any]) -> Record:
    estimate = _estimate_in(saved["estimate"])
    return Record(
        call=_call_in(saved["call"]),
        design=design_from(saved["design"]),
        guarantee=Guarantee.from_dict(saved["guarantee"]),
        estimate=frozen(estimate, estimate.released),
        n=saved["n"],
        shares=dict(saved["shares"]),
        scales={k: _number_in(v) for k, v in saved["scales"].items()},
        bought=tuple(saved["bought"]),
        why=saved["why"],
    )


def _checked(record: Record) -> Record:
    """Return a record whose parts fit together."""
    est = record.estimate
    p = len(est.names)
    texts = (record.why, *est.names, *est.notes, *est.warnings, *record.bought)
    sizes = [(est.params, (p,)), (est.vcov_sampling, (p, p)), (est.vcov_privacy, (p, p))]
    if (
        any(array is not None and array.shape != shape for array, shape in sizes)
        or not all(isinstance(text, str) for text in texts)
        or not (record.n is None or type(record.n) is int)
        or type(est.released) is not bool
    ):
        raise ValueError("its parts do not fit together")
    return record


def dumps(record: Record) -> str:
    """Return a record as JSON text, floats to the last bit, NaN and infinity as text."""
    return json.dumps(_strict(to_dict(record)), allow_nan=False, indent=1, ensure_ascii=False)


def loads(text: str) -> Record:
    """Return the record in a JSON text."""
    saved: Any = None
    with contextlib.suppress(json.JSONDecodeError, RecursionError):
        saved = json.loads(text)
    return from_dict(saved)


def _strict(value: Any) -> Any:
    """Write NaN and infinities as text: JSON has neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: _strict(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(v) for v in value]
    return value


def _number_in(value: Any) -> float:
    return float(value)


def _array_out(array: Array | None) -> dict[str, Any] | None:
    if array is None:
        return None
    return {"shape": list(array.shape), "values": np.asarray(array).ravel().tolist()}


def _array_in(saved: Mapping[str, Any] | None) -> Array | None:
    if saved is None:
        return None
    values = np.array([_number_in(v) for v in saved["values"]], dtype=float)
    array: Array = values.reshape(saved["shape"])
    return array


def _bound_out(bound: BiasBound | None) -> Any:
    """Return the parts of a bound: numbers as they are, arrays with their shapes."""
    if bound is None:
        return None
    out = []
    for T, one in bound.parts:
        fields: dict[str, Any] = {
            k: _array_out(v) if isinstance(v, np.ndarray) else v for k, v in vars(one).items()
        }
        carried = one.carried
        if carried is not None:
            fields["carried"] = {**vars(carried), "counts": _array_out(carried.counts)}
        out.append({"map": _array_out(T), **fields, "tail": vars(one.tail)})
    return out


def _bound_in(saved: Any) -> BiasBound | None:
    if saved is None:
        return None
    parts: list[tuple[Any, Allowance]] = []
    for part in saved:
        fields: dict[str, Any] = {k: _array_in(v) if isinstance(v, dict) and "shape" in v else v
                  for k, v in part.items()}  # fmt: skip
        T, tail, carried = fields.pop("map"), fields["tail"], fields["carried"]
        fields["tail"] = Tail(**tail)
        if carried is not None:
            fields["carried"] = Carried(**{**carried, "counts": _array_in(carried["counts"])})
        parts.append((T, Allowance(**fields)))
    return BiasBound(tuple(parts))


def _mask_in(saved: Any) -> npt.NDArray[np.bool_] | None:
    return None if saved is None else np.array(saved, dtype=bool)


def _call_out(call: Call) -> dict[str, Any]:
    out = dict(vars(call))
    return {**out, "options": dict(call.options), "reasons": list(call.reasons)}


def _call_in(saved: Mapping[str, Any]) -> Call:
    return Call(**{**saved, "reasons": tuple(saved["reasons"])})


def _estimate_out(est: Estimate) -> dict[str, Any]:
    return {
        "names": list(est.names),
        "params": _array_out(est.params),
        "vcov_sampling": _array_out(est.vcov_sampling),
        "vcov_privacy": _array_out(est.vcov_privacy),
        "bias": _array_out(est.bias),
        "released": est.released,
        "stats": dict(est.stats),
        "notes": list(est.notes),
        "warnings": list(est.warnings),
        "arrays": {k: _array_out(v) for k, v in est.arrays.items()},
        "use_t": est.use_t,
        "bias_bound": _bound_out(est.bias_bound),
        "untested": None if est.untested is None else est.untested.tolist(),
    }


def _estimate_in(saved: Mapping[str, Any]) -> Estimate:
    params = _array_in(saved["params"])
    assert params is not None
    arrays = {k: _array_in(v) for k, v in saved["arrays"].items()}
    return Estimate(
        names=tuple(saved["names"]),
        params=params,
        vcov_sampling=_array_in(saved["vcov_sampling"]),
        vcov_privacy=_array_in(saved["vcov_privacy"]),
        bias=_array_in(saved.get("bias")),  # absent in files of 0.1.0
        released=saved["released"],
        stats={k: _number_in(v) for k, v in saved["stats"].items()},
        notes=tuple(saved["notes"]),
        warnings=tuple(saved["warnings"]),
        arrays={k: v for k, v in arrays.items() if v is not None},
        use_t=saved["use_t"],
        bias_bound=_bound_in(saved.get("bias_bound")),  # these two are absent in older files
        untested=_mask_in(saved.get("untested")),
    )
