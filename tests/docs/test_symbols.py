"""Every claim of a theory note can be read by itself: its symbols are explained in the same note.

A claim points to the table "Symbols" of its note. Every symbol of its statement is in that table,
in a "Symbols" line of its section, or in the setting of its section.
"""

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "dpmodels"
POINTER = "[symbols](#symbols)"
GREEK = [
    "alpha", "beta", "gamma", "delta", "eps", "eta", "theta", "kappa", "lam",
    "lambda", "mu", "nu", "omega", "phi", "psi", "rho", "sigma", "tau",
    "xi", "zeta", "Delta", "Lambda", "Phi", "Psi", "Sigma", "Theta", "Gamma",
]  # fmt: skip
#: A letter, a Greek letter or a short word with an index, which is not part of a longer name.
SYMBOL = re.compile(
    r"(?<![\w./=\"'-])((?:[A-Za-z]|sd|se|svec|SymN|dG|cv|" + "|".join(GREEK) + r")(?:_\w+)?~?'?)(?![\w./(]*\w)"
)
#: Letters of English, of sub-claims, and what every reader knows.
KNOWN = {"a", "A", "I", "e", "s", "d", "E", "P", "t", "x", "y", "i", "j", "k", "D", "R", "p", "L1", "L2"}
CLAIM = re.compile(r"\*\*(?:Claim|Lemma|Theorem)\b")
END = re.compile(r"\*\*(?:Proof|Assumptions|Remark|In the code|Condition|Method)\b|\nProof|\*Proof|QED|\n#")


def notes():
    return [path for path in sorted(PACKAGE.rglob("*.md")) if CLAIM.search(path.read_text(encoding="utf-8"))]


def explained(text):
    """Return the symbols that tables with the heading "symbol" and lines "Symbols." explain."""
    found = set()
    for row in re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE):
        found |= set(re.findall(r"[A-Za-z]\w*", row))
    for line in re.findall(r"\*\*(?:Symbols|Setting|Notation)\.\*\*(.*?)(?:\n\n|\Z)", text, re.DOTALL):
        found |= set(SYMBOL.findall(line))
    return found


def claims(text):
    """Return (line, statement, text of the section) of every claim of a note."""
    found = []
    for match in CLAIM.finditer(text):
        end = END.search(text, match.end())
        statement = text[match.start() : end.start() if end else len(text)]
        heads = [m.start() for m in re.finditer(r"^#+ ", text, re.MULTILINE)]
        start = max((h for h in heads if h < match.start()), default=0)
        stop = min((h for h in heads if h > match.start()), default=len(text))
        found.append((text[: match.start()].count("\n") + 1, statement, text[start:stop]))
    return found


def plain(symbol):
    return symbol.rstrip("~'")


def unexplained(text):
    """Return {line of a claim: its symbols that the note does not explain}."""
    table = re.search(r"^## Symbols\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    head = {plain(s) for s in explained(table[1])} if table else set()
    bad = {}
    for line, statement, section in claims(text):
        here = head | {plain(s) for s in explained(section)} | KNOWN
        used = {plain(s) for s in SYMBOL.findall(re.sub(r"`[\w./]+\.(?:py|md)`", "", statement))}
        if used - here:
            bad[line] = sorted(used - here)
    return bad


@pytest.mark.parametrize("path", notes(), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_symbols_of_a_claim_are_explained_in_its_note(path):
    text = path.read_text(encoding="utf-8")
    assert unexplained(text) == {}


@pytest.mark.parametrize("path", notes(), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_every_claim_points_to_its_symbols(path):
    text = path.read_text(encoding="utf-8")
    assert "\n## Symbols\n" in text
    lost = [line for line, statement, _ in claims(text)
            if POINTER not in statement[:250] and "**Symbols.**" not in statement]  # fmt: skip
    assert lost == []


def test_no_letter_in_brackets_stands_for_a_rule_that_the_note_does_not_name():
    """A rule has a name: ``(U)`` is in no note."""
    assert [p.name for p in PACKAGE.rglob("*.md") if "(U)" in p.read_text(encoding="utf-8")] == []


def test_the_check_can_fail():
    text = "## Symbols\n\n| symbol | meaning |\n|---|---|\n| mu, C | a |\n\n## 1\n**Claim.** C and W_S. **Proof.** Z"
    assert unexplained(text) == {8: ["W_S"]}
