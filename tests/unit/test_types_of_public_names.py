"""A type checker of a user's script knows the public names: right use passes, wrong use is found."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RIGHT = """
import dpmodels as dp
schema = dp.Schema(x=dp.Real(0, 1), y=dp.Real(-5, 5), e=dp.Binary())
fit = dp.dp_ols("y ~ x", {}, schema=schema, eps=1, delta=1e-6, unit="id", rows_per_unit=4)
print(fit.params["x"], fit.summary(digits=3), fit.rsquared)
logit = dp.dp_glm("e ~ x", {}, eps=1.0, delta=1e-6, family="binomial", schema=schema, level=0.9)
print(logit.predict({"x": [0.5]}), logit.privacy.eps)
table = dp.dp_table("~ x", {}, by="e", eps=1, delta=1e-6, smd=True, medians=["x"])
print(table.crosstab("x", "e"), dp.etable(fit, logit))
plan = dp.plan("y ~ x", schema, n=1000, eps=1, delta=1e-6, want="power", effect={"x": 0.1})
print(plan.expected_se, dp.Budget(4, 1e-6), dp.load("fit.json"))
"""
WRONG = """
import dpmodels as dp
dp.dp_ols("y ~ x", {}, epsilon=1, delta=1e-6)
dp.dp_ols("y ~ x", {}, eps="one", delta=1e-6)
dp.dp_ols(5, {}, eps=1, delta=1e-6)
dp.dp_glm("e ~ x", {}, eps=1, delta=1e-6, famly="binomial")
dp.dp_ols("y ~ x", {}, eps=1, delta=1e-6).nosuch
dp.dp_table("~ x", {}, eps=1, delta=1e-6, medianss=["x"])
dp.dp_mean("x", {}, eps=1, delta=1e-6).predict({})
dp.dp_lm("y ~ x", {}, eps=1, delta=1e-6)
dp.Survey(weight="w")
dp.Budget(4, 1e-6).left
"""


@pytest.mark.slow
def test_right_use_passes_and_wrong_use_is_found(tmp_path):
    """``mypy --strict`` finds fault with each wrong line, and with no right one."""
    pytest.importorskip("mypy")
    for name, text in (("right.py", RIGHT), ("wrong.py", WRONG)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=",
               "--ignore-missing-imports", "--no-error-summary", "--cache-dir=cache", "right.py",
               "wrong.py"]  # fmt: skip
    found = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )  # fmt: skip
    assert not found.stderr, found.stderr
    at = {tuple(line.split(":")[:2]) for line in found.stdout.splitlines() if ": error:" in line}
    assert at == {("wrong.py", str(k)) for k in range(3, 13)}, found.stdout


def test_the_stub_is_that_of_the_package():
    made = runpy.run_path(str(ROOT / ".ci" / "stub.py"))
    kept = (ROOT / "dpmodels" / "__init__.pyi").read_text(encoding="utf-8")
    assert kept == made["stub"](), "python .ci/stub.py --write"
