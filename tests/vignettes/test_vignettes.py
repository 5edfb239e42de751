"""Every vignette runs, and its notebook is the one its source builds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "vignettes"
SOURCES = sorted(FOLDER.rglob("[0-9][0-9]-*.py"))


def test_there_are_vignettes():
    assert SOURCES


@pytest.mark.parametrize("source", SOURCES, ids=[s.stem for s in SOURCES])
def test_the_source_runs(source):
    result = subprocess.run(
        [sys.executable, str(source)],
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(FOLDER.parent)},
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.parametrize("source", SOURCES, ids=[s.stem for s in SOURCES])
def test_the_notebook_is_in_step(source):
    jupytext = pytest.importorskip("jupytext")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    expected = jupytext.read(source)
    assert [(c.cell_type, c.source) for c in notebook.cells] == [
        (c.cell_type, c.source) for c in expected.cells
    ]
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert all(c.execution_count for c in code)
    assert not any(o.output_type == "error" for c in code for o in c.outputs)
    assert any(c.outputs for c in code)
