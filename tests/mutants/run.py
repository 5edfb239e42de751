"""Run the list of mutants: each is applied to a copy of the tree and must be killed by its tests.

``python tests/mutants/run.py`` prints a line a mutant and the score; ``--check`` only says whether
every mutant still applies; ``--only WORD`` runs those whose file or change contains the word.
The exit status is the number of survivors that are not proved equivalent.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from mutants import MUTANTS  # noqa: E402


def applied(mutant, root):
    """Write the mutated file below ``root``; return the text that stood there."""
    path = root / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.file}: {mutant.old!r} occurs {text.count(mutant.old)} times")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return text


def copy_of_tree(folder):
    for name in ("dpmodels", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.cfg", "README.md"):
        shutil.copy(ROOT / name, folder / name)


def runs(tests):
    """Split the arguments of several runs of pytest at ``|``."""
    out = [[]]
    for word in tests:
        if word == "|":
            out.append([])
        else:
            out[-1].append(word)
    return out


def killed(mutant, folder, seconds):
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for arguments in runs(mutant.tests):
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no"]
        command += ["-p", "no:cacheprovider", *arguments]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True,
                timeout=seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None, "no verdict: the time was up"
        if done.returncode in (4, 5):  # wrong arguments, or they choose no test
            raise SystemExit(f"{mutant.file}: pytest failed to run\n{done.stdout}{done.stderr}")
        line = [x for x in done.stdout.splitlines() if x.startswith(("FAILED", "ERROR"))]
        if done.returncode:
            return True, line[0].split(" - ")[0] if line else ""
    return False, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", type=int, default=0, help="the first so many")
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if options.only in f"{m.file} {m.old} {m.new}"]
    chosen = chosen[options.skip :]
    dead = equivalent = 0
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_of_tree(folder)
        for mutant in chosen:
            text = applied(mutant, folder)
            start = time.monotonic()
            try:
                gone, by = (True, "") if options.check else killed(mutant, folder, options.seconds)
            finally:
                (folder / mutant.file).write_text(text, encoding="utf-8")
            dead += gone is True
            if not gone:
                equivalent += bool(mutant.equivalent)
                survivors += [] if mutant.equivalent else [mutant]
            state = "killed" if gone else ("equivalent" if mutant.equivalent else "SURVIVED")
            state = "no verdict" if gone is None else state
            took = time.monotonic() - start
            print(f"{state:10s} {took:5.1f}s {mutant.file}: {mutant.new.strip()}  {by}", flush=True)
    print(
        f"{len(chosen)} mutants: {dead} killed, {equivalent} proved equivalent, "
        f"{len(survivors)} survive"
    )
    return len(survivors)


if __name__ == "__main__":
    sys.exit(main())
