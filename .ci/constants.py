"""Write dpmodels/scoring/constants.md: every constant of the engine, its reason and its evidence.

``python .ci/constants.py`` writes it, ``python .ci/constants.py --show`` prints it. The table is
made of the comments in scoring/rules.py (and, for the allowance for bias, in after/inference.py).
"""

import ast
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "dpmodels"
PLACE = PACKAGE / "scoring" / "constants.md"
HEAD = """# Private Fisher scoring: constants

Made of the comments in `scoring/rules.py` by `.ci/constants.py`; a test compares the two.
Every number is public, or enters a public function of (mu, n, p). How each is used: `method.md`.

**Symbols** (`method.md`, 3). The clip of scores is C. The radii for the information H and
the meat J are R_H and R_J. The number of columns is p (r in working coordinates). The strengths of
single sums are mu_s, mu_H and mu_J. A "part" is a number between 0 and 1, and a "share" is a share
of mu^2. Standard deviations are "sds". Units are persons, in fits with `unit=`.

**Evidence.** *log k*: entry k of `benchmarks/results/scoring_rules.md`. *ablation k*: entry k of
`benchmarks/results/ablation.md`, what a fit without the rule costs.
*proved*: a claim of `theory.md`. *exact*: a fact of arithmetic. *size*: of an array. *name*: of a
step in the ledger. *tried*: chosen by judgement, then halved and doubled in 56 designs
(`benchmarks/results/constants.md`): of 112 such numbers 13 move widths or errors by 3 % or more.
The rules together have the coverage that `benchmarks/results/real_models.md` and `real_units.md`
measure.
"""
EVIDENCE = re.compile(r"\s*\[(N [\d, ]+|A [\d, ]+|P [\d.]+|exact|tried|size|name)\]$")


def comment_above(lines: list[str], line: int) -> str:
    """Return the comment that ends above a line (counted from 0), as one line."""
    first = line
    while first and lines[first - 1].lstrip().startswith("#:"):
        first -= 1
    return " ".join(one.strip().removeprefix("#:").strip() for one in lines[first:line])


def constants(path: Path, section: str | None = None) -> list[tuple[str, str, str, str]]:
    """Return (section, name, value, comment) of the constants with a comment in a module.

    Fields of records with a default count as constants too. ``section``: only what follows the
    heading that begins with it.
    """
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    headings = [(i, one[5:].strip()) for i, one in enumerate(lines) if one.startswith("# -- ")]
    found = []
    for node in ast.parse(text).body:
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for one in node.body if isinstance(node, ast.ClassDef) else [node]:
            if not isinstance(one, ast.Assign | ast.AnnAssign) or one.value is None:
                continue
            comment = comment_above(lines, one.lineno - 1)
            if not comment:
                continue
            target = one.targets[0] if isinstance(one, ast.Assign) else one.target
            over = [h for i, h in headings if i < one.lineno]
            name, value = prefix + ast.unparse(target), ast.unparse(one.value)
            found.append((over[-1] if over else "", name, value, comment))
    return [one for one in found if section is None or one[0].startswith(section)]


def evidence(comment: str) -> tuple[str, str]:
    """Return the reason and the evidence of a comment."""
    tail = EVIDENCE.search(comment)
    if tail is None:
        return comment, "judgement"
    kind, _, where = tail.group(1).partition(" ")
    long = {"N": f"log {where}", "A": f"ablation {where}", "P": f"proved: {where}"}
    return comment[: tail.start()], long.get(kind, kind)


def table(rows: list[tuple[str, str, str, str]]) -> str:
    """Return Markdown tables of constants, one per section."""
    out: list[str] = []
    last = None
    for section, name, value, comment in rows:
        if section != last:
            head = ["| name | value | sets, and why | evidence |", "|---|---|---|---|"]
            out += ["", f"## {section}", "", *head]
            last = section
        reason, known = evidence(comment)
        cells = (f"`{name}`", f"`{value}`", reason.replace("``", "`"), known)
        out.append("| " + " | ".join(one.replace("|", r"\|") for one in cells) + " |")
    return "\n".join(out)


def text() -> str:
    """Return constants.md."""
    own = table(constants(PACKAGE / "scoring" / "rules.py"))
    bias = table(constants(PACKAGE / "after" / "inference.py", "Allowance for bias"))
    return f"{HEAD}{own}\n{bias}\n"


if __name__ == "__main__":
    if "--show" in sys.argv:
        print(text())
    else:
        PLACE.write_text(text(), encoding="utf-8")
