"""What a reader meets, and what has to be right, only becomes less: ``python .ci/counts.py --write``."""

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Functions that another version of pandas or numpy may add to a call.
OF_VERSIONS = 15


def test_no_count_rises():
    found = runpy.run_path(str(ROOT / ".ci" / "counts.py"))["counted"]()
    limits = json.loads((ROOT / "tests" / "unit" / "counts.json").read_text(encoding="utf-8"))
    assert set(found) == set(limits)
    more = {
        name: (many, limits[name])
        for name, many in found.items()
        if many > limits[name] + OF_VERSIONS * name.startswith("functions")
    }
    assert not more, "these counts rose (now, limit): delete before you add"
