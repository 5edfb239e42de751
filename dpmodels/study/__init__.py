"""A study in a file: the analyst writes it without data, the custodian runs it once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmodels.errors import StudyError, path_of

if TYPE_CHECKING:
    from dpmodels.study.asked import Paper
    from dpmodels.study.record import Verified
    from dpmodels.study.running import Checked, Ran

__all__ = ["Study"]


class Study:
    """Study in a file: releases of models and tables, computations from them, a report.

    The same as ``dpmodels study`` on the command line. Made by :meth:`read`.

    Notes
    -----
    **Privacy.** Only :meth:`run` and :meth:`inspect` read data, and :meth:`inspect` is for the
    screen of the person who holds them. What it charges is in the ledger before any row is
    read, once a release, whatever interrupts it; what it writes may leave.
    """

    def __init__(self, paper: Paper) -> None:
        self._paper = paper

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read the file of a study (TOML); :meth:`check` lists its faults."""
        from dpmodels.study.asked import read

        return cls(read(path))

    @staticmethod
    def new(formula: str, verb: str = "ols", unit: str | None = None) -> str:
        """Return the text of a study to complete; ``unit``: the column of whose row it is."""
        from dpmodels.study.asked import text

        return text(formula, verb, unit)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical text, without layout and comments, with the schema."""
        return self._paper.hash

    def check(self, ledger: Any = None) -> Checked:
        """Find every fault, and plan the releases; reads no data and charges nothing.

        With ``ledger``, the path of one: whether the releases fit what is left there.
        """
        from dpmodels.study.running import check

        return check(self._paper, ledger)

    def inspect(self, data: Any) -> None:
        """Print how many cells the schema of the study cannot read: as ``dp.inspect_source``.

        Parameters
        ----------
        data : path, ``"duckdb:///file?table=name"``, or whatever ``data=`` of a verb takes

        Privacy
        -------
        **Not private**: for the person who holds the data alone. Nothing is written or charged.
        """
        from dpmodels.api.inspected import inspect_source
        from dpmodels.study.running import rows_of_run

        inspect_source(rows_of_run(self._paper, data), self._paper.schema)

    def rehearse(self, out: str | Path) -> Ran:
        """Run the study on rows made from the schema alone; every page says REHEARSAL."""
        from dpmodels.study.running import rehearse

        return rehearse(self._paper, path_of(out, "out="))

    def run(self, data: Any, *, ledger: str | Path, out: str | Path, again: bool = False) -> Ran:
        """Make the releases, the report and the record; go on where a killed run stopped.

        Parameters
        ----------
        data : path, ``"duckdb:///file?table=name"``, or whatever ``data=`` of a verb takes
        ledger : path
            Of the project. One that is not there begins with the budget of the study.
        out : path
            A new folder, or that of the run to go on with.
        again : bool
            Charge again what was charged and not written.

        Returns
        -------
        Ran
            ``ran["wage"]`` is the fit of a release; ``ran.complete`` whether all were given.

        Privacy
        -------
        Each release is charged before it reads a row, once: its identity is the hash of the study,
        its name and the ledger's own. What is written holds public and released numbers only.
        """
        from dpmodels.study.running import run

        return run(self._paper, data, path_of(ledger, "ledger="), path_of(out, "out="), again=again)

    @staticmethod
    def verify(out: str | Path, ledger: Any = None) -> Verified:
        """Hold a folder against its record: hashes, totals, and the guarantee of the ledger."""
        from dpmodels.study.record import verify

        return verify(path_of(out, "out="), ledger)

    @staticmethod
    def join(folders: Any, *, effects: str = "fixed", overlap: bool = False) -> Any:
        """Join the runs of several sites, in the order of ``[study] sites``: reads no data.

        Sums are added by ``dp.pool``, estimates combined by ``dp.meta``, which takes the options.
        ``folders`` are those of the runs, or their ``record.json``.
        """
        from dpmodels.study.joining import join

        return join(folders, effects=effects, overlap=overlap)


# -- ``dpmodels study``: new, check, inspect, rehearse, run, verify, join.


#: Exit codes of the command line (``dpmodels/__main__.py``).
_DONE, _REFUSED, _MISSING = 0, 3, 4


_STUDY_FILE = ("file", {"metavar": "STUDY.toml"})
_DATA = ("--data", {"required": True, "nargs": "+", "metavar": "FILE",
                    "help": "Parquet or CSV, or duckdb:///file?table=name"})  # fmt: skip
_LEDGER = ("--ledger", {"metavar": "FILE", "help": "of the project"})
_OUT = ("--out", {"required": True, "metavar": "FOLDER", "help": "new; a run goes on in its own"})
#: Step -> what it is, arguments.
_STEPS: dict[str, tuple[str, tuple[tuple[str, dict[str, Any]], ...]]] = {
    "new": ("Print a study to complete. Reads no data.", (
        ("formula", {}), ("--verb", {"default": "ols", "help": "glm, coxph, table, ..."}),
        ("--unit", {"metavar": "COLUMN", "help": "whose row it is: people are protected"}),
    )),
    "check": ("Find every fault, and plan the releases. Reads no data.", (_STUDY_FILE, _LEDGER)),
    "inspect": ("Print counts of cells that cannot be read. NOT PRIVATE: for the holder of the "
                "data alone.", (_STUDY_FILE, _DATA)),
    "rehearse": ("Run it on rows made from the schema. Reads no data.", (_STUDY_FILE, _OUT)),
    "run": ("Make releases, report and record; charges the ledger, once.", (
        _STUDY_FILE, _DATA,
        ("--ledger", {"required": True, "metavar": "FILE", "help": "of the project, or a new one"}),
        _OUT, ("--again", {"action": "store_true", "help": "charge what was not written again"}),
    )),
    "verify": ("Hold a folder against its record, and against the ledger.",
               (("folder", {}), _LEDGER)),
    "join": ("Join the runs of several sites, each given by its folder. Reads no data.", (
        ("folders", {"nargs": "+", "metavar": "FOLDER"}), ("--effects", {"default": "fixed"}),
        ("--overlap", {"action": "store_true", "help": "a person may be at several sites"}),
    )),
}  # fmt: skip


def _step(arguments: Any) -> int:
    """Do one step, and return its exit code; faults of a study are printed a line each."""
    try:
        return _run_step(arguments)
    except StudyError as error:
        print(error, file=sys.stderr)
        return _REFUSED


def _run_step(arguments: Any) -> int:
    """Run one step of the command ``study``."""
    if arguments.step == "new":
        print(Study.new(arguments.formula, arguments.verb, arguments.unit), end="")
        return _DONE
    if arguments.step == "verify":
        verified = Study.verify(arguments.folder, arguments.ledger)
        print(verified)
        return _DONE if verified.ok else _REFUSED
    if arguments.step == "join":
        print(Study.join(arguments.folders, effects=arguments.effects, overlap=arguments.overlap))
        return _DONE
    study = Study.read(arguments.file)
    if arguments.step == "inspect":
        study.inspect(arguments.data)
        return _DONE
    if arguments.step == "check":
        checked = study.check(arguments.ledger)
        if not checked.ok:
            raise StudyError(checked.problems)
        print(checked)
        return _DONE
    ran = study.rehearse(arguments.out) if arguments.step == "rehearse" else study.run(
        arguments.data, ledger=arguments.ledger, out=arguments.out, again=arguments.again
    )  # fmt: skip
    print(ran)
    print(f"note: written to {ran.folder}", file=sys.stderr)
    return _DONE if ran.complete else _MISSING


def add(commands: Any) -> None:
    """Add the commands to the parser of the command line."""
    text = "A study in a file: new, check, inspect, rehearse, run, verify, join."
    steps = commands.add_parser("study", help=text, description=text)
    steps = steps.add_subparsers(metavar="STEP", required=True)
    for name, (text, arguments) in _STEPS.items():
        sub = steps.add_parser(name, help=text, description=text)
        sub.set_defaults(run=_step, step=name)
        for flag, words in arguments:
            sub.add_argument(flag, **words)
