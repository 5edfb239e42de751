"""No function has a cyclomatic complexity above 25, conditions within expressions counted.

``ruff`` (C901) counts statements alone: a function of forty conditional expressions is simple to it.
"""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "dpmodels"
MOST = 25
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.Assert, ast.match_case)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def complexity(function):
    """Return 1 + the branches of a function, with its loops, conditions and comprehensions."""
    total = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            total += 1 + bool(isinstance(node, (ast.For, ast.While)) and node.orelse)
        elif isinstance(node, ast.Try):
            total += bool(node.orelse)
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
    return total


def test_no_function_is_too_complex():
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{node.name}": complexity(node)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, FUNCTIONS)
    }
    assert len(found) > 2000
    assert {name: n for name, n in found.items() if n > MOST} == {}


@pytest.mark.parametrize(
    ("code", "n"),
    [
        ("def f(x): return x", 1),
        ("def f(x): return [a if a or x else 1 for a in x if a and x]", 6),
        ("def f(x):\n    for a in x:\n        if a: return a\n    else: return 1", 4),
        ("def f(x):\n    try: x()\n    except OSError: pass\n    while x: x()", 3),
    ],
)
def test_the_measure_counts_conditions(code, n):
    assert complexity(ast.parse(code).body[0]) == n
