"""Formulas written as in R: each gets the same formula in this language to paste."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from dpmodels.errors import FormulaError
from dpmodels.formula.functions import REGISTERED

__all__ = ["refuse_r"]

#: what is not to be rewritten: names in backticks, and text
_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")
_WORD = r"(?<![\w.])"
_ATOM = r"\s*([^(),]+?)\s*"

#: pattern, replacement, what it is called, name that would make it no R
_RULES: tuple[tuple[str, str | Callable[[re.Match[str]], str], str, str], ...] = (
    (_WORD + r"relevel\(\s*(?:(?:as\.)?factor\()?" + _ATOM + r"\)?\s*,(?:\s*ref\s*=)?" + _ATOM
     + r"\)", r"C(\1, Treatment(\2))", "relevel() is a contrast", "relevel"),
    (_WORD + r"(?:as\.)?factor\(", "C(", "factor() is C()", "factor"),
    (_WORD + r"i\((?=\s*[\w.]+\s*[,)])", "C(", "i() is C()", "i"),
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
     "a comparison is 0 or 1 by itself", "ifelse"),
)  # fmt: skip


def refuse_r(formula: str, known: Collection[str] | None) -> None:
    """Raise on the spellings of R that have another one here, with the formula to paste.

    Parameters
    ----------
    formula : str
    known : collection of str or None
        Column names: a column that is called ``TRUE`` or ``c`` is no R.

    Notes
    -----
    **Privacy.** Reads the text and the column names only.
    """
    if not isinstance(formula, str):
        return
    quoted: list[str] = []

    def hide(match: re.Match[str]) -> str:
        quoted.append(match.group())
        return f"\x00{len(quoted) - 1}\x00"

    found: list[str] = []
    text = _QUOTED.sub(hide, formula)
    for pattern, replacement, what, name in _RULES:
        if name and (name in (known or ()) or name in REGISTERED):
            continue
        changed = re.sub(pattern, replacement, text)
        if changed != text:
            text, found = changed, [*found, what]
    powers = _powers(text)
    if powers != text:
        text, found = powers, [*found, "a power inside a function is **"]
    if not found:
        return
    fixed = re.sub("\x00(\\d+)\x00", lambda m: quoted[int(m.group(1))], text)
    levels = (
        "\n  C() needs the levels in the schema: dp.Levels([...])" if " C()" in found[0] else ""
    )
    raise FormulaError(
        f'"{formula}" is written as in R: {"; ".join(found)}.\n  Fix:\n      {fixed}{levels}'
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
