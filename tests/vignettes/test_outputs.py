"""The outputs of notebooks are those that their sources print today, numbers aside.

Noise is not seeded everywhere, so words are compared: every number stands as ``#``.
"""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "vignettes"
SOURCES = sorted(FOLDER.rglob("[0-9][0-9]-*.py"))
_NUMBER = re.compile(r"[-+<]?\d[\d.,]*(?:e[-+]?\d+)?%?|\bnan\b|\binf\b|n/a")
#: Digests, whose letters are chance.
_DIGEST = re.compile(r"\b[0-9a-f]{12,}\b")
#: Marks of coefficients and flags of intervals follow the noise.
_MARKS = re.compile(r"[*^\u2020\u2021]+|(?<!\w)[a-z]{1,2}(?!\w)")


def words(text):
    """Return the words of a text: numbers as #, digests, marks, rules and layout left out."""
    text = _MARKS.sub(" ", _NUMBER.sub("#", _DIGEST.sub("#", text)))
    return sorted(set(re.findall(r"[A-Za-z_][\w']{2,}", text)))


def printed(cells):
    """Return the words of each code cell's text outputs."""
    out = []
    for cell in cells:
        if cell.cell_type == "code":
            texts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.outputs]
            out.append(words(" ".join(texts)))
    return out


def differences(stored, now):
    """Return (cell, words that are gone, words that are new) where outputs differ by many words.

    A note may depend on the noise: up to a tenth of the words of a cell may differ, at least 12.
    """
    found = []
    for k, (a, b) in enumerate(zip(stored, now, strict=True)):
        gone, new = sorted(set(a) - set(b)), sorted(set(b) - set(a))
        if len(gone) + len(new) > max(12, 0.1 * (len(a) + len(b))):
            found.append((k, gone, new))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=[s.stem for s in SOURCES])
def test_outputs_are_in_step(source):
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    jupytext = pytest.importorskip("jupytext")
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    stored = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    fresh = jupytext.read(source)
    fresh.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    pytest.importorskip("ipykernel")
    try:
        NotebookClient(fresh, timeout=600, kernel_name="python3").execute(cwd=str(FOLDER))
    except CellExecutionError as error:
        if "nothing to show" not in str(error):
            raise
        pytest.skip("for want of the data folder (DPMODELS_DATA)")
    assert differences(printed(stored.cells), printed(fresh.cells)) == []


def test_what_is_compared():
    old = words("x   0.31 *  (0.02)   Note: rows were clipped.")
    assert old == words("x   1.7     (0.5)  Note: rows were clipped.")
    assert differences([old], [old]) == []
    other = "alpha beta gamma delta epsilon zeta theta iota kappa lambda sigma omega tau rho"
    assert differences([old], [words(other)])[0][0] == 0
