"""Powers of sums in formulas: ``(x + z)**k`` is a product of k sums, and no more than that.

A factor times itself is that factor, so from the number of factors on a power gives no new term.
The library forms all k-tuples of terms: ``(x + z)**99999`` would never end.
"""

from __future__ import annotations

import math
import re

from dpmodels.errors import FormulaError

__all__ = ["capped_powers"]

#: Terms that a power may ask for.
_MOST = 20_000
#: Characters of a formula whose powers were written out.
_LONGEST = 100_000
_POWER = re.compile(r"\s*(?:\*\*|\^)\s*(\d+)")
_NAMED = re.compile(r"([^\W\d]\w*)\s*(?:\*\*|\^)\s*(\d+)")
_NAME = re.compile(r"[^\W\d]\w*|`[^`]*`|\{[^{}]*\}")


def capped_powers(text: str, others: int = 0) -> str:
    """Return a formula with its powers of brackets written as products of sums.

    Parameters
    ----------
    text : str
    others : int
        Factors that ``.`` stands for.
    """
    factors = len(set(_NAME.findall(text))) + others
    at = 0
    while True:
        found = _next_power(text, at)
        if found is None:
            return text
        start, stop, end, digits = found
        power = min(int(digits) if len(digits) < 7 else factors, factors)
        if power > 2 and sum(math.comb(factors, i) for i in range(1, power + 1)) > _MOST:
            raise FormulaError(
                f"a power of {factors} factors asks for more than {_MOST} terms: take a smaller "
                "one, as in (x + z)**2"
            )
        if power == int(digits[:7]) <= 2 and len(digits) < 7:  # as it is
            at = end
            continue
        whole = text[start:stop]
        if len(text) + power * len(whole) > _LONGEST:
            raise FormulaError("powers of powers of brackets: one power says the same")
        text = text[:start] + "(" + ":".join([whole] * max(power, 1)) + ")" + text[end:]
        at = start


def _next_power(text: str, at: int) -> tuple[int, int, int, str] | None:
    """Return (start, end of the bracket, end of the power, its digits) of the next power.

    Of brackets of the formula's own: what stands in a call, in braces or in quotes is arithmetic.
    """
    opened: list[tuple[int, bool]] = []  # place, and whether what is inside is arithmetic
    quoted = ""
    for i, sign in enumerate(text):
        inside = bool(opened) and opened[-1][1]
        if quoted:
            quoted = "" if sign == quoted else quoted
        elif sign in "`'\"":
            quoted = sign
        elif not inside and i >= at and (name := _NAMED.match(text, i)) and _starts(text, i):
            return i, name.end(1), name.end(), name[2]
        elif sign in "([{":
            before = text[:i].rstrip()[-1:]
            call = sign != "(" or before.isalnum() or before in ("_", "`", ")", "]")
            opened.append((i, inside or call))
        elif sign in ")]}" and opened:
            start, arithmetic = opened.pop()
            found = None if arithmetic or i < at else _POWER.match(text, i + 1)
            if found is not None:
                return start, i + 1, found.end(), found[1]
    return None


def _starts(text: str, at: int) -> bool:
    """Say whether a name begins here, rather than goes on."""
    return not (at and (text[at - 1].isalnum() or text[at - 1] == "_"))
