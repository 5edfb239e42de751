"""The Python side of the R package, without R: columns as bytes in, plain lists out."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.interop.r import argument, plain, run, table

#: The warnings of a call are part of its answer.
pytestmark = pytest.mark.filterwarnings("default::dpmodels.errors.DPModelsWarning")
R = Path(__file__).parents[3] / "r"
MISSING = -(2**31)


def column(kind, cells, dtype, **more):
    return {"kind": kind, "cells": bytearray(np.array(cells, dtype).tobytes()), **more}


@pytest.fixture
def rows():
    rng = np.random.default_rng(4)
    x, g = rng.uniform(0, 1, 3000), rng.integers(0, 3, 3000)
    return {"x": x, "y": np.clip(x + 0.1 * g, 0, 2), "g": np.array(["a", "b", "c"])[g]}


def columns_of_r(rows):
    levels, codes = np.unique(rows["g"], return_inverse=True)
    numbers = [column("number", rows[name], float) for name in ("x", "y")]
    text = column("text", codes + 1, np.int32, levels=list(levels))
    return {"names": ["x", "y", "g"], "r_columns": [*numbers, text]}


SCHEMA = {"x": [0.0, 1.0], "y": [0.0, 2.0], "g": ["a", "b", "c"]}


def arguments(rows, **more):
    return {"formula": "y ~ x + g", "data": columns_of_r(rows), "schema": SCHEMA, "eps": 1.0,
            "delta": 1e-6, "seed": 5.0, **more}  # fmt: skip


def test_each_kind_of_column_has_its_missing_cell_and_a_type_of_its_own():
    signalling = np.frombuffer(np.array([0x7FF00000000007A2], np.uint64).tobytes())[0]
    given = [
        column("number", [1.5, np.nan], float),
        column("integer64", [2**40, -(2**63)], np.int64),
        column("logical", [1, MISSING], np.int32),
        column("text", [2, MISSING], np.int32, levels=["a", "b"]),
        column("text", [MISSING, MISSING], np.int32, levels=[]),
        column("date", [18321.9, signalling], float),
        column("time", [1582975800.25, np.inf], float),
        column("duration", [5400.5, np.nan], float),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = table([f"c{i}" for i in range(8)], given)
    assert frame["c0"][0] == 1.5 and frame["c1"][0] == 2.0**40
    assert frame["c2"][0] is np.True_ and frame["c3"][0] == "b"
    assert str(frame["c5"][0]) == "2020-02-29 00:00:00"
    assert str(frame["c6"][0]) == "2020-02-29 11:30:00.250000"
    assert str(frame["c7"][0]) == "0 days 01:30:00.500000"
    assert frame.iloc[1].isna().all()
    names = [str(kind).partition("[")[0] for kind in frame.dtypes]
    assert names == ["float64", "float64", "boolean", "category", "category", *["datetime64"] * 2, "timedelta64"]


def test_a_fit_is_that_of_a_frame(rows):
    answer = run("dp_ols", arguments(rows))
    with pytest.warns(dp.errors.NotPrivateWarning) as said:
        fit = dp.dp_ols("y ~ x + g", rows, eps=1, delta=1e-6, seed=5,
                        schema={"x": (0, 1), "y": (0, 2), "g": dp.Levels(["a", "b", "c"])})  # fmt: skip
    assert answer["error"] == "" and answer["value"]["nobs"] == 3000.0
    assert answer["warnings"] == [[str(w.message), "NotPrivateWarning"] for w in said]
    kept = {"r_fit": answer["value"]["record"]}
    assert run("params", {}, kept)["value"] == {"names": list(fit.params.index), "values": list(fit.params)}
    tidy = run("tidy", {"style": "r"}, kept)["value"]
    assert tidy["columns"] == list(fit.tidy(style="r").columns)
    assert tidy["cells"][1] == list(fit.tidy()["estimate"])
    assert run("summary", {}, kept)["value"]["text"] == fit.summary().as_text()
    interval = run("conf_int", {}, kept, [0.9])["value"]
    assert interval["columns"] == ["5 %", "95 %"] and interval["rows"][1] == "x"
    again = run("quantile", {}, kept, [0.5])  # the text of the package, of a fit without quantiles
    assert again["value"] is None and "quantile" in again["error"]
    assert answer["value"]["ledger"]["cells"][2] == list(fit.ledger.to_frame()["what"])


def test_errors_and_their_classes_come_back_as_text(rows):
    with pytest.raises(dp.errors.FormulaError) as raised:
        dp.dp_ols("y ~ zz", rows, eps=1, delta=1e-6)
    answer = run("dp_ols", {**arguments(rows), "formula": "y ~ zz", "seed": None})
    assert answer["error"] == str(raised.value) and answer["value"] is None
    assert answer["kind"][:3] == ["FormulaError", "DPModelsError", "ValueError"]
    assert run("dp_nothing", {})["kind"][0] == "AttributeError"


def test_a_budget_stays_in_python_and_is_charged(rows):
    budget = run("Budget", {"eps": 2.0, "delta": 1e-5})["value"]
    run("dp_mean", arguments(rows, formula="~ x", budget=budget, seed=None))
    ledger = run("to_frame", {}, budget)["value"]
    assert set(ledger["cells"][ledger["columns"].index("call_eps")]) == {1.0}


def test_fits_go_back_and_results_keep_their_object_and_parts(rows):
    kept = [{"r_fit": run("dp_ols", arguments(rows))["value"]["record"]}] * 2
    mean = run("meta", {"names": ["a", "b"]}, None, [kept])["value"]
    assert mean["text"].startswith("Meta-analysis") and "seeded" in run("statement", {}, mean["object"])["value"]
    assert run("tidy", {}, mean["object"])["value"]["cells"][0] == ["Intercept", "x", "g[T.b]", "g[T.c]"]
    with pytest.warns(dp.errors.NotPrivateWarning):
        found = plain(dp.dp_levels("g", rows, eps=2, delta=1e-6, seed=1))
    assert found["g"]["type"] == "levels" and set(found["g"]["levels"]) == {"a", "b", "c"} and "value" in found["text"]
    answer = run("dp_ols", arguments(rows, schema={**SCHEMA, "g": found["g"]}))
    assert answer["error"] == ""


def test_a_study_stays_in_python(tmp_path):
    (tmp_path / "study.toml").write_text("[study]\ntitle = 'none'\n")
    study = run("Study.read", {}, None, [str(tmp_path / "study.toml")])["value"]
    assert isinstance(study, dp.Study) and "cannot run" in run("check", {}, study)["value"]["text"]


def test_a_plan_is_a_list(rows):
    schema = {"x": [0.0, 1.0], "ok": [False, True], "y": {"type": "count", "upper": 9.0}}
    sent = run("plan", {"formula": "y ~ x + ok", "schema": schema, "n": 4000.0, "eps": 1.0, "delta": 1e-6})
    assert sent["error"] == "" and "nothing charged" in sent["value"]["text"]
    assert all(isinstance(share, float) for share in sent["value"]["shares"]["values"])


def test_a_survey_is_a_list(rows):
    rows["w"] = np.full(3000, 2.0)
    data = columns_of_r(rows)
    data["names"].append("w")
    data["r_columns"].append(column("number", rows["w"], float))
    sent = run("dp_mean", arguments(rows, formula="~ x", data=data, design={"weights": "w"},
                                    schema={**SCHEMA, "w": [0.0, 4.0]}))  # fmt: skip
    assert sent["error"] == "" and sent["value"]["nobs"] == 3000.0


def test_whole_numbers_are_integers_and_text_may_be_missing():
    assert argument([1.0, 1.5, {"k": 2.0}, True, "a"]) == [1, 1.5, {"k": 2}, True, "a"]
    assert isinstance(argument(3.0), int) and isinstance(argument(2.0**60), float)
    frame = table(["t"], [column("text", [1, MISSING], np.int32, levels=["a"])])
    assert plain(frame)["cells"] == [["a", None]]
    assert plain((np.float64(2), np.arange(2), {"k": None})) == [2.0, [0, 1], {"k": None}]


def test_the_two_packages_have_one_version_and_a_page_for_every_function():
    version = re.search(r"^Version: (\S+)", (R / "DESCRIPTION").read_text(), re.M).group(1)
    assert version.split(".")[:3] == dp.__version__.split(".")[:3]
    pages = "".join(page.read_text() for page in (R / "man").glob("*.Rd"))
    exported = re.findall(r"^export\((\w+)\)", (R / "NAMESPACE").read_text(), re.M)
    assert len(exported) == 33 and all(f"\\alias{{{name}}}" in pages for name in exported)
