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


#: What stands alone in backticks in a note, as a name or a call: `kept_apart`, `Look.ask`, `f(x)`.
QUOTED = re.compile(r"`((?:[a-z_]+/)*[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\([^`()]*\))?`")
#: A name of code, and not a symbol of a formula (`mu_s`, `R_H`, `sd_E`).
OF_CODE = re.compile(r"[a-z]{3,}(?:_[a-z]+)*_[a-z]{3,}|[a-z]{2}[A-Z][a-z]|^_?[A-Z]{2,}(?:_[A-Z]+)+$|^[A-Z]{5,}$")
#: What has methods of these names, and the package as users import it.
OBJECTS = {"dp", "fit", "budget", "self", "score", "release", "design", "ask", "plan", "run"}
#: Names of other packages.
FOREIGN = {"transform_state", "randhie", "TRY_CAST"}


def sources():
    """Return (module or class -> the text of its files, "" for all, every word of the code)."""
    texts, words = {}, set()
    for folder in ("dpmodels", "tests", "benchmarks", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            if path == Path(__file__):
                continue  # it plants names that do not exist
            text = path.read_text(encoding="utf-8")
            words |= set(re.findall(r"\w+", text))
            if folder != "dpmodels":
                continue
            homes = {"", path.stem, *(one.name for one in path.relative_to(ROOT).parents)}
            homes |= set(re.findall(r"^class (\w+)", text, re.MULTILINE))
            for home in homes:
                texts[home] = texts.get(home, "") + text
    return texts, words


def unknown(text, texts, words):
    """Return the names of code in a note that the code does not have, or not in that place.

    `module.name` and `Class.name` must be defined in that module, or in the file of that class.
    """
    found = set()
    for quoted in QUOTED.findall(text):
        *homes, name = quoted.split("/")[-1].split(".")
        if name in FOREIGN or name in ("py", "md") or (homes and (homes[-1] in OBJECTS or homes[0] == "dp")):
            continue
        if homes and homes[-1] in texts:
            if not re.search(rf"\b{name}\b", texts[homes[-1]]):
                found.add(quoted)
            elif "_" in name and f"def {name}(" not in texts[homes[-1]]:
                defined = rf"^\s*(?:self\.)?{name}\b(?:: [^=\n]+)?(?: =|$|:)|^class {name}\b"
                if not re.search(defined, texts[homes[-1]], re.MULTILINE):
                    found.add(quoted)
        elif OF_CODE.search(name) and (name not in words or (f"def {name}(" in texts[""] and homes)):
            found.add(quoted)  # nowhere, or a function of another module
    return found


def test_names_of_code_in_notes_exist_where_notes_say():
    """In every theory note: functions, methods, classes and constants."""
    texts, words = sources()
    bad = {}
    for path in (ROOT / "dpmodels").rglob("*.md"):
        found = unknown(path.read_text(encoding="utf-8"), texts, words)
        if found:
            bad[path.relative_to(ROOT).as_posix()] = sorted(found)
    assert bad == {}
    planted = (
        "`state.kept_apart`, `scoring/models.kept_apart`, `sums._add_some`, `Look.ask`, `Look.tell`, "
        "`mu_s n`, `R_H`, `guide_of_rows(x)`, `ROW_FACTOR_MAX`, `ROW_FACTOR_MIDDLE`"
    )
    assert unknown(planted, texts, words) == {
        "state.kept_apart", "sums._add_some", "Look.tell", "guide_of_rows", "ROW_FACTOR_MIDDLE"
    }  # fmt: skip


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
