"""A mutant whose text is gone tests nothing: every one on the list still applies."""

import subprocess
import sys
from pathlib import Path


def test_every_mutant_still_applies():
    given = [sys.executable, str(Path(__file__).with_name("run.py")), "--check"]
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-500:]
