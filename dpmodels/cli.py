"""The command line, ``dpmodels`` or ``python -m dpmodels``: results on stdout, notices on stderr.

Exit codes: 0 done; 2 usage; 3 refused for privacy (formula, schema, budget); 4 no reply;
1 anything else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpmodels as dp
from dpmodels.errors import (
    BudgetError,
    DPModelsError,
    DPModelsWarning,
    FormulaError,
    NoReplyError,
    RequestError,
    SchemaError,
    UnknownOptionError,
    path_of,
)
from dpmodels.verbs import function_of

if TYPE_CHECKING:
    from dpmodels.formula.schema import Schema
    from dpmodels.results import Fit

__all__ = ["main"]

DONE, FAILED, USAGE, REFUSED, NO_REPLY = 0, 1, 2, 3, 4
#: Exit codes of the errors with a special one.
CODES = (
    (NoReplyError, NO_REPLY),
    ((FormulaError, SchemaError, BudgetError), REFUSED),
    ((RequestError, UnknownOptionError), USAGE),
)

#: The fit of ``dpmodels demo``, on the bundled data with their design ranges.
DEMO = {
    "formula": "log1p(mdvis) ~ lncoins + physlm + disea",
    "eps": 1.0,
    "delta": 1e-6,
}
#: Flags that say how a CSV file is written, as ``dp.read_csv`` takes it.
_CSV = {
    "sep": "what separates cells: ';', '\\t'",
    "encoding": "of a CSV file: latin-1, cp1252, ...",
    "decimal": "decimal sign: ','",
    "thousands": "sign between thousands: '.'",
    "quotechar": "character that encloses a cell",
}
_FORMATS = ("text", "md", "html", "tex", "json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Default: the arguments of the process.

    Privacy
    -------
    ``fit`` and ``demo`` charge the pair they are given; no other command reads a row. No message
    quotes a cell.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse's own: --help is 0, a usage error 2
        return int(stop.code or 0)
    command: Callable[[argparse.Namespace], int] = arguments.run
    with warnings.catch_warnings():
        warnings.simplefilter("always", DPModelsWarning)
        warnings.showwarning = lambda warning, *_, **__: print(f"note: {warning}", file=sys.stderr)
        try:
            return command(arguments)
        except DPModelsError as error:
            code = next((code for kinds, code in CODES if isinstance(error, kinds)), FAILED)
            message = f"{type(error).__name__}: {error}"
        except OSError as error:
            code, message = FAILED, f"error: {error.strerror or 'cannot read'}: {error.filename}"
        except Exception as error:
            # The text of a foreign exception could quote a cell.
            code, message = FAILED, f"error: unexpected {type(error).__name__}"
        print(message, file=sys.stderr)
        return code


# -- commands ------------------------------------------------------------------------------------


def _demo(arguments: argparse.Namespace) -> int:
    """Run the demonstration: least squares on the bundled data."""
    print(
        "RAND Health Insurance Experiment, 20190 rows; ranges from the design of the study.\n"
        f"  dp.dp_ols({DEMO['formula']!r}, data, eps={DEMO['eps']:g}, delta={DEMO['delta']:g})",
        file=sys.stderr,
    )
    fit = dp.dp_ols(data=dp.datasets.rand_hie(), **DEMO)  # type: ignore[arg-type]
    return _show(fit, arguments, ledger=True)


def _fit(arguments: argparse.Namespace) -> int:
    """Run the command ``fit``: fit a formula on a file, with or without a ledger."""
    options = dict(_option(text) for text in arguments.option)
    bounds = _bounds(arguments.bounds)
    file = path_of(arguments.data, "the path of a table")
    if not (arguments.data.startswith("duckdb:") or file.exists()):
        raise FileNotFoundError(2, "no such file", arguments.data)
    budget = None
    if arguments.ledger is not None:
        existing = path_of(arguments.ledger, "--ledger").exists()
        if not existing and (arguments.budget_eps is None or arguments.budget_delta is None):
            raise RequestError(
                f"there is no ledger {arguments.ledger!r} yet. To create it add its total, for "
                "example --budget-eps 3 --budget-delta 1e-5"
            )
        budget = dp.Budget.open(
            arguments.ledger, eps=arguments.budget_eps, delta=arguments.budget_delta
        )
    typed = {"method": arguments.method, "bounds": bounds, "budget": budget}
    if arguments.no_inference:
        typed["inference"] = False
    fit = function_of("dpmodels.study.asked:call")(
        arguments.verb,
        arguments.formula,
        function_of("dpmodels.study.asked:source_of")(arguments.data, {}, csv=_csv(arguments)),
        options,
        eps=arguments.eps,
        delta=arguments.delta,
        schema=_schema(arguments.schema),
        **{name: value for name, value in typed.items() if value is not None},
    )
    return _show(fit, arguments)


def _show(fit: Fit, arguments: argparse.Namespace, *, ledger: bool = False) -> int:
    """Print a fit in the requested format, and write it if a file was named."""
    if arguments.out is not None:
        fit.to_json(arguments.out)
        print(f"note: fit written to {arguments.out}", file=sys.stderr)
    if arguments.format == "json":
        print(fit.to_json())
    else:
        print(fit.summary(arguments.format))
        if ledger:
            print(f"\n{fit.ledger}")
    return DONE if fit.released else NO_REPLY


def _plan(arguments: argparse.Namespace) -> int:
    """Run the command ``plan``: print a plan without reading data."""
    planned = dp.plan(
        arguments.formula,
        _schema(arguments.schema),
        n=arguments.n,
        eps=arguments.eps,
        delta=arguments.delta,
        method=arguments.method,
        verb=function_of("dpmodels.study.asked:verb_named")(arguments.verb),
        bounds=_bounds(arguments.bounds),
        **dict(_option(text) for text in arguments.option),
    )
    print(planned)
    return DONE


def _describe(arguments: argparse.Namespace) -> int:
    print(dp.describe(arguments.formula, _schema(arguments.schema)))
    return DONE


def _methods(arguments: argparse.Namespace) -> int:
    print(dp.methods(arguments.name))
    return DONE


def _ledger(arguments: argparse.Namespace) -> int:
    """Run the command ``ledger``: print the account of a ledger file."""
    if not path_of(arguments.file, "the path of a ledger").exists():
        raise FileNotFoundError(2, "no such file", arguments.file)
    print(dp.Budget.open_readonly(arguments.file).report())
    return DONE


def _versions(arguments: argparse.Namespace) -> int:
    dp.show_versions()
    return DONE


def _schema_new(arguments: argparse.Namespace) -> int:
    """Print an empty schema in TOML for the given names."""
    lines = [
        "# Ranges and levels are claims made without looking at the data.",
        '# types: real (lower, upper), count (upper), binary, levels (levels = ["a", "b"])',
    ]
    for name in arguments.name:
        key = name if name.isidentifier() else f'"{name}"'
        lines += ["", f"[{key}]", 'type = "real"', "# lower = ", "# upper = "]
    print("\n".join(lines))
    return DONE


# -- values --------------------------------------------------------------------------------------


def _schema(path: str | None) -> Schema | None:
    """Return the schema of a TOML file, or None without a file."""
    if path is None:
        return None
    from dpmodels.formula.schema import Schema

    return Schema.from_toml(Path(path).read_text(encoding="utf-8"))


def _csv(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the format of the CSV file from the flags."""
    flags = {name: getattr(arguments, name) for name in (*_CSV, "na")}
    if isinstance(flags["sep"], str):
        flags["sep"] = {"\\t": "\t", "tab": "\t"}.get(flags["sep"], flags["sep"])
    return {name: value for name, value in flags.items() if value is not None}


def _bounds(texts: Sequence[str]) -> Any:
    """Read ``alcohol=8:15 pH=2.5:4.5``, or the one word "private"."""
    if list(texts) == ["private"]:
        return "private"
    out = {}
    for text in texts:
        name, _, ends = text.partition("=")
        low, _, high = ends.partition(":")
        numbers = None
        with contextlib.suppress(ValueError):
            numbers = float(low), float(high)
        if not name or numbers is None:
            raise RequestError(f"--bounds {text!r}: write NAME=LOWER:UPPER, as in alcohol=8:15")
        out[name] = numbers
    return out or None


def _option(text: str) -> tuple[str, Any]:
    """Read ``whiten=false``, ``c0=0.2``, ``clip=project``, ``times=[0, 1, 2]`` (JSON)."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise RequestError(f"--option {text!r}: write NAME=VALUE, for example on_fail=ridge")
    words = {"true": True, "false": False, "none": None}
    if value.lower() in words:
        return name, words[value.lower()]
    kinds: tuple[Callable[[str], Any], ...] = (int, float, json.loads)
    for kind in kinds:
        with contextlib.suppress(ValueError):
            return name, kind(value)
    return name, value


# -- arguments -----------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="dpmodels",
        description="Statistical models with differential privacy.",
        epilog="Exit codes: 0 done, 2 usage, 3 refused for privacy, 4 no reply, 1 anything else.",
    )
    parser.add_argument("--version", action="version", version=f"dpmodels {dp.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, run: Any, text: str, example: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(run=run)
        return sub

    demo = command("demo", _demo, "Fit the bundled RAND data and show it.", "dpmodels demo")
    fit = command(
        "fit",
        _fit,
        "Fit a model, a table or a test with differential privacy: any verb.",
        'dpmodels fit "quality ~ alcohol + pH" --data wine.csv --bounds quality=0:10 '
        "alcohol=8:15 pH=2.5:4.5 --eps 1 --delta 1e-6",
    )
    for sub in (demo, fit):
        sub.add_argument("--format", choices=_FORMATS, default="text")
        sub.add_argument("--out", metavar="FILE", help="also write the fit as JSON")
    fit.add_argument("--data", required=True, metavar="FILE", help="CSV, Parquet, duckdb:///file?table=")
    for name, text in _CSV.items():
        fit.add_argument(f"--{name}", metavar="TEXT", help=text)
    fit.add_argument("--na", nargs="+", metavar="WORD", help="words for a missing cell: -9 .")
    fit.add_argument("--ledger", metavar="FILE", help="charge this budget file")
    fit.add_argument("--budget-eps", type=float, metavar="EPS", help="total of a new --ledger")
    fit.add_argument("--budget-delta", type=float, metavar="DELTA", help="total of a new --ledger")
    fit.add_argument("--no-inference", action="store_true", help="coefficients only")
    plan = command(
        "plan",
        _plan,
        "Show everything public about a fit. Reads no data.",
        'dpmodels plan "quality ~ alcohol + pH" --schema schema.toml --n 1599 --eps 1 --delta 1e-6',
    )
    plan.add_argument("--n", type=int, required=True, help="number of rows of the study")
    for sub in (fit, plan):
        sub.add_argument("formula")
        sub.add_argument("--verb", default="ols", help="ols, glm, coxph, table, test, ...")
        sub.add_argument("--eps", type=float, required=True)
        sub.add_argument("--delta", type=float, required=True)
        sub.add_argument("--method", metavar="NAME", help="see: dpmodels methods")
        sub.add_argument("--schema", metavar="FILE", help="TOML")
        sub.add_argument(
            "--bounds",
            nargs="+",
            default=[],
            metavar="NAME=LOWER:UPPER",
            help='declared ranges; or the word "private": estimate all ranges',
        )
        sub.add_argument(
            "--option", nargs="+", default=[], metavar="NAME=VALUE", help="of the method"
        )
    describe = command(
        "describe",
        _describe,
        "Show columns, bounds and row norm of a formula. Reads no data.",
        'dpmodels describe "quality ~ alcohol * pH" --schema schema.toml',
    )
    describe.add_argument("formula")
    describe.add_argument("--schema", required=True, metavar="FILE", help="TOML")
    methods = command(
        "methods", _methods, "List methods, or a method's options.", "dpmodels methods eptr"
    )
    methods.add_argument("name", nargs="?")
    ledger = command("ledger", _ledger, "Print a budget file.", "dpmodels ledger study.ledger")
    ledger.add_argument("file")
    command("versions", _versions, "Print versions, for a bug report.", "dpmodels versions")
    schema = command(
        "schema",
        _schema_new,
        "Print a schema file to complete.",
        "dpmodels schema new quality alcohol pH > schema.toml",
    )
    schema.add_argument("action", choices=("new",))
    schema.add_argument("name", nargs="+")
    function_of("dpmodels.study:add")(commands)
    return parser
