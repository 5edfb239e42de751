"""Every file, module and test that a note, a docstring, a comment or a guide names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(p for folder in ("dpmodels", "docs", "benchmarks", "vignettes")
      for kind in ("*.py", "*.md") for p in (ROOT / folder).rglob(kind)),
]  # fmt: skip
#: Files that an example on a page makes, and names of the user's own.
EXAMPLES = {"mean.py", "models/laplace.py", "api/share.py", "dpmodels/models/laplace.py",
            "dpmodels/api/share.py", "mymethod.py", "my_method.py", "analysis.py"}  # fmt: skip
NAMED = re.compile(r"(?<![\w/.*<-])((?:[\w.]+/)*[a-z_]\w*\.py)\b")
DOTTED = re.compile(r"(?<![\w./])dpmodels((?:\.[a-z_]\w*)+)")


def there(name, beside):
    """Whether a path is one of the project, from its root, the package or the folder beside."""
    places = (ROOT, ROOT / "dpmodels", ROOT / "tests", ROOT / "benchmarks", beside)
    return any((place / name).exists() for place in places)


def stale(text, beside):
    """Return the paths and modules that a text names and that do not exist."""
    found = {n for n in NAMED.findall(text) if n not in EXAMPLES and not there(n, beside)}
    for parts in DOTTED.findall(text):
        first = parts.split(".")[1]
        package = ROOT / "dpmodels"
        if not (package / first).is_dir():
            continue  # a function, or a module: an attribute follows
        second = parts.split(".")[2:3]
        inside = package / first
        if second and not (inside / second[0]).is_dir() and not (inside / f"{second[0]}.py").is_file():
            names = (inside / "__init__.py").read_text(encoding="utf-8")
            if not re.search(rf"\b{second[0]}\b", names) and second[0] != "share":
                found.add(f"dpmodels{parts}")
    return found


#: A function of a module, as notes name it: `rows.start_radius`, `scoring/rows.start_radius`.
FUNCTION = re.compile(r"`((?:[a-z_]+/)*[a-z_]+)\.([a-z_]\w*_\w*)(?:\(\))?`")
#: What has methods of these names, and the package as users import it.
OBJECTS = {"dp", "fit", "budget", "self", "score", "release", "design", "ask", "plan", "run"}
DEFINED = re.compile(r"^(?:def|class) (\w+)|^(\w+)(?:: [^=\n]+)? = ", re.MULTILINE)


def defined():
    """Return the modules and folders of the package in which each top-level name is defined."""
    found = {}
    for path in (ROOT / "dpmodels").rglob("*.py"):
        for names in DEFINED.findall(path.read_text(encoding="utf-8")):
            here = {path.stem, *(one.name for one in path.relative_to(ROOT).parents)}
            found.setdefault(next(filter(None, names)), set()).update(here)
    return found


def misplaced(text, places):
    """Return the functions that a note names in a module that does not define them."""
    return {
        f"{module}.{name}"
        for module, name in FUNCTION.findall(text)
        if name in places and module not in OBJECTS and module.split("/")[-1] not in places[name]
    }


def test_functions_stand_where_notes_say():
    places, bad = defined(), {}
    for path in (ROOT / "dpmodels").rglob("*.md"):
        found = misplaced(path.read_text(encoding="utf-8"), places)
        if found:
            bad[path.relative_to(ROOT).as_posix()] = sorted(found)
    assert bad == {}
    planted = "`state.kept_apart`, `scoring/models.kept_apart`"
    assert misplaced(planted, places) == {"state.kept_apart"}


def test_what_is_named_exists():
    bad = {}
    for path in FILES:
        found = stale(path.read_text(encoding="utf-8"), path.parent)
        if found:
            bad[path.relative_to(ROOT).as_posix()] = sorted(found)
    assert bad == {}


def test_the_check_can_fail():
    assert stale("see `scoring/nowhere.py` and dpmodels.scoring.nowhere.f", ROOT) == {
        "scoring/nowhere.py", "dpmodels.scoring.nowhere.f"
    }  # fmt: skip


def test_folders_of_tests_are_rooms_of_the_package():
    folders = {path.parent for path in (ROOT / "tests" / "unit").rglob("test_*.py")}
    assert len(folders) > 20
    rooms = [ROOT / "dpmodels" / p.relative_to(ROOT / "tests" / "unit") for p in sorted(folders)]
    assert [str(r) for r in rooms if not (r.is_dir() or r.with_suffix(".py").is_file())] == []
