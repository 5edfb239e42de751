"""The record of a run, as an output checker asks for it, and a folder held against it."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import sqlite3
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpmodels.api.call import versions
from dpmodels.errors import BudgetError, DamagedError, DPModelsError, RequestError, damage_reported
from dpmodels.privacy.account import joint
from dpmodels.privacy.budget import Budget
from dpmodels.privacy.reports import kind_of
from dpmodels.results import load
from dpmodels.study.asked import canonical_hash
from dpmodels.tables.table import Shown, Table, check_seal, plain, sealed
from dpmodels.units import named
from dpmodels.verbs import verb_of

# -- The folder of a run: files that are whole or not there, and one run at a time.


RECORD, STARTED = "record.json", "started.json"
#: The one file that is not under its name yet; and the Word file that is packed again.
_PART, _WORD = ".part-study", ".part-study-word.docx"
#: When all files were written, as the disk has it: 1980-01-02, the first day of zip files.
_NO_TIME = 315_619_200


@contextmanager
def hold_ledger(ledger: Path) -> Iterator[None]:
    """Hold a ledger for one run of a study; refuse a second one, which charges nothing.

    The lock is SQLite's on a file beside the ledger: the system frees it when a process is killed.
    """
    place = ledger.resolve()
    if not place.parent.is_dir():
        raise BudgetError(f"there is no directory {str(place.parent)!r} for the ledger")
    lock = sqlite3.connect(place.with_name(place.name + "-run"), timeout=0, isolation_level=None)
    try:
        free = False
        with suppress(sqlite3.OperationalError):
            lock.execute("BEGIN IMMEDIATE")
            free = True
        if not free:
            raise BudgetError(
                "another run of a study holds this ledger. Nothing was read and nothing was "
                "charged by this one. Wait until it has ended: run again then, with its folder, "
                "and its releases are read back"
            )
        yield
    finally:
        lock.close()


class Folder:
    """A folder written file by file, each under another name first; ``whose``: study, ledger, mode.

    A folder that is not of this run is refused as it is. In its own folder only files that this run
    wrote are removed.
    """

    def __init__(self, path: Path, whose: Mapping[str, Any]) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise RequestError("--out is a file: give a new or empty folder")
        path.mkdir(parents=True, exist_ok=True)
        names = [n for n in (STARTED, RECORD) if (path / n).is_file()]
        records = [read_json(path / n) for n in names]
        if not records and any(entry.name != _PART for entry in path.iterdir()):
            raise RequestError("the folder of --out holds other files: give a new or empty folder")
        if records and records[0].get("run") != dict(whose):
            raise RequestError(
                "the folder of --out holds the run of another study, ledger or rehearsal (a study "
                "that was changed is another one): give a new or empty folder"
            )
        for left in (path / _PART, path / _WORD):  # of a run that was killed while it wrote
            if left.is_file():
                left.unlink()
        self._earlier = [name for record in records for name in _written(record)]
        self.write(STARTED, json.dumps({"run": dict(whose), "earlier": self._earlier}))
        with suppress(FileNotFoundError):
            (path / RECORD).unlink()  # written again at the end

    def write(self, name: str, content: str | bytes) -> None:
        """Write a complete file: under a temporary name, to the disk, then under its name."""
        place, aside = self.path / name, self.path / _PART
        place.parent.mkdir(exist_ok=True)
        with aside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.utime(aside, (_NO_TIME, _NO_TIME))
        aside.replace(place)

    def write_word(self, name: str, table: Any) -> None:
        """Write a table as a Word file, without the time that its parts were packed."""
        aside, packed = self.path / _WORD, io.BytesIO()
        table.to_word(aside)
        with zipfile.ZipFile(aside) as old, zipfile.ZipFile(packed, "w") as new:
            for member in old.infolist():
                new.writestr(
                    zipfile.ZipInfo(member.filename), old.read(member), zipfile.ZIP_DEFLATED
                )
        aside.unlink()
        self.write(name, packed.getvalue())

    def finish(self, record: str, listed: Any) -> None:
        """Write the record last; tables of an earlier version of the same run go."""
        for name in {*self._earlier} - {*listed}:
            if name.startswith("tables/"):
                (self.path / name).unlink(missing_ok=True)
        self.write(RECORD, record)
        (self.path / STARTED).unlink()


def _written(record: Mapping[str, Any]) -> list[str]:
    """Return the names of the files listed by an earlier run into a folder."""
    outputs, earlier = record.get("outputs"), record.get("earlier")
    names = [output.get("name") for output in outputs or () if isinstance(output, dict)]
    names += earlier if isinstance(earlier, list) else []
    return [n for n in names if isinstance(n, str) and ".." not in Path(n).parts]


def files_of(path: Path) -> list[str]:
    """Return the names of all files of a folder."""
    return sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; empty where it is none."""
    with suppress(ValueError, OSError, RecursionError):
        contents = json.loads(path.read_text(encoding="utf-8"))
        return contents if isinstance(contents, dict) else {}
    return {}


# -- The record of a run, as an output checker asks for it, and a folder held against it.


#: Name and version of the format that ``record.schema.json`` describes.
FORMAT, VERSION = "dpmodels.study", 1
_NOISE = "not applicable: every number holds noise for whatever one unit could change"
#: Rules of output checkers that exact outputs are held against, and why they are not here.
RULES = {
    "minimum cell count": _NOISE,
    "dominance (n,k) and p %": _NOISE,
    "zero and full cells": _NOISE,
    "residual degrees of freedom": _NOISE,
    "minimum, maximum, percentiles": "not applicable: drawn with noise, none is copied from a row",
    "differencing between outputs": "covered: the guarantee of all outputs together",
}


def mark_of(study: str, name: str, token: str) -> str:
    """Return the ending of the line of a release: a hash of study, name and ledger."""
    identity = hashlib.sha256(f"{study}\n{name}\n{token}".encode()).hexdigest()[:32]
    return f" | {name} of study {identity}"


def charges_of(budget: Budget, study: str, name: str) -> list[Any]:
    """Return the charges of a release in a ledger."""
    mark = mark_of(study, name, budget.token)
    return [charge for charge in budget.charges if charge.call.endswith(mark)]


def record_text(ran: Any, outputs: Any, budget: Any) -> str:
    """Return the record of a run as JSON text, with its checksum."""
    paper, private = ran.paper, not ran.rehearsal
    ours = [charge for o in ran.outcomes for charge in o.charges]
    numbers = [charge.number for charge in ours] or [math.inf]
    every = budget.charges
    record = {
        "format": FORMAT, "version": VERSION,
        "run": {"study": paper.hash, "ledger": budget.token,
                "mode": "run" if private else "rehearsal"},
        "study": {"text": paper.said, "sha256": paper.hash},
        "software": versions(), "seeds": [] if private else [1, 20],
        "guarantee": _promise(joint([c.guarantee for c in ours])) if ours else None,
        "ledger": {
            "eps": budget.eps, "delta": budget.delta, "relation": budget.relation,
            "unit": budget.unit,
            "before": _position(c for c in every if c.number < min(numbers)),
            "after": _position(c for c in every if c.number <= max(numbers)),
        },
        "releases": [_release(o) for o in ran.outcomes], "missing": ran.missing,
        "outputs": [
            {"name": name, "kind": kind, "of": of, "sha256": hash_of(ran.folder / name)}
            for name, kind, of in outputs
        ],
    }  # fmt: skip
    return json.dumps(sealed(record), indent=1, ensure_ascii=False) + "\n"


def _position(charges: Any) -> dict[str, Any]:
    pairs = [(c.guarantee.eps, c.guarantee.delta) for c in charges]
    eps, delta = (math.fsum(pair[k] for pair in pairs) for k in (0, 1))
    return {"calls": len(pairs), "eps": eps, "delta": delta}


def _promise(guarantee: Any) -> dict[str, Any]:
    """Return the guarantee of a release as it is recorded."""
    return {
        "eps": guarantee.eps, "delta": guarantee.delta, "relation": guarantee.relation,
        "unit": named(guarantee.unit), "neighbours": guarantee.neighbours,
        "statement": guarantee.statement(),
    }  # fmt: skip


def _charged(charges: Any) -> list[dict[str, Any]]:
    return [
        {"number": c.number, "eps": c.guarantee.eps, "delta": c.guarantee.delta} for c in charges
    ]


def _release(outcome: Any) -> dict[str, Any]:
    """Return the request of one release."""
    request, fit, charges = outcome.asked, outcome.fit, outcome.charges
    guarantee = charges[-1].guarantee if charges else getattr(fit, "privacy", None)
    scales = {} if fit is None else fit.facts.scales
    n = None if fit is None else fit.nobs
    return {
        "name": request.name, "verb": request.verb, "formula": request.formula,
        "options": dict(request.options), "from": request.source, "status": outcome.status,
        "reason": outcome.reason,
        "statistic": f"{verb_of('dp_' + request.verb).title}, {request.formula}",
        "method": getattr(fit, "method", None), "n": n, "charged": _charged(charges),
        "guarantee": None if guarantee is None else _promise(guarantee),
        "mechanisms": [
            {"what": s.name, "mechanism": kind_of(s), "parameters": _parameters(s.mechanism),
             "failure": s.failure}
            for s in (() if guarantee is None else guarantee.steps)
        ],
        "noise": {k: float(v) for k, v in scales.items() if math.isfinite(v)},
        "exact_numbers_of_the_data": "none" + (
            "" if n is None else ", but for n, which this relation makes public"
        ),
        "rules": RULES,
    }  # fmt: skip


def _parameters(mechanism: Any) -> dict[str, Any]:
    numbers = {k: v for k, v in vars(mechanism).items() if isinstance(v, (int, float))}
    return {**numbers, **dict(getattr(mechanism, "parameters", ()))}


@dataclass(frozen=True, repr=False)
class Verified(Shown):
    """Comparison of a folder with its record and the ledger; ``problems`` are differences."""

    problems: tuple[str, ...]
    record: Mapping[str, Any]
    against: str

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.problems

    def table(self) -> Table:
        """Return the table of outputs and their cost, or the verdict alone for a damaged record."""
        if not self.record:
            facts = (("Verdict", "DOES NOT HOLD"), ("Held against", self.against))
            return Table(title="Outputs of a study", facts=facts, notes=self.problems)
        rows = [(o["name"], o["kind"], o["of"], o["sha256"][:12]) for o in self.record["outputs"]]
        cost = (self.record["guarantee"] or {"statement": "nothing was charged"})["statement"]
        rehearsed = self.record["run"]["mode"] == "rehearsal"
        return plain(
            ("output", "what", "of", "sha256"), rows, title="Outputs of a study",
            facts=(
                ("Study", self.record["study"]["text"]["study"]["title"]),
                ("Verdict", "DOES NOT HOLD" if self.problems else "holds"),
                ("Guarantee", "none: a REHEARSAL" if rehearsed else cost),
                ("Held against", self.against),
            ),
            notes=(*self.problems, *(f"not given: {text}" for text in self.record["missing"])),
        )  # fmt: skip


def verify(folder: Path, ledger: Any = None) -> Verified:
    """Hold a folder against its record: hashes, totals, the guarantee, the ledger."""
    if not (folder / RECORD).is_file():
        raise RequestError("the folder has no record.json: its run has not ended. Run it again")
    record = read_json(folder / RECORD)
    if record.get("format") != FORMAT or record.get("version") != VERSION:
        raise RequestError("record.json is damaged, or of another version of dpmodels")
    against = "the record and the fits" if ledger is None else "the record, the fits and the ledger"
    budget = None if ledger is None else Budget.open_readonly(ledger)
    if "checksum" not in record:
        problem = "record.json is damaged: its checksum is gone. Run it again"
        return Verified((problem,), {}, against)
    try:
        with damage_reported("record.json", "Run it again"):
            check_seal(record, "record.json", "Run it again")
            problems = [*_of_files(folder, record), *_of_totals(folder, record)]
            problems += () if budget is None else _of_ledger(record, budget)
            verified = Verified(tuple(problems), record, against)
            str(verified)  # the record can be shown
            return verified
    except DamagedError as error:  # nothing more is read of it
        return Verified((str(error),), {}, against)


def _of_files(folder: Path, record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between the files of a folder and its record."""
    listed = {output["name"]: output["sha256"] for output in record["outputs"]}
    present = {*files_of(folder)} - {RECORD}
    yield from (f"{name} is missing" for name in sorted({*listed} - present))
    yield from (f"{name} is not an output of this run" for name in sorted(present - {*listed}))
    for name in sorted(present & {*listed}):
        if hash_of(folder / name) != listed[name]:
            yield f"{name} is not as it was written"
    if canonical_hash(record["study"]["text"]) != record["study"]["sha256"]:
        yield "the text of the study is not the one of its hash"


def _of_totals(folder: Path, record: Mapping[str, Any]) -> Iterator[str]:
    """Compose the charges of the fits and compare; lost fits are not counted."""
    paid = [release for release in record["releases"] if release["charged"]]
    guarantees = []
    for release in (release for release in paid if release["status"] != "lost"):
        try:
            promise = load(folder / "fits" / f"{release['name']}.json").privacy
        except DPModelsError:
            yield f"fits/{release['name']}.json cannot be read"
            return
        guarantees += [promise] * len(release["charged"])
        if promise.seeded and record["run"]["mode"] == "run":
            yield f"{release['name']} is not private: its noise was seeded"
    if guarantees and not any(release["status"] == "lost" for release in paid):
        total, recorded = joint(guarantees).eps, record["guarantee"]["eps"]
        if abs(total - recorded) > 1e-9 * total:
            yield f"the fits compose to eps = {total:.6g}, the record says {recorded:.6g}"


def _of_ledger(record: Mapping[str, Any], budget: Budget) -> Iterator[str]:
    """Yield the differences between a ledger and the record of a run."""
    if budget.token != record["run"]["ledger"]:
        yield "this is not the ledger of the run"
        return
    for release in record["releases"]:
        charged = _charged(charges_of(budget, record["study"]["sha256"], release["name"]))
        if charged != release["charged"]:
            yield f"{release['name']}: the ledger has {charged}, the record {release['charged']}"
