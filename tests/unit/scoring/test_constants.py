"""Every number of the engine is in rules.py, with a reason, and constants.md is made of it."""

import ast
import re
import runpy
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCORING = ROOT / "dpmodels" / "scoring"
SCRIPT = runpy.run_path(str(ROOT / ".ci" / "constants.py"))


def numbers(text):
    """Return the upper-case names that a module gives a number, or a tuple of numbers."""
    found = []
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        parts = list(ast.walk(node.value))
        if any(isinstance(one, ast.Name | ast.Call | ast.JoinedStr) for one in parts):
            continue
        if not any(isinstance(c, ast.Constant) and isinstance(c.value, int | float) for c in parts):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [one.id for t in targets for one in ast.walk(t) if isinstance(one, ast.Name)]
        found += [name for name in names if name.isupper()]
    return found


def test_the_table_is_that_of_the_script():
    assert (SCORING / "constants.md").read_text(encoding="utf-8") == SCRIPT["text"](), (
        "run python .ci/constants.py, and read the difference"
    )


def test_numbers_of_the_engine_are_in_one_file():
    """Every number of scoring has its reason in rules.py."""
    elsewhere = {
        f"{path.name}:{name}"
        for path in SCORING.glob("*.py")
        if path.name != "rules.py"
        for name in numbers(path.read_text(encoding="utf-8"))
    }
    assert elsewhere == set()
    assert numbers("A, B = 1, (0.5, 2)\nC = A + 1\nd = 3\nE: int = 1 << 4") == ["A", "B", "E"]


def test_every_constant_has_a_reason_and_its_evidence_exists():
    rows = SCRIPT["constants"](SCORING / "rules.py")
    named = {name for _, name, _, _ in rows}
    assert set(numbers((SCORING / "rules.py").read_text(encoding="utf-8"))) <= named
    assert all(len(comment.split()) > 1 for *_, comment in rows)
    log = (ROOT / "benchmarks" / "results" / "scoring_rules.md").read_text(encoding="utf-8")
    entries = set(re.findall(r"^## (\d+)\.", log, re.MULTILINE))
    theory = (SCORING / "theory.md").read_text(encoding="utf-8")
    claims = set(re.findall(r"^### ([\d.]+)", theory, re.MULTILINE))
    tried = (ROOT / "benchmarks" / "results" / "constants.md").read_text(encoding="utf-8")
    pairs = {"PassShares.score", "PassShares.last_score"}  # tried with the information
    for _, name, _, comment in rows:
        kind, _, where = SCRIPT["evidence"](comment)[1].partition(" ")
        if kind == "log":
            assert set(where.split(", ")) <= entries, name
        if kind == "proved:":
            assert where in claims, name
        if kind == "tried":
            assert name in pairs or re.search(rf"[ :]{re.escape(name)}[ ,.]", tried), name
        assert kind != "judgement", f"{name} has no evidence: benchmarks/constants.py tries it"


def test_no_constant_is_idle():
    text = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "dpmodels").rglob("*.py"))
    used = Counter(re.findall(r"\w+", text))
    names = [name for _, name, _, _ in SCRIPT["constants"](SCORING / "rules.py")]
    assert [name for name in names if used[name.rpartition(".")[2]] < 2] == []
