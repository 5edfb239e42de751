"""The quick start of the README runs and prints what it shows (but for the noise)."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language):
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found
    return found.group(1)


def without_releases(lines):
    """Leave out the facts that are released numbers: they differ from run to run."""
    said = r"(R-squared|Residual sd): +[\d.]+( \[[\d., ]+\])?|Rows used: +[\d ]+ of 20 190 \(noisy, \+- [\d ]+\)"
    kept = [re.sub(said, "", line) for line in lines]
    return [line for line in kept if line.strip()]


def test_quick_start_runs_and_looks_as_shown():
    result = subprocess.run(
        [sys.executable, "-c", block("python")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "COLUMNS": "100"},  # the wide layout, whatever the terminal
    )
    assert result.returncode == 0, result.stderr[-2000:]
    printed, shown = result.stdout.splitlines(), block("text").splitlines()
    top = shown.index("-" * 88)
    end = printed.index("-" * 88)
    assert list(map(str.split, without_releases(printed[:end]))) == list(
        map(str.split, without_releases(shown[:top]))
    )
    for label in (
        "Intercept",
        "ln(coinsurance + 1)",
        "physical limitation",
        "chronic disease index",
    ):
        assert any(line.startswith(label) for line in printed[end:])
        assert any(line.startswith(label) for line in shown)
    assert shown[-1] in printed


def test_the_two_commands_are_those_of_the_continuous_integration():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert '"$(typed pytest)"' in script and "$(typed 'dpmodels demo' |" in script
    assert "export" not in script and "unset OMP_NUM_THREADS OPENBLAS_NUM_THREADS" in script
    # what it types is found in this file, word by word
    lines = [line for line in README.splitlines() if line.startswith("python3 -m venv")]
    (tests,) = [line for line in lines if "pytest" in line]
    (demo,) = [line for line in lines if "dpmodels demo" in line]
    assert tests.endswith('pip install -e ".[dev]" && .venv/bin/python -m pytest -n auto')
    assert demo.endswith("pip install . && .venv/bin/dpmodels demo")
