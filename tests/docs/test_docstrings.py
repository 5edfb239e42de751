"""A docstring of one line is a sentence that can be read alone."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "dpmodels"
KINDS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def leaning(text):
    """Say whether a docstring of one line leans on a name or a sentence that is not in it."""
    text = text.strip()
    return "\n" not in text and re.match(r"(Of|The same|As|Likewise|Ditto)\b", text) is not None


def test_no_short_docstring_leans_on_what_stands_elsewhere():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, KINDS) and leaning(ast.get_docstring(node) or ""):
                name = getattr(node, "name", "")
                found[f"{path.relative_to(PACKAGE)} {name}"] = ast.get_docstring(node)
    assert found == {}


def test_the_search_sees_one():
    assert leaning("Of the values.") and leaning("As above.") and leaning("The same for people.")
    assert not leaning("Return the mean of the values.") and not leaning("Offsets are added.")
