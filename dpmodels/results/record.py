"""The record behind a fit: public facts, the guarantee, and released numbers. No rows.

``Fit`` is a face on a :class:`Record`; its portable form is JSON with a format version, the record
written down. What is read of its design, and the ledger of its call, stand below.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpmodels._version import __version__
from dpmodels.after.inference import Allowance, BiasBound, read_only
from dpmodels.arrays import Array
from dpmodels.errors import RequestError, damage_reported
from dpmodels.formula.design import Design
from dpmodels.formula.survival import design_from
from dpmodels.messages import PROOF
from dpmodels.notes import note_of
from dpmodels.planning import Plan
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.reports import Ledger, returned_text
from dpmodels.quiet import tell
from dpmodels.records import USABLE_ROWS, Estimate, Release, Request
from dpmodels.registry import Backend, method_names, resolve
from dpmodels.tables.table import check_seal, sealed
from dpmodels.units import column_of, named
from dpmodels.verbs import function_of


@dataclass(frozen=True)
class Call:
    """The public words of a call: a ``Request`` without method object, schema and public data."""

    verb: str
    formula: str
    # method, method_title, privacy_se: name and title of the method, and what its ``bse_privacy``
    # means ("public", "released", "unavailable").
    method: str
    method_title: str
    privacy_se: str
    inference: bool = True
    level: float = 0.95
    relation: str = "replace"
    na: str = "zero-row"
    on_no_reply: str = "return"
    # Plain values only; anything else is kept as its type's name.
    options: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    identifier: str = ""
    survey: Mapping[str, Any] | None = None  # The design of the sample, ``Survey.to_dict()``
    # Declarations of its columns of units and strata, as a schema.
    labels: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, request: Request, backend: Backend | None = None) -> Call:
        """Copy the public arguments of a request, and the ending that its method took."""
        return cls(
            verb=request.verb,
            formula=request.formula,
            method=request.method.name,
            method_title=(backend.title if backend else "") or request.method.title,
            privacy_se=request.method.privacy_se,
            inference=bool(request.inference),
            level=float(request.level),
            relation=request.relation,
            na=request.na,
            on_no_reply=request.on_no_reply,
            options={str(k): plain(v) for k, v in request.options.items()},
            reasons=tuple(request.reasons),
            identifier=request.identifier,
            survey=None if request.sample is None else request.sample.frame.survey.to_dict(),
            labels=None if request.sample is None else request.sample.declared,
        )


@dataclass(frozen=True)
class Record:
    """Everything a fit keeps."""

    call: Call
    design: Any  # With every interval known (estimated ones filled in)
    guarantee: Guarantee
    estimate: Estimate  # Arrays are read-only copies
    n: int | None  # Public number of rows
    # Shares and scales of the plan.
    shares: Mapping[str, float] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    bought: tuple[str, ...] = ()  # Columns whose range was estimated
    why: str = ""  # For a no-reply: which kind of step ended the run
    ended: str = ""  # For a no-reply: the last step that was drawn
    returned: str = ""  # Returned part of the charge as text, empty if nothing went back
    parts: tuple[Mapping[str, Any], ...] = ()  # Charges of the sites of a pooled release
    #: A noised table that the fit was made from: public, kept in memory, left out of files.
    # The release of ``method="drcl"`` and its kin.
    table: Any = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "table": None}

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain lists, numbers and text: a result keeps it by this."""
        return to_dict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Record:
        """Return the record that :meth:`to_dict` wrote down."""
        return from_dict(saved)

    @classmethod
    def of(cls, plan: Plan[Any], release: Release, estimate: Estimate) -> Record:
        """Keep the public and released parts of plan, release and estimate."""
        return cls(
            call=Call.of(plan.request, plan.backend),
            design=release.design,
            guarantee=release.guarantee,
            estimate=frozen(estimate, bool(release.reply and estimate.released)),
            n=None if plan.n is None else int(plan.people or plan.n),
            shares={str(k): float(v) for k, v in plan.shares.items()},
            scales={str(k): float(v) for k, v in plan.scales.items()},
            bought=tuple(plan.purchase.columns) if plan.purchase is not None else (),
            why=release.why,
            ended=release.ended,
            returned="" if release.back is None else returned_text(release.back),
            table=release.detail if hasattr(release.detail, "__noisy_table__") else None,
        )


def plain(value: Any) -> Any:
    """Return ``value`` if it is a plain scalar, string or list of these, else its type name."""
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


def frozen(estimate: Estimate, released: bool) -> Estimate:
    """Copy an estimate, with read-only arrays and plain floats."""
    names = ("params", "vcov_sampling", "vcov_privacy", "bias")
    untested = estimate.untested
    if untested is not None:
        untested = np.array(untested, dtype=bool)
        untested.setflags(write=False)
    return replace(
        estimate,
        names=tuple(map(str, estimate.names)),
        **read_only({name: getattr(estimate, name) for name in names}),
        bias_bound=None if estimate.bias_bound is None else estimate.bias_bound.frozen(),
        untested=untested,
        released=released,
        stats={str(k): float(v) for k, v in estimate.stats.items()},
        notes=tuple(map(note_of, estimate.notes)),
        warnings=tuple(map(str, estimate.warnings)),
        arrays=read_only({str(k): v for k, v in estimate.arrays.items()}),
    )


def row_norm(design: Design) -> float:
    """Return the bound on the Euclidean norm of a row of X; NaN if a range is not known."""
    return float(design.row_norm())


def response(design: Design) -> str:
    """Return the name of the response; empty if there is none."""
    return "" if design.response is None else design.response.name


def event(design: Design) -> str:
    """Return ``income = '>50K'`` for a two-level response, whose second level is the event."""
    levels = design.levels if design.response_ok == "event" else ()
    is_word = len(levels) == 2 and design.response is not None and levels[1] not in (1, True)
    return f"{response(design)} = {levels[1]!r}" if is_word else ""


def rows_used(design: Design) -> list[tuple[str, str]]:
    """Return the arguments that choose or weigh rows, as header pairs."""
    facts = [("Subset", design.subset), ("Weights", design.weights)]
    return [(label, str(text)) for label, text in facts if text]


def has_ranges(design: Design) -> bool:
    """Return whether the range of any column is in force."""
    return any(c.interval is not None for c in design.z if c.kind != "intercept")


def interval_of(design: Design, column: str) -> tuple[float, float] | None:
    """Return the interval in force of a design column or the response, None if unknown."""
    return next((c.interval for c in design.z if c.name == column), None)


def papers_of(reference: str) -> str:
    """Return the papers of a reference, without files of this project."""
    parts = (part.strip() for part in reference.split(";"))
    return "; ".join(p for p in parts if ".md" not in p and "theory note" not in p)


def methods_paragraph(record: Record) -> str:
    """Return the description of a fit for a methods section: all of it public."""
    promise, call = record.guarantee, record.call
    if promise.seeded:
        return "NOT PRIVATE: the noise was seeded, so this fit is for trying out, not for reports."
    count = len(promise.steps)
    gaussian = all(isinstance(step.mechanism, Gaussian) for step in promise.steps)
    noise = "Gaussian noise" if gaussian else "calibrated noise"
    composed = "composed exactly as Gaussian differential privacy" if gaussian else (
        "composed by the tightest proved bound"
    )  # fmt: skip
    is_registered = call.method in method_names(call.verb)
    reference = papers_of(resolve(call.verb, call.method).reference) if is_registered else ""
    parts = [
        f"Estimates are ({promise.eps:g}, {promise.delta:g})-differentially private. Neighbouring "
        f"tables: {promise.neighbours}; unit of privacy: {named(promise.unit)}.",
        f"{noise[0].upper()}{noise[1:]} was added to {count} released "
        f"statistic{'s' if count > 1 else ''}" + (f", {composed}." if count > 1 else "."),
        f'Method: {call.method_title} ({call.verb}, method="{call.method}"'
        + (f"; {reference})." if reference else ")."),
    ]
    est = record.estimate
    if est.vcov_sampling is not None and est.vcov_privacy is not None:
        held = "sampling error and privacy noise"
        held += "" if est.bias is None else ", and a bound of the bias that clipping may leave"
        parts.append(f"Standard errors, tests and intervals hold {held}.")
    parts += [note.text() for note in promise.notes if note.code != PROOF.code]
    return " ".join([*parts, f"Software: dpmodels {__version__}."])


def has_method_test(guarantee: Guarantee) -> bool:
    """Return whether a private test is part of the method; the look at usable rows is none."""
    return any(step.reply_test and step.name != USABLE_ROWS for step in guarantee.steps)


def ledger_of(record: Record) -> Ledger:
    """Return the charges of a record, one line per step."""
    if record.parts:
        return function_of("dpmodels.api.pool:pooled_ledger")(record)
    call = record.call
    counted = "n" if column_of(record.guarantee.unit) is None else "people"
    n = "" if record.n is None else f", {counted} = {record.n}"
    return Ledger(
        call=f'{call.verb}("{call.formula}", method="{call.method}")',
        guarantee=record.guarantee,
        notes=outcomes(record),
        public=f"schema, formula{n}, method, shares",
    )


def outcomes(record: Record) -> dict[str, str]:
    """Return the outcome of each step that matters: "reply", "NO REPLY", "returned", "charged".

    All of it is charged output of the mechanism. Steps after the one that ended the run
    are charged although nothing was drawn, or were given back: their absence is an output.
    """
    steps = record.guarantee.steps
    tests = [k for k, step in enumerate(steps) if step.reply_test]
    if record.estimate.released or not tests:
        return {steps[k].name: "reply" for k in tests}
    end = next((k for k, step in enumerate(steps) if step.name == record.ended), tests[-1])
    notes = {steps[k].name: "reply" for k in tests if k < end}
    notes[steps[end].name] = "NO REPLY"
    after = "returned" if record.returned else "charged"
    return notes | {step.name: after for step in steps[end + 1 :]}


FORMAT = "dpmodels.fit"
VERSION = 2
#: Formats that can be read: notes of format 1 are plain strings.
READ = (1, 2)
#: Name of the file in messages of damage, and the remedy.
WHAT, AGAIN = "this saved fit", "Write it again with fit.save(path), or use a copy"


def to_dict(record: Record) -> dict[str, Any]:
    """Return a record as plain lists, numbers and text."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "dpmodels": __version__,
        "call": {
            **vars(record.call),
            "options": dict(record.call.options),
            "reasons": list(record.call.reasons),
        },
        "design": record.design.to_dict(),
        "n": record.n,
        "shares": dict(record.shares),
        "scales": dict(record.scales),
        "bought": list(record.bought),
        "why": record.why,
        **({"ended": record.ended} if record.ended else {}),
        **({"returned": record.returned} if record.returned else {}),
        **({"parts": list(record.parts)} if record.parts else {}),
        "guarantee": record.guarantee.to_dict(),
        "estimate": _estimate_out(record.estimate),
    }


def from_dict(saved: Mapping[str, Any]) -> Record:
    """Return the record that :func:`to_dict` wrote down."""
    if not isinstance(saved, Mapping) or saved.get("format") != FORMAT:
        raise RequestError("this is not a saved dpmodels fit. Write one with fit.save(path)")
    if saved.get("version") not in READ:
        raise RequestError(
            f"This fit was saved in format {saved.get('version')!r}; this version of dpmodels "
            f"reads formats up to {VERSION}. Install dpmodels {saved.get('dpmodels')}."
        )
    with damage_reported(WHAT, AGAIN):
        estimate = _estimate_in(saved["estimate"])
        return _checked(
            Record(
                call=Call(**{**saved["call"], "reasons": tuple(saved["call"]["reasons"])}),
                design=design_from(saved["design"]),
                guarantee=Guarantee.from_dict(saved["guarantee"]),
                estimate=frozen(estimate, estimate.released),
                n=saved["n"],
                shares=dict(saved["shares"]),
                scales={k: float(v) for k, v in saved["scales"].items()},
                bought=tuple(saved["bought"]),
                why=saved["why"],
                ended=str(saved.get("ended", "")),
                returned=str(saved.get("returned", "")),
                parts=tuple(saved.get("parts", ())),
            )
        )


def _checked(record: Record) -> Record:
    """Return a record whose parts fit together."""
    est = record.estimate
    p = len(est.names)
    texts = (record.why, record.ended, *est.names, *est.warnings, *record.bought)
    sizes = [(est.params, (p,)), (est.vcov_sampling, (p, p)), (est.vcov_privacy, (p, p))]
    if (
        any(array is not None and array.shape != shape for array, shape in sizes)
        or not all(isinstance(text, str) for text in texts)
        or not (record.n is None or type(record.n) is int)
        or type(est.released) is not bool
        or not isinstance(record.call.verb, str)
    ):
        raise ValueError("its parts do not fit together")
    return record


def dumps(record: Record) -> str:
    """Return a record as JSON text, floats to the last bit, NaN and infinity as text."""
    saved = sealed(_strict(to_dict(record)))
    return json.dumps(saved, allow_nan=False, indent=1, ensure_ascii=False)


def loads(text: str) -> Record:
    """Return the record in a JSON text."""
    saved: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        saved = json.loads(text)
    if isinstance(saved, Mapping) and saved.get("format") == FORMAT:
        tell(*check_seal(saved, WHAT, AGAIN))
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


def _array_out(array: Array | None) -> dict[str, Any] | None:
    if array is None:
        return None
    return {"shape": list(array.shape), "values": np.asarray(array).ravel().tolist()}


def _array_in(saved: Mapping[str, Any] | None) -> Array | None:
    """Return an array from its saved form, or None."""
    if saved is None:
        return None
    values = np.array([float(v) for v in saved["values"]], dtype=float)
    return np.asarray(values.reshape(saved["shape"]))


def _bound_out(bound: BiasBound | None) -> Any:
    """Return the parts of a bound: numbers as they are, arrays with their shapes."""
    if bound is None:
        return None
    out = []
    for T, allowance in bound.parts:
        fields: dict[str, Any] = {
            k: _array_out(v) if isinstance(v, np.ndarray) else v for k, v in vars(allowance).items()
        }
        out.append({"map": _array_out(T), **fields})
    return out


def _bound_in(saved: Any) -> BiasBound | None:
    """Return the bound of bias from its saved form, or None.

    None if it has parts that this version does not know: bounds of combinations are then the sums
    of those of their coefficients, which are larger.
    """
    if saved is None:
        return None
    parts: list[tuple[Any, Allowance]] = []
    known = {"map", *Allowance.__dataclass_fields__}
    for part in saved:
        if not known >= set(part):
            return None
        fields: dict[str, Any] = {k: _array_in(v) if isinstance(v, dict) and "shape" in v else v
                  for k, v in part.items()}  # fmt: skip
        parts.append((fields.pop("map"), Allowance(**fields)))
    return BiasBound(tuple(parts))


def _estimate_out(est: Estimate) -> dict[str, Any]:
    """Return an estimate in the form in which it is saved."""
    return {
        "names": list(est.names),
        "params": _array_out(est.params),
        "vcov_sampling": _array_out(est.vcov_sampling),
        "vcov_privacy": _array_out(est.vcov_privacy),
        "bias": _array_out(est.bias),
        "released": est.released,
        "stats": dict(est.stats),
        "notes": [note_of(note).to_dict() for note in est.notes],
        "warnings": list(est.warnings),
        "arrays": {k: _array_out(v) for k, v in est.arrays.items()},
        "use_t": est.use_t,
        "bias_bound": _bound_out(est.bias_bound),
        "untested": None if est.untested is None else est.untested.tolist(),
    }


def _estimate_in(saved: Mapping[str, Any]) -> Estimate:
    """Return an estimate from its saved form."""
    params, untested = _array_in(saved["params"]), saved.get("untested")
    assert params is not None
    arrays = {k: _array_in(v) for k, v in saved["arrays"].items()}
    return Estimate(
        names=tuple(saved["names"]),
        params=params,
        vcov_sampling=_array_in(saved["vcov_sampling"]),
        vcov_privacy=_array_in(saved["vcov_privacy"]),
        bias=_array_in(saved.get("bias")),  # absent in files of 0.1.0
        released=saved["released"],
        stats={k: float(v) for k, v in saved["stats"].items()},
        notes=tuple(map(note_of, saved["notes"])),
        warnings=tuple(saved["warnings"]),
        arrays={k: v for k, v in arrays.items() if v is not None},
        use_t=saved["use_t"],
        bias_bound=_bound_in(saved.get("bias_bound")),  # these two are absent in older files
        untested=None if untested is None else np.array(untested, dtype=bool),
    )
