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


#: Words of our own, and the field's term for each; docs/glossary.md has the rest.
OF_OUR_OWN = {
    r"(?:the|The|no|joint|whose) reach\b": "sensitivity",
    r"lays (?!out\b|them out)|lays?\b down|laid\b (?!out\b)|rows lay\b": "adds, contributes",
    r"[Mm]anners?\b": "clipping policy",
    r"[Cc]rews?\b": "executor",
    r"(?:un)?heard\b": "above noise, explained by noise",
    r"humped\b": "unimodal above the clip",
    r"[Vv]oids?\b": "missing row",
    r"begun\b": "initialised",
    r"loud\b": "high noise ratio",
    r"[Ss]ettled\b": "constrained",
    r"ssp\b": "scoring, or moments",
}
#: Where such a word is English, or a name that users may still give: (file, beginning of the text).
ENGLISH: set[tuple[str, str]] = set()


def words_of_our_own(text):
    """Return what a text says in words that a stranger does not know."""
    plain = re.sub(r"``[^`]*``|'[^']*'|\"[^\"]*\"", "", text)  # code and names in quotes
    return [field for word, field in OF_OUR_OWN.items() if re.search(r"(?<![-\w])" + word, plain)]


def test_docstrings_and_messages_speak_the_language_of_the_field():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                words = words_of_our_own(node.value)
                english = any(file == f and node.value.startswith(t) for f, t in ENGLISH)
                if words and not english:
                    found[f"{file}:{node.lineno}"] = words
    assert found == {}


def test_the_search_of_words_sees_them():
    assert words_of_our_own("What a person lays down is in the set.") == ["adds, contributes"]
    assert words_of_our_own("The crew of a source.") and words_of_our_own("A void row.")
    assert not words_of_our_own("Laid out as a table; ``void`` rows avoid nothing.")
