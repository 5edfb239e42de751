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
    **dict.fromkeys(
        ("errors", "schema", "variables", "request", "release", "estimate"),
        ("sources", "api", "results", "models", "scoring", "exact", "ranges", "planning", "audit"),
    ),
    "results": ("sources", "api", "ranges", "models", "audit", "exact", "scoring"),
    "formula": (
        "sources", "api", "results", "privacy", "models", "ranges", "exact", "scoring", "audit",
    ),
    "planning": ("sources", "api", "results", "models", "audit"),
    "privacy": (
        "sources", "api", "results", "formula", "models", "ranges", "exact", "scoring", "audit",
    ),
    "sources": ("api", "results", "models", "ranges", "exact", "scoring", "audit"),
    "exact": ("api", "results", "models", "scoring", "ranges", "audit"),
    "scoring": ("api", "results", "models", "ranges", "audit"),
    "ranges": ("api", "results", "models", "audit"),
    "models": ("api", "results", "audit", "interop"),
    "interop": ("sources",),
}  # fmt: skip


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


def files_of(room):
    """Modules of a room, or the module of that name."""
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]


@pytest.mark.parametrize("room", sorted(FORBIDDEN))
def test_no_room_reaches_over_the_wall(room):
    bad = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path in files_of(room)
        for module in imported(path)
        if room_of(module) in FORBIDDEN[room]
    ]
    assert bad == []


#: One room of models may use another's numbers only where its subject contains the other's.
MAY_USE = {"moments": {"linear"}}


def test_rooms_of_models_do_not_import_each_other():
    bad = []
    for room in sorted(p.name for p in (PACKAGE / "models").iterdir() if p.is_dir()):
        for path in files_of(f"models/{room}"):
            for module in imported(path):
                parts = module.split(".")
                other = parts[2] if len(parts) > 2 and parts[1] == "models" else ""
                if not (PACKAGE / "models" / other).is_dir() or not other:
                    continue
                if other != room and other not in MAY_USE.get(room, ()):
                    bad.append(f"{path.relative_to(PACKAGE)} imports {module}")
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
