"""The record of a run, as an output checker asks for it, and a folder held against it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpmodels.errors import DPModelsError, RequestError
from dpmodels.privacy.guarantee import joint
from dpmodels.privacy.ledger_text import kind_of
from dpmodels.study.asked import canonical_hash
from dpmodels.study.folder import RECORD, files_of, hash_of, read_json
from dpmodels.tables import Shown, Table, plain
from dpmodels.tables.files import check_seal, sealed
from dpmodels.units.person import named
from dpmodels.verbs import verb_of

FORMAT, VERSION = "dpmodels.study", 1
#: The JSON schema of a record, in this folder.
SCHEMA = "record.schema.json"
_NOISE = "not applicable: every number holds noise for whatever one unit could change"
#: Rules of output checkers that exact outputs are held against, and why they are not here.
RULES = {
    "minimum cell count": _NOISE,
    "dominance (n,k) and p %": _NOISE,
    "zero and full cells": _NOISE,
    "minimum, maximum, percentiles": "not applicable: no value of a row is given",
    "residual degrees of freedom": _NOISE,
    "differencing between outputs": "covered: the guarantee of all outputs together",
}


def record_text(ran: Any, run: Mapping[str, Any], outputs: Any, budget: Any) -> str:
    """Return the record of a run as JSON text, with its checksum."""
    from dpmodels.api.versions import versions

    paper = ran.paper
    ours = [charge for o in ran.outcomes for charge in o.charges]
    numbers = [charge.number for charge in ours]
    every = budget.charges
    before = [c for c in every if not numbers or c.number < min(numbers)]
    upto = [c for c in every if not numbers or c.number <= max(numbers)]
    together = joint([c.guarantee for c in ours]) if ours else None
    whole = {
        "format": FORMAT, "version": VERSION, "run": dict(run),
        "study": {"text": paper.said, "sha256": paper.hash},
        "software": versions(), "seeds": [] if run["mode"] == "run" else [1, 20],
        "guarantee": None if together is None else _promise(together),
        "ledger": {
            "eps": budget.eps, "delta": budget.delta, "relation": budget.relation,
            "unit": budget.unit, "before": _position(before), "after": _position(upto),
        },
        "releases": [_release(o) for o in ran.outcomes],
        "missing": ran.missing,
        "outputs": [
            {"name": name, "kind": kind, "of": of, "sha256": hash_of(ran.folder / name)}
            for name, kind, of in outputs
        ],
    }  # fmt: skip
    return json.dumps(sealed(whole), indent=1, ensure_ascii=False) + "\n"


def _position(charges: list[Any]) -> dict[str, Any]:
    return {
        "calls": len(charges),
        "eps": sum(c.guarantee.eps for c in charges),
        "delta": sum(c.guarantee.delta for c in charges),
    }


def _promise(guarantee: Any) -> dict[str, Any]:
    return {
        "eps": guarantee.eps, "delta": guarantee.delta, "relation": guarantee.relation,
        "unit": named(guarantee.unit), "neighbours": guarantee.neighbours,
        "statement": guarantee.statement(),
    }  # fmt: skip


def _release(outcome: Any) -> dict[str, Any]:
    """Return what is asked about one release."""
    asked, charges = outcome.asked, outcome.charges
    guarantee = charges[-1].guarantee if charges else getattr(outcome.fit, "privacy", None)
    fit = outcome.fit
    mechanisms = [] if guarantee is None else [
        {"what": s.name, "mechanism": kind_of(s), "parameters": _parameters(s.mechanism),
         "failure": s.failure}
        for s in guarantee.steps
    ]  # fmt: skip
    return {
        "name": asked.name, "verb": asked.verb, "formula": asked.formula,
        "options": dict(asked.options), "from": asked.source, "status": outcome.status,
        "reason": outcome.reason,
        "statistic": f"{verb_of('dp_' + asked.verb).title}, {asked.formula}",
        "method": getattr(fit, "method", None),
        "n": None if fit is None else fit.nobs,
        "charged": [{"number": c.number, "eps": c.guarantee.eps, "delta": c.guarantee.delta}
                    for c in charges],
        "guarantee": None if guarantee is None else _promise(guarantee),
        "mechanisms": mechanisms,
        "noise": {} if fit is None else {k: float(v) for k, v in fit.facts.scales.items()
                                         if v == v and abs(v) != float("inf")},
        "exact_numbers_of_the_data": "none, but for n, which this relation makes public"
        if fit is not None and fit.nobs is not None else "none",
        "rules": RULES,
    }  # fmt: skip


def _parameters(mechanism: Any) -> dict[str, Any]:
    found = {k: v for k, v in vars(mechanism).items() if isinstance(v, (int, float))}
    return {**found, **{k: v for k, v in getattr(mechanism, "parameters", ())}}


@dataclass(frozen=True, repr=False)
class Verified(Shown):
    """A folder held against its record, and against the ledger.

    Attributes
    ----------
    problems : tuple of str
        What does not hold; empty: all does.
    record : dict
    against : str
        What the totals were held against.
    """

    problems: tuple[str, ...]
    record: Mapping[str, Any]
    against: str

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.problems

    def table(self) -> Table:
        """Return what left, and what it cost."""
        rows = [(o["name"], o["kind"], o["of"], o["sha256"][:12]) for o in self.record["outputs"]]
        promise = self.record["guarantee"] or {"statement": "nothing was charged"}
        rehearsed = self.record["run"]["mode"] == "rehearsal"
        facts = (
            ("Study", self.record["study"]["text"]["study"]["title"]),
            ("Verdict", "DOES NOT HOLD" if self.problems else "holds"),
            ("Guarantee", "none: a REHEARSAL" if rehearsed else promise["statement"]),
            ("Held against", self.against),
        )
        notes = (*self.problems, *(f"not given: {text}" for text in self.record["missing"]))
        return replace(plain(("output", "what", "of", "sha256"), rows), title="Outputs of a study",
                       facts=facts, notes=notes)  # fmt: skip


def verify(folder: Path, ledger: Any = None) -> Verified:
    """Hold a folder against its record: hashes, totals, the guarantee, the ledger.

    Raises
    ------
    RequestError
        There is no whole record.
    """
    if not (folder / RECORD).is_file():
        raise RequestError("the folder has no record.json: its run has not ended. Run it again")
    record = read_json(folder / RECORD)
    if record.get("format") != FORMAT or record.get("version") != VERSION:
        raise RequestError("record.json is damaged, or of another version of dpmodels")
    problems: list[str] = []
    try:
        problems += check_seal(record, "record.json", "Run again") and ["it has no checksum"]
    except DPModelsError as error:
        problems.append(str(error))
    problems += _of_files(folder, record)
    problems += _of_totals(folder, record)
    against = "the record and the fits"
    if ledger is not None:
        problems += _of_ledger(record, ledger)
        against = "the record, the fits and the ledger"
    return Verified(tuple(problems), record, against)


def _of_files(folder: Path, record: Mapping[str, Any]) -> Iterator[str]:
    listed = {one["name"]: one["sha256"] for one in record["outputs"]}
    for name, wanted in listed.items():
        if not (folder / name).is_file():
            yield f"{name} is missing"
        elif hash_of(folder / name) != wanted:
            yield f"{name} is not as it was written"
    for name in files_of(folder):
        if name not in {*listed, RECORD}:
            yield f"{name} is not in the record: it is no output of this run"
    if canonical_hash(record["study"]["text"]) != record["study"]["sha256"]:
        yield "the text of the study is not the one of its hash"


def _of_totals(folder: Path, record: Mapping[str, Any]) -> Iterator[str]:
    """Compose what the fits say they cost, and compare."""
    from dpmodels.results import load

    guarantees = []
    for one in record["releases"]:
        if one["from"] or one["status"] not in ("released", "no reply"):
            continue
        with suppress(DPModelsError):
            fit = load(folder / "fits" / f"{one['name']}.json")
            guarantees += [fit.privacy] * len(one["charged"])
            if fit.privacy.seeded and record["run"]["mode"] == "run":
                yield f"{one['name']} is not private: its noise was seeded"
            continue
        yield f"fits/{one['name']}.json cannot be read"
    lost = any(r["status"] == "lost" and r["charged"] for r in record["releases"])
    if guarantees and not lost:  # what was lost has left no fit: the ledger has it
        total = joint(guarantees)
        if abs(total.eps - record["guarantee"]["eps"]) > 1e-9 * total.eps:
            yield (f"the fits compose to eps = {total.eps:.6g}, the record says "
                   f"{record['guarantee']['eps']:.6g}")  # fmt: skip


def _of_ledger(record: Mapping[str, Any], ledger: Any) -> Iterator[str]:
    from dpmodels.privacy.ledger import Budget
    from dpmodels.study.running import charges_of

    budget = Budget.open_readonly(ledger)
    if budget.token != record["run"]["ledger"]:
        yield "this is not the ledger of the run"
        return
    for one in record["releases"]:
        held = charges_of(budget, record["study"]["sha256"], one["name"])
        pairs = [{"number": c.number, "eps": c.guarantee.eps, "delta": c.guarantee.delta}
                 for c in held]  # fmt: skip
        if pairs != one["charged"]:
            yield f"{one['name']}: the ledger has {pairs}, the record {one['charged']}"
