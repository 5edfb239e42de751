"""Refusals: each names the term, says why, and gives a line to paste. Decided without data."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping

import numpy as np

from dpmodels.errors import FormulaError, did_you_mean
from dpmodels.formula.words import (
    CALLS,
    FUNCTIONS,
    REGISTERED,
    Context,
    Interval,
    pretty,
    written_name,
)

#: names of functions that need other rows
_STATEFUL: frozenset[str] = frozenset(
    {"mean", "median", "std", "var", "min", "max", "sum", "rank", "sort", "argsort", "quantile"}
    | {"percentile", "cumsum", "shift", "lag", "diff", "cut", "qcut", "rolling", "nunique"}
    | {"unique", "nanmean", "nanstd", "average", "ptp", "prod", "cumprod", "histogram", "amin"}
    | {"amax", "expanding", "groupby", "transform", "apply", "map", "sample"}
)
#: those that read the row before
_ORDERED = frozenset(["lag", "lead", "shift", "diff", "cumsum", "cumprod", "rolling", "expanding"])
#: What R writes in a formula, and what to type here.
_INSTEAD = {
    "cbind": " Events are one 0/1 column a row: y ~ x, or a comparison, {y > 3} ~ x.",
    "cluster": ' Errors by cluster are vcov={"CRV1": "village"}, errors by person unit="id".',
    "tt": " Effects that change in time are not offered: strata(g), or fits by period, subset=.",
    "frailty": ' Random intercepts are dp_feols("y ~ x", data, unit="id", re="id").',
    "te": " Smooths of one variable are ns(x, knots=[...]).",
}
_SEVERAL = " Several models are several calls, each with a charge: write one formula per call."
_INSTEAD |= dict.fromkeys(("sw", "sw0", "csw", "csw0", "mvsw"), _SEVERAL)
_SPLINES = frozenset(["cs", "cc", "te"])
_NODES: dict[type, str] = {
    ast.Lambda: "a lambda",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.IfExp: "a conditional expression",
    ast.JoinedStr: "a formatted string",
    ast.NamedExpr: "an assignment",
    ast.Starred: "a starred argument",
    ast.Await: "await",
}


def _close_function(name: str, names: Collection[str]) -> str:
    """Return a suggestion for a function name, or nothing for a name of up to three letters."""
    close = len(name) > 3 or name.lower() in names
    return did_you_mean(name, names) if close else ""


def rewritten(node: ast.AST, replacement: str, ctx: Context) -> str:
    """Return the formula with one piece replaced, or the piece alone if it cannot be found."""
    piece = re.sub(r"\s+", "", pretty(node, ctx))
    pattern = r"\s*".join("['\"]" if c in "'\"" else re.escape(c) for c in piece)
    match = re.search(pattern, ctx.formula)
    if match is None:
        return replacement
    return ctx.formula[: match.start()] + replacement + ctx.formula[match.end() :]


def _short(value: float) -> float | int:
    shown = float(f"{value:.4g}")
    return int(shown) if shown == int(shown) else shown


#: Knots that a message lists.
_MOST_KNOTS = 40


def _spaced_knots(interval: tuple[float, float], count: int) -> str:
    """Return evenly spaced knots as a message lists them; too many are left to the reader."""
    if count > _MOST_KNOTS:
        return "[...]"
    return str([_short(v) for v in np.linspace(*interval, count + 2)[1:-1].tolist()])


def _declare(text: str) -> str:
    return f"Fix, in the schema:   {text} = dp.Real(lower=..., upper=...)"


def refused_state(
    node: ast.Call,
    name: str,
    ctx: Context,
    interval: Interval,
    bound: Mapping[str, ast.expr],
    size: int,
) -> FormulaError:
    """Refuse a call that would compute its constants from the rows."""
    x = pretty(bound["x"], ctx)
    if name == "bs":
        return _refused_bs(node, x, ctx, interval, bound, size)
    if name in ("ns", "cr"):
        return _refused_natural(node, x, ctx, interval, bound["df"], name)
    if name == "poly":
        return ctx.refuse(
            "poly() would compute an orthogonal basis from the private data.",
            "Fix, with polynomials orthogonal on the declared range:",
            "    " + rewritten(node, f"legendre({x}, {size})", ctx),
            f"or plain powers: poly({x}, {size}, raw=True)",
        )
    what = "mean" if name == "center" else "mean and standard deviation"
    if interval is None:
        fix = f"center({x}, center=...)" if name == "center" else f"I(({x} - ...) / ...)"
        return ctx.refuse(
            f"{name}() would compute the {what} from the private data.",
            "Fix, with public constants (not taken from the data):",
            "    " + rewritten(node, fix, ctx),
        )
    middle, half = _short(sum(interval) / 2), _short((interval[1] - interval[0]) / 2)
    fix = f"I({x} - {middle})" if name == "center" else f"I(({x} - {middle}) / {half})"
    constants = f"center={middle}" + ("" if name == "center" else f", scale={half}")
    return ctx.refuse(
        f"{name}() would compute the {what} from the private data.",
        f"Fix, using the declared range {ctx.range_of(interval)}:",
        "    " + rewritten(node, fix, ctx),
        f"or give public constants: {'center' if name == 'center' else 'scale'}({x}, {constants})",
    )


def _refused_bs(
    node: ast.Call,
    x: str,
    ctx: Context,
    interval: Interval,
    bound: Mapping[str, ast.expr],
    degree: int,
) -> FormulaError:
    """Return the refusal of ``bs(x, df=)`` with the public knots to type instead."""
    df = bound["df"]
    count = df.value if isinstance(df, ast.Constant) and isinstance(df.value, int) else degree + 1
    inner = max(count - degree, 1)
    why = (
        "With df= the knots are quantiles of the private data; with no bounds the end points are "
        "its minimum and maximum."
    )
    if interval is None:
        others = [v for v, _ in _other_splines(ctx.formula, ctx) if v != x]
        return ctx.refuse(why, *map(_declare, (x, *others)), f"then bs({x}, knots=[...])")
    fixed = f"bs({x}, knots={_spaced_knots(interval, inner)}" + (
        ")" if degree == 3 else f", degree={degree})"
    )
    return ctx.refuse(
        why,
        f"Fix, with knots equally spaced on the declared range {ctx.range_of(interval)}:",
        "    " + _all_splines(rewritten(node, fixed, ctx), ctx),
    )


def _refused_natural(
    node: ast.Call, x: str, ctx: Context, interval: Interval, df: ast.expr, name: str
) -> FormulaError:
    """Return the refusal of a natural spline with ``df=`` and what to type instead."""
    count = df.value if isinstance(df, ast.Constant) and isinstance(df.value, int) else 3
    inner = max(count - (1 if name == "ns" else 2), 1)
    why = "With df= the knots are quantiles of the private data, its least and largest among them."
    if interval is None:
        return ctx.refuse(why, _declare(x), f"then {name}({x}, knots=[...])")
    return ctx.refuse(
        why,
        f"Fix, with knots equally spaced on the declared range {ctx.range_of(interval)}:",
        "    " + rewritten(node, f"{name}({x}, knots={_spaced_knots(interval, inner)})", ctx),
    )


#: a spline by degrees of freedom of a bare variable
_BY_DF = re.compile(r"\bbs\(\s*([^\W\d]\w*)\s*,\s*(?:df\s*=\s*)?(\d+)\s*\)")


def _other_splines(formula: str, ctx: Context) -> list[tuple[str, Interval]]:
    """Return (variable, declared range) of the splines that ask for the same refusal."""
    names = dict.fromkeys(name for name, _ in _BY_DF.findall(formula) if name in ctx.schema)
    return [(name, getattr(ctx.schema[name], "interval", None)) for name in names]


def _all_splines(formula: str, ctx: Context) -> str:
    """Return a formula whose other splines by degrees of freedom are corrected too."""
    ranges = dict(_other_splines(formula, ctx))

    def fixed(match: re.Match[str]) -> str:
        name, df = match.group(1), int(match.group(2))
        interval = ranges.get(name)
        knots = "[...]" if interval is None else _spaced_knots(interval, max(df - 3, 1))
        return f"bs({name}, knots={knots})"

    return _BY_DF.sub(fixed, formula)


def need_range(inner: ast.expr, name: str, ctx: Context) -> FormulaError:
    """Refuse a function that is defined on the declared range, when there is none."""
    x = pretty(inner, ctx)
    variables = sorted({n for n in ctx.schema if re.search(rf"(?<!\w){re.escape(n)}(?!\w)", x)})
    lines = [_declare(v) for v in variables] or ["Declare the range of its variables"]
    return ctx.refuse(
        f"{name}() is defined on the declared range of {x}, and none is declared.",
        *lines,
        f"or in the formula: {name}(clip({x}, a, b), ...) with public a and b",
    )


def need_levels(name: str, numeric: bool, interval: Interval, ctx: Context) -> FormulaError:
    """Refuse ``C(x)`` of a variable without declared levels."""
    written = written_name(name)
    levels = "[0, 1]" if interval == (0, 1) else "[...]"
    points = "[...]" if interval is None else _spaced_knots(interval, 2)
    return ctx.refuse(
        f"The levels of `{name}` are not declared; reading them from the data would reveal which "
        "categories occur.",
        f"Fix, in the schema:   {name} = dp.Levels({levels})",
        f"or in the formula:    C({written}, levels={levels})",
        f"or cut the number at public points: cut({written}, breaks={points})" if numeric
        else f"For an open-ended set of levels: hashed({written}, levels=32)",
    )  # fmt: skip


def refused_private(node: ast.AST, ctx: Context) -> None:
    """Raise on ``dp.private(...)``: the name is reserved, the purchase is not offered yet."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr == "private":
            raise ctx.refuse(
                "dp.private(...) is reserved: constants inside a formula cannot be estimated yet.",
                "Give a public constant in its place",
            )


def refused_name(name: str, ctx: Context) -> FormulaError:
    """Refuse a name that is not a variable."""
    return ctx.fail(
        f"{name!r} is not a variable.{did_you_mean(name, ctx.schema)}",
        "A formula may use the columns of the data and the functions of the formula language; "
        "nothing is looked up in the caller's program.",
    )


def refused_node(node: ast.expr, ctx: Context) -> FormulaError:
    """Return the refusal of an expression that is not on the allow-list."""
    if isinstance(node, ast.Attribute):
        return ctx.refuse(
            f"{pretty(node, ctx)}: attributes are not allowed; they would reach whole columns",
            "A formula computes each row from that row alone. Use the functions of the language: "
            + ", ".join(sorted(FUNCTIONS)),
        )
    if isinstance(node, ast.Subscript):
        return ctx.refuse(
            f"{pretty(node, ctx)}: subscripts are not allowed; they would pick other rows",
            "Use the variable itself: " + rewritten(node, pretty(node.value, ctx), ctx),
        )
    what = _NODES.get(type(node), "this expression")
    return ctx.refuse(
        f"{pretty(node, ctx)}: {what} is not part of the formula language",
        "For a user-supplied function of one row at a time: "
        "dp.register_rowwise('name', func, interval=(lo, hi))",
    )


def refused_call(node: ast.Call, name: str, ctx: Context) -> FormulaError:
    """Return the refusal of a call to a function that is not on the allow-list."""
    refused_private(node, ctx)
    last = name.rsplit(".", 1)[-1]
    shown = pretty(node, ctx)
    if last in _SPLINES:
        inner = pretty(node.args[0], ctx) if node.args else "x"
        return ctx.refuse(
            f"{shown}: {last}() would read knots and end points from the private data.",
            "Fix, with public knots:",
            "    " + rewritten(node, f"ns({inner}, knots=[...])", ctx),
            f"or: legendre({inner}, 3)",
        )
    if last in _ORDERED:
        inner = pretty(node.args[0], ctx) if node.args else "x"
        column = re.sub(r"\W+", "_", inner).strip("_") + "_" + last
        return ctx.refuse(
            f"{shown}: {last}() reads the row before, and a row is computed from that row alone.",
            f"Make the column before the call (within the rows of a person, with unit=): {column}",
            "    " + rewritten(node, column, ctx),
        )
    if last in _STATEFUL:
        return ctx.refuse(
            f"{shown}: {last}() looks at other rows, so it would read private state.",
            "Put a public constant in its place (not taken from the data):",
            "    " + rewritten(node, "10.4", ctx),
        )
    names = sorted({*CALLS, *FUNCTIONS, *REGISTERED} - {"standardize", "Q"})
    return ctx.refuse(
        f"{name}() is not a function of the formula language."
        f"{_INSTEAD.get(last) or _close_function(last, names)}",
        "Known: " + ", ".join(names),
        f"You can add a row-wise function: dp.register_rowwise({last!r}, func, interval=(lo, hi))",
    )


# -- Formulas written as in R: each gets the same formula in this language to paste


#: unchanged parts of a formula: names in backticks, and text
_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")
_WORD = r"(?<![\w.])"
_ATOM = r"\s*([^(),]+?)\s*"

#: pattern, replacement, what it is called, name that would make it no R
_RULES: tuple[tuple[str, str | Callable[[re.Match[str]], str], str, str], ...] = (
    (_WORD + r"relevel\(\s*(?:(?:as\.)?factor\()?" + _ATOM + r"\)?\s*,(?:\s*ref\s*=)?" + _ATOM
     + r"\)", r"C(\1, Treatment(\2))", "relevel() is a contrast", "relevel"),
    (_WORD + r"(?:as\.)?factor\(", "C(", "factor() is C()", "factor"),
    (_WORD + r"s\(" + _ATOM + r"(?:,[^()]*)?\)", r"ns(\1, knots=[...])",
     "s() is a spline with public knots", "s"),
    (_WORD + r"as\.(?:numeric|integer|double)\(" + _ATOM + r"\)", r"\1",
     "a column has the type it was declared with", "as"),
    (_WORD + r"c\(([^()]*)\)", r"[\1]", "c() is a list in brackets", "c"),
    (r"\bI\(\s*([\w.`]+)\s*%in%\s*(\[[^\]]*\])\s*\)", r"I(\1 in \2)", "%in% is in", ""),
    (r"([\w.`]+)\s*%in%\s*(\[[^\]]*\])", r"I(\1 in \2)", "%in% is in", ""),
    (_WORD + r"TRUE\b", "True", "TRUE is True", "TRUE"),
    (_WORD + r"FALSE\b", "False", "FALSE is False", "FALSE"),
    (_WORD + r"ifelse\(([^(),]*[<>=][^(),]*),\s*1\s*,\s*0\s*\)", r"I(\1)",
     "a comparison is already 0 or 1", "ifelse"),
)  # fmt: skip


def refuse_r(formula: str, columns: Collection[str] | None) -> None:
    """Raise on the spellings of R that have another one here, with the formula to paste.

    ``columns``: column names. A column that is called ``TRUE`` or ``c`` is no R.
    """
    if not isinstance(formula, str):
        return
    quoted: list[str] = []

    def hide(match: re.Match[str]) -> str:
        quoted.append(match.group())
        return f"\x00{len(quoted) - 1}\x00"

    spellings: list[str] = []
    text = _QUOTED.sub(hide, formula)
    for pattern, replacement, what, name in _RULES:
        if name and (name in (columns or ()) or name in REGISTERED):
            continue
        changed = re.sub(pattern, replacement, text)
        if changed != text:
            text, spellings = changed, [*spellings, what]
    powers = _powers(text)
    if powers != text:
        text, spellings = powers, [*spellings, "a power inside a function is **"]
    if not spellings:
        return
    fixed = re.sub("\x00(\\d+)\x00", lambda m: quoted[int(m.group(1))], text)
    levels = (
        "\n  C() needs the levels in the schema: dp.Levels([...])" if " C()" in spellings[0] else ""
    )
    raise FormulaError(
        f'"{formula}" is written as in R: {"; ".join(spellings)}.\n  Fix:\n      {fixed}{levels}'
    )


def _powers(text: str) -> str:
    """Return the text with ``^`` as ``**`` wherever it is inside the brackets of a function."""
    out: list[str] = []
    calls: list[bool] = []
    for i, letter in enumerate(text):
        if letter == "(":
            calls.append(i > 0 and (text[i - 1].isalnum() or text[i - 1] in "_."))
        elif letter == ")" and calls:
            calls.pop()
        out.append("**" if letter == "^" and any(calls) else letter)
    return "".join(out)
