"""``dpmodels study``: new, check, rehearse, run, verify."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from dpmodels.errors import StudyError
from dpmodels.study import Study

#: Exit codes of the command line (``dpmodels/cli.py``).
_DONE, _REFUSED, _MISSING = 0, 3, 4


def _new(given: Any) -> int:
    print(Study.new(given.formula, given.verb, given.unit), end="")
    return _DONE


def _check(given: Any) -> int:
    checked = Study.read(given.file).check(given.ledger)
    if not checked.ok:
        raise StudyError(checked.problems)
    print(checked)
    return _DONE


def _rehearse(given: Any) -> int:
    return _ended(Study.read(given.file).rehearse(given.out))


def _run(given: Any) -> int:
    study = Study.read(given.file)
    return _ended(study.run(given.data, ledger=given.ledger, out=given.out, again=given.again))


def _ended(ran: Any) -> int:
    print(ran)
    print(f"note: written to {ran.folder}", file=sys.stderr)
    return _DONE if ran.complete else _MISSING


def _verify(given: Any) -> int:
    verified = Study.verify(given.folder, given.ledger)
    print(verified)
    return _DONE if verified.ok else _REFUSED


def _told(command: Callable[[Any], int]) -> Callable[[Any], int]:
    """Return a command that prints the faults of a study, a line each."""

    def told(given: Any) -> int:
        try:
            return command(given)
        except StudyError as error:
            print(error, file=sys.stderr)
            return _REFUSED

    return told


def add(commands: Any) -> None:
    """Add the commands to the parser of the command line."""
    text = "A study in a file: new, check, rehearse, run, verify."
    steps = commands.add_parser("study", help=text, description=text)
    steps = steps.add_subparsers(metavar="STEP", required=True)

    def step(name: str, run: Callable[[Any], int], text: str) -> Any:
        sub = steps.add_parser(name, help=text, description=text)
        sub.set_defaults(run=_told(run))
        return sub.add_argument

    argument = step("new", _new, "Print a study to complete. Reads no data.")
    argument("formula")
    argument("--verb", default="ols", help="glm, coxph, table, ...")
    argument("--unit", metavar="COLUMN", help="whose row it is: people are protected")
    argument = step("check", _check, "Find every fault, and plan the releases. Reads no data.")
    argument("file", metavar="STUDY.toml")
    argument("--ledger", metavar="FILE", help="whether it fits what is left there")
    argument = step("rehearse", _rehearse, "Run it on rows made from the schema. Reads no data.")
    argument("file", metavar="STUDY.toml")
    argument("--out", required=True, metavar="FOLDER", help="a new one")
    argument = step("run", _run, "Make releases, report and record; charges the ledger, once.")
    argument("file", metavar="STUDY.toml")
    argument("--data", required=True, nargs="+", metavar="FILE",
             help="Parquet or CSV, or duckdb:///file?table=name")  # fmt: skip
    argument("--ledger", required=True, metavar="FILE", help="of the project; new: the budget's")
    argument("--out", required=True, metavar="FOLDER", help="a new one, or of a run to go on with")
    argument("--again", action="store_true", help="charge again what was charged and not written")
    argument = step("verify", _verify, "Hold a folder against its record, and against the ledger.")
    argument("folder")
    argument("--ledger", metavar="FILE")
