"""The list of files that the claim of privacy rests on: made by a script, and complete."""

import ast
import runpy
from pathlib import Path

import pytest

from dpmodels.privacy.run import OWN_PROOFS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dpmodels"
SCRIPT = runpy.run_path(str(ROOT / ".ci" / "trusted.py"))
LISTED = [file for _, _, files in SCRIPT["grouped"]() for file in files]


def test_the_list_is_that_of_the_script():
    """Whoever changes a file of the list writes it anew: python .ci/trusted.py."""
    text = (PACKAGE / "privacy" / "trusted.md").read_text()
    assert text == SCRIPT["written"](), "run python .ci/trusted.py, and read the difference"


def test_every_file_is_there_once():
    assert len(LISTED) == len(set(LISTED))
    assert all((PACKAGE / file).is_file() for file in LISTED)


def adds_up(tree):
    """Whether a module sees rows for a query: a pass, the job of one, or a function of blocks."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in ("total", "over", "of_block"):
            names = [a.arg for a in node.args.args]
            if len(names) > 1 and names[1] in ("rows", "blocks", "block"):
                return True
        # a function that is handed to a pass that counts
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Sample":
            return True
    return False


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("class P:\n    def total(self, rows, reading):\n        return 0", True),
        ("def f(design):\n    return Sample(design, g)", True),
        ("class P:\n    def total(self, shares):\n        return 0", False),
    ],
)
def test_passes_are_recognised(code, seen):
    assert adds_up(ast.parse(code)) == seen


def test_every_pass_is_on_the_list():
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("audit/") and adds_up(ast.parse(path.read_text())):
            assert name in LISTED, name


def test_every_proof_of_its_own_is_on_the_list():
    for one in OWN_PROOFS.values():
        for where in one.where:
            assert where.split(":")[0].replace(".", "/") + ".py" in LISTED, where
