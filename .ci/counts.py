"""Count what a reader meets in one call, and how long the list of what has to be right is.

``python .ci/counts.py`` prints the counts; ``--write`` stores them as the limits of
``tests/unit/test_counts.py``, which lets them only fall. Do that after a count has fallen.
"""

import ast
import json
import re
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dpmodels"
#: New modules of what readers ask (statements, pictures, sites, causes, windows), counted apart.
AFTERWARDS = (
    "attacker.py", "gain.py", "tables/great.py", "tables/pictures.py", "results/event_study.py",
    "results/effect_curve.py", "models/table/plots.py",
    "results/factors.py", "results/forest.py", "results/merged.py", "results/joint.py",
    "results/bands.py", "results/statements.py", "results/meta.py", "results/adjusted.py",
    "models/survival/incidence.py", "api/pool.py", "study/joining.py",
    "models/window.py", "models/public.py",
)  # fmt: skip
LIMITS = ROOT / "tests" / "unit" / "counts.json"


def calls():
    """Return the calls whose functions are counted, by name, on a small made table."""
    import dpmodels as dp

    rng, n = np.random.default_rng(1), 3000
    d = pd.DataFrame({"x": rng.uniform(0, 1, n), "z": rng.uniform(-1, 1, n)})
    d["id"] = np.repeat(np.arange(n // 3), 3)
    d["y"] = 1 + 2 * d.x + rng.normal(0, 0.3, n)
    d["b"] = (d.x + rng.normal(0, 0.3, n) > 0.5).astype(int)
    d["t"], d["d"] = rng.exponential(1, n).clip(0.01, 3), rng.integers(0, 2, n)
    schema = dp.Schema(
        x=dp.Real(0, 1), z=dp.Real(-1, 1), y=dp.Real(-1, 5), t=dp.Real(0, 3), b=dp.Binary(),
        d=dp.Binary(),
    )  # fmt: skip
    given = {"eps": 1, "delta": 1e-6, "schema": schema, "seed": 1}
    return {
        "dp_ols": lambda: dp.dp_ols("y ~ x + z", d, **given),
        "dp_ols with unit=": lambda: dp.dp_ols("y ~ x + z", d, unit="id", **given),
        "dp_glm": lambda: dp.dp_glm("b ~ x + z", d, family="binomial", **given),
        "dp_coxph": lambda: dp.dp_coxph("Surv(t, d) ~ x", d, **given),
        "dp_mean": lambda: dp.dp_mean("x ~ 1", d, **given),
        "dp_table": lambda: dp.dp_table("y ~ b", d, **given),
    }


def met(call):
    """Return how many functions of the package a second call meets."""
    call()
    functions = set()

    def seen(frame, event, _):
        code = frame.f_code
        ours = event == "call" and code.co_filename.startswith(str(PACKAGE))
        if ours and not code.co_name.startswith("<"):
            functions.add((code.co_filename, code.co_firstlineno))

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(before)
    return len(functions)


def exceptions():
    """Return how many exceptions the test of the wall lists."""
    tree = ast.parse((ROOT / "tests" / "unit" / "test_wall.py").read_text(encoding="utf-8"))
    lists = {"NOT_OF_A_ROW", "NOT_AN_END", "READ_HERE", "HARMLESS", "UPWARDS", "NOT_ON_WORKERS"}
    many = 0
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in lists:
            many += sum(
                isinstance(n, ast.Constant) and isinstance(n.value, str) and "." in n.value
                and " " not in n.value
                for n in ast.walk(node.value)
            )  # fmt: skip
    return many


def counted():
    """Return every count by name."""
    trusted = runpy.run_path(str(ROOT / ".ci" / "trusted.py"))["written"]()
    lines = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in PACKAGE.rglob("*.py")}
    afterwards = sum(lines.pop(PACKAGE / name) for name in AFTERWARDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        functions = {f"functions of a second {name}": met(call) for name, call in calls().items()}
    return {
        **functions,
        "lines of the package": sum(lines.values()),
        "lines of statements and pictures after a release": afterwards,
        "lines of scoring/": sum(v for p, v in lines.items() if p.parent.name == "scoring"),
        "trusted lines": int(re.search(r"rests on ([\d,]+) lines", trusted)[1].replace(",", "")),
        "exceptions of the wall": exceptions(),
    }


if __name__ == "__main__":
    found = counted()
    print(json.dumps(found, indent=1))
    if "--write" in sys.argv:
        LIMITS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
