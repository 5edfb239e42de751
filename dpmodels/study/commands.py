"""``dpmodels study``: new, check, rehearse, run, verify."""

from __future__ import annotations

import sys
from typing import Any

from dpmodels.errors import StudyError
from dpmodels.study import Study

#: Exit codes of the command line (``dpmodels/cli.py``).
_DONE, _REFUSED, _MISSING = 0, 3, 4


_FILE = ("file", {"metavar": "STUDY.toml"})
_LEDGER = ("--ledger", {"metavar": "FILE", "help": "of the project"})
_OUT = ("--out", {"required": True, "metavar": "FOLDER", "help": "new; a run goes on in its own"})
#: Step -> what it is, arguments.
_STEPS: dict[str, tuple[str, tuple[tuple[str, dict[str, Any]], ...]]] = {
    "new": ("Print a study to complete. Reads no data.", (
        ("formula", {}), ("--verb", {"default": "ols", "help": "glm, coxph, table, ..."}),
        ("--unit", {"metavar": "COLUMN", "help": "whose row it is: people are protected"}),
    )),
    "check": ("Find every fault, and plan the releases. Reads no data.", (_FILE, _LEDGER)),
    "rehearse": ("Run it on rows made from the schema. Reads no data.", (_FILE, _OUT)),
    "run": ("Make releases, report and record; charges the ledger, once.", (
        _FILE, ("--data", {"required": True, "nargs": "+", "metavar": "FILE",
                           "help": "Parquet or CSV, or duckdb:///file?table=name"}),
        ("--ledger", {"required": True, "metavar": "FILE", "help": "of the project, or a new one"}),
        _OUT, ("--again", {"action": "store_true", "help": "charge what was not written again"}),
    )),
    "verify": ("Hold a folder against its record, and against the ledger.",
               (("folder", {}), _LEDGER)),
}  # fmt: skip


def _step(given: Any) -> int:
    """Do one step, and return its exit code; faults of a study are printed a line each."""
    try:
        return _done(given)
    except StudyError as error:
        print(error, file=sys.stderr)
        return _REFUSED


def _done(given: Any) -> int:
    if given.step == "new":
        print(Study.new(given.formula, given.verb, given.unit), end="")
        return _DONE
    if given.step == "verify":
        verified = Study.verify(given.folder, given.ledger)
        print(verified)
        return _DONE if verified.ok else _REFUSED
    study = Study.read(given.file)
    if given.step == "check":
        checked = study.check(given.ledger)
        if not checked.ok:
            raise StudyError(checked.problems)
        print(checked)
        return _DONE
    ran = study.rehearse(given.out) if given.step == "rehearse" else study.run(
        given.data, ledger=given.ledger, out=given.out, again=given.again
    )  # fmt: skip
    print(ran)
    print(f"note: written to {ran.folder}", file=sys.stderr)
    return _DONE if ran.complete else _MISSING


def add(commands: Any) -> None:
    """Add the commands to the parser of the command line."""
    text = "A study in a file: new, check, rehearse, run, verify."
    steps = commands.add_parser("study", help=text, description=text)
    steps = steps.add_subparsers(metavar="STEP", required=True)
    for name, (text, arguments) in _STEPS.items():
        sub = steps.add_parser(name, help=text, description=text)
        sub.set_defaults(run=_step, step=name)
        for flag, words in arguments:
            sub.add_argument(flag, **words)
