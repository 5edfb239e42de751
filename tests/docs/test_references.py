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
