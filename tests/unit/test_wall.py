"""The wall: private rows exist only between ``sources/`` and the creation of a release.

Read off the import statements of the package itself, so that a new import in the wrong room fails
here and not in a review.
"""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "dpmodels"

#: room -> rooms it must never import (also lazily, inside functions).
FORBIDDEN = {
    "results": ("sources", "api", "ranges"),
    "formula": ("sources", "api", "results", "privacy", "moments", "ptr", "gptr", "zil", "ranges"),
    "planning": ("sources", "api", "results"),
    "privacy": ("sources", "api", "results", "formula", "moments", "ptr", "gptr", "zil", "ranges"),
    "sources": ("api", "results", "moments", "ptr", "gptr", "zil", "ranges"),
    "moments": ("api", "results"),
    "ptr": ("api", "results"),
    "gptr": ("api", "results"),
    "zil": ("api", "results"),
    "ranges": ("api", "results"),
    "interop": ("sources",),
}

#: A family registers its face (title, predict function) as data.
ALLOWED = ("dpmodels.results.kinds",)


def imported(path):
    """Yield the dpmodels modules that a file imports, TYPE_CHECKING blocks left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for child in block.body
        for node in ast.walk(child)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpmodels"):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("dpmodels"))


def room_of(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("room", sorted(FORBIDDEN))
def test_no_room_reaches_over_the_wall(room):
    bad = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        # audit_cases.py is test equipment that each method room ships for the audit kit
        if path.name != "audit_cases.py" and "audit" not in path.parts
        for module in imported(path)
        if room_of(module) in FORBIDDEN[room] and not module.startswith(ALLOWED)
    ]
    assert bad == []


def test_estimation_modules_see_no_rows():
    bad = []
    for path in PACKAGE.rglob("*estimate*.py"):
        bad += [f"{path.name}: {m}" for m in imported(path) if room_of(m) == "sources"]
    assert bad == []


def test_the_check_can_fail(tmp_path):
    planted = tmp_path / "planted.py"
    planted.write_text("def f():\n    from dpmodels.sources.rows import Rows\n    return Rows\n")
    assert any(room_of(m) == "sources" for m in imported(planted))


def test_no_room_hides_a_public_name():
    """A subpackage called like a public function would replace it once imported."""
    import dpmodels

    rooms = {p.stem if p.is_file() else p.name for p in PACKAGE.iterdir()}
    assert not rooms & set(dpmodels._EXPORTS)
