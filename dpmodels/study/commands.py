"""``dpmodels study``: new, check, rehearse, run, verify."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from dpmodels.errors import StudyError
from dpmodels.study import Study

#: Exit codes of the command line (``dpmodels/cli.py``).
_DONE, _REFUSED, _MISSING = 0, 3, 4


def _new(arguments: Any) -> int:
    print(Study.new(arguments.formula, arguments.verb, arguments.unit))
    return _DONE


def _check(arguments: Any) -> int:
    checked = Study.read(arguments.file).check(arguments.ledger)
    if not checked.ok:
        return _faults(checked.problems)
    print(checked)
    return _DONE


def _faults(problems: Any) -> int:
    print("\n".join(problems), file=sys.stderr)
    return _REFUSED


def _ended(ran: Any) -> int:
    print(ran)
    print(f"note: written to {ran.folder}", file=sys.stderr)
    return _DONE if ran.complete else _MISSING


def _rehearse(arguments: Any) -> int:
    return _ended(Study.read(arguments.file).rehearse(arguments.out))


def _run(arguments: Any) -> int:
    study = Study.read(arguments.file)
    return _ended(
        study.run(arguments.data, ledger=arguments.ledger, out=arguments.out, again=arguments.again)
    )


def _verify(arguments: Any) -> int:
    verified = Study.verify(arguments.folder, arguments.ledger)
    print(verified)
    return _DONE if verified.ok else _REFUSED


def _told(command: Callable[[Any], int]) -> Callable[[Any], int]:
    """Return a command that prints the faults of a study line by line."""

    def told(arguments: Any) -> int:
        try:
            return command(arguments)
        except StudyError as error:
            return _faults(error.problems)

    return told


def add(commands: Any) -> None:
    """Add the commands to the parser of the command line."""
    parser = commands.add_parser(
        "study", help="A study in a file: new, check, rehearse, run, verify.",
        description="A study in a file: the analyst writes it without data, the custodian runs it "
        "where the data are, a checker verifies the folder.",
    )  # fmt: skip
    steps = parser.add_subparsers(metavar="STEP", required=True)

    def step(name: str, run: Callable[[Any], int], text: str) -> Any:
        sub = steps.add_parser(name, help=text, description=text)
        sub.set_defaults(run=_told(run))
        return sub

    new = step("new", _new, "Print a study to complete. Reads no data.")
    new.add_argument("formula")
    new.add_argument("--verb", default="ols", help="glm, coxph, table, ...")
    new.add_argument("--unit", metavar="COLUMN", help="whose row it is: protects people")
    check = step("check", _check, "Find every fault, and plan the releases. Reads no data.")
    rehearse = step("rehearse", _rehearse, "Run it on rows made from the schema. Reads no data.")
    run = step("run", _run, "Make the releases, the report and the record; charges the ledger.")
    for sub in (check, rehearse, run):
        sub.add_argument("file", metavar="STUDY.toml")
    check.add_argument("--ledger", metavar="FILE", help="whether it fits what is left there")
    for sub in (rehearse, run):
        sub.add_argument("--out", required=True, metavar="FOLDER")
    run.add_argument("--data", required=True, nargs="+", metavar="FILE",
                     help="Parquet or CSV, or duckdb:///file?table=name")  # fmt: skip
    run.add_argument("--ledger", required=True, metavar="FILE", help="of the project")
    run.add_argument("--again", action="store_true",
                     help="charge again what was charged and not written")  # fmt: skip
    verify = step("verify", _verify, "Hold a folder against its record, and against the ledger.")
    verify.add_argument("folder")
    verify.add_argument("--ledger", metavar="FILE")
