"""The command line: results on stdout, notices on stderr, exit codes by kind of outcome."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dpmodels import cli
from dpmodels.results import load


@pytest.fixture
def run(capsys):
    def call(*argv):
        code = cli.main(list(argv))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(11)
    x = rng.uniform(0, 1, (8000, 2))
    y = np.clip(1 + x @ [2.0, -1.0] + 0.2 * rng.standard_normal(8000), -1, 4)
    path = tmp_path / "table.csv"
    np.savetxt(path, np.column_stack([y, x]), delimiter=",", header="y,x1,x2", comments="")
    return str(path)


SCHEMA = """
[y]
type = "real"
lower = -1
upper = 4
[x1]
type = "real"
lower = 0
upper = 1
[x2]
type = "real"
lower = 0
upper = 1
"""
PRIVACY = ("--eps", "1", "--delta", "1e-6")


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA)
    return str(path)


def test_demo(run):
    code, out, err = run("demo")
    assert code == 0
    assert "Differentially private linear regression" in out and "Rows used:" in out
    assert "(eps = 1, delta = 1e-06)-DP" in out and "NOT PRIVATE" not in out
    assert "Privacy ledger" in out and "information and scores 2" in out and "method=" not in err
    assert "Ranges were estimated" not in out, "the bundled data declare their ranges"
    assert "RAND" in err


def test_fit_formats_and_file(run, table, schema, tmp_path):
    out_file = str(tmp_path / "fit.json")
    words = ("fit", "y ~ x1 + x2", "--data", table, "--schema", schema, *PRIVACY)
    code, out, err = run(*words, "--method", "eptr", "--out", out_file)
    assert code == 0 and "x2" in out and out_file in err
    fit = load(out_file)
    assert abs(fit.params["x1"] - 2) < 0.3 and fit.privacy.eps == 1
    code, out, _ = run(*words, "--format", "json")
    assert code == 0 and json.loads(out)["format"] == "dpmodels.fit"
    words = (*words, "--method", "eptr")
    code, out, _ = run(*words, "--format", "md", "--no-inference", "--option", "whiten=false")
    assert code == 0 and out.startswith("**Differentially private") and "No standard errors: the call had inference=False" in out


def test_bounds_on_the_command_line(run, table):
    bounds = ("--bounds", "y=-1:4", "x1=0:1", "x2=0:1")
    code, out, _ = run("fit", "y ~ x1 + x2", "--data", table, *PRIVACY, *bounds)
    assert code == 0 and "Ranges were estimated" not in out
    code, out, _ = run("fit", "y ~ x1", "--data", table, *PRIVACY, "--bounds", "private")
    assert code in (0, 4) and "anges" in out
    code, _, err = run("fit", "y ~ x1", "--data", table, *PRIVACY, "--bounds", "x1=0-1")
    assert code == 2 and "alcohol=8:15" in err


def test_no_reply_is_4(run, table, tmp_path):
    small = tmp_path / "small.csv"
    with open(table) as whole:
        small.write_text("".join(next(whole) for _ in range(40)))
    bounds = ("--bounds", "y=-1:4", "x1=0:1", "x2=0:1")
    words = ("fit", "y ~ x1 + x2", "--data", str(small), "--method", "eptr")
    code, out, err = run(*words, *PRIVACY, *bounds, "--option", "scoring=false")
    assert code == 4 and "NO REPLY" in out and err.startswith("note: ")


def test_refusals_are_3_and_quote_no_cell(run, table, schema):
    words = ("--data", table, "--schema", schema, *PRIVACY)
    code, out, err = run("fit", "y ~ scale(x1)", *words)
    assert code == 3 and out == "" and err.startswith("FormulaPrivacyError:")
    code, out, err = run("fit", "y ~ x9", *words)
    assert code == 3 and out == "" and "x9" in err


def test_usage_is_2(run, table, schema):
    for argv in (
        (),
        ("nonsense",),
        ("fit", "y ~ x1", "--data", table),
        ("fit", "y ~ x1", "--data", table, "--eps", "0", "--delta", "1e-6"),
        ("fit", "y ~ x1", "--data", table, *PRIVACY, "--method", "eprt"),
        ("fit", "y ~ x1", "--data", table, *PRIVACY, "--option", "whitten=true"),
        ("fit", "y ~ x1", "--data", table, *PRIVACY, "--option", "whiten"),
        ("methods", "nothing-like-this"),
        ("fit", "y ~ x1", "--data", table, *PRIVACY, "--ledger", "no-such.ledger"),
    ):
        code, out, err = run(*argv)
        assert code == 2 and out == "" and err, argv


def test_anything_else_is_1(run, monkeypatch):
    for argv in (
        ("fit", "y ~ x1", "--data", "no-such-file.csv", *PRIVACY),
        ("ledger", "no-such.ledger"),
        ("describe", "y ~ x1", "--schema", "no-such.toml"),
    ):
        code, out, err = run(*argv)
        assert code == 1 and out == "" and "no-such" in err

    def broken(arguments):
        raise KeyError("sentinel-cell")

    monkeypatch.setattr(cli, "_demo", broken)
    code, out, err = run("demo")
    assert code == 1 and "sentinel-cell" not in err and "KeyError" in err


def test_plan_and_describe_read_no_data(run, schema):
    code, out, _ = run("plan", "y ~ x1 + x2", "--schema", schema, "--n", "8000", *PRIVACY)
    assert code == 0 and 'method="ssp"' in out
    code, out, _ = run("describe", "y ~ x1 * x2", "--schema", schema)
    assert code == 0 and "x1:x2" in out


def test_methods(run):
    code, out, _ = run("methods")
    assert code == 0 and "eptr" in out and "dp_ols" in out
    lines = [line.split() for line in out.splitlines()]
    assert lines[lines.index(["dp_ols"]) + 1][0] == "ssp"
    assert "comparison only" in out and "True" not in out and "False" not in out
    code, out, _ = run("methods", "eptr")
    assert code == 0 and "whiten" in out


def test_schema_new_is_a_schema(run):
    from dpmodels.formula.schema import Schema

    code, out, _ = run("schema", "new", "quality", "pH value")
    assert code == 0
    text = out.replace("# lower = ", "lower = 1").replace("# upper = ", "upper = 2")
    schema = Schema.from_toml(text)
    assert list(schema) == ["quality", "pH value"] and schema["pH value"].interval == (1, 2)


def test_ledger_file(run, table, schema, tmp_path):
    path = str(tmp_path / "study.ledger")
    words = ("fit", "y ~ x1", "--data", table, "--schema", schema, "--ledger", path)
    new = ("--budget-eps", "1.5", "--budget-delta", "1e-5")
    code, _, err = run(*words, *PRIVACY, *new)
    assert code == 0, err
    code, out, err = run(*words, "--eps", "5", "--delta", "1e-6")
    assert code == 3 and out == "" and "BudgetExceededError" in err
    code, out, _ = run("ledger", path)
    assert code == 0 and "dp_ols" in out and "1.5" in out


def test_every_command_has_help_with_an_example(run):
    for name in ("demo", "fit", "plan", "describe", "methods", "ledger", "schema"):
        code, out, _ = run(name, "--help")
        assert code == 0 and f"example:\n  dpmodels {name}" in out
    code, out, _ = run("--version")
    assert code == 0 and out.startswith("dpmodels ")


def test_fit_and_plan_of_every_verb(run, table, schema):
    words = ("--data", table, "--schema", schema, *PRIVACY)
    code, out, _ = run("fit", "y + x1 ~ 1", "--verb", "mean", *words)
    assert code == 0 and "Mean" in out and "x1" in out
    code, out, _ = run("fit", "y ~ x1", "--verb", "dp_quantreg", "--option", "tau=[0.25, 0.75]", *words)
    assert code == 0 and "0.75" in out
    code, out, err = run("fit", "y ~ x1", "--verb", "glmm", *words)
    assert code == 2 and out == "" and "Did you mean 'glm'" in err
    code, _, err = run("fit", "y ~ x1", "--verb", "vote", *words)
    assert code == 2 and "Verbs: ols" in err
    code, out, _ = run("plan", "y ~ x1", "--verb", "quantreg", "--schema", schema, "--n", "8000", *PRIVACY)
    assert code == 0 and "forecast" in out
