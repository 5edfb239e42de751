"""A record that is built again from its own fields is an equal record."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

RECORDS = [
    dp.Real(0, 1), dp.Real(), dp.Levels(["a", "b"]), dp.Levels([1, 2]), dp.Binary(),
    dp.Binary(("no", "yes")), dp.Count(4),
    dp.Survey(psu="p", psus=40), dp.Survey(weights="w", population=1e6),
    dp.Survey(psu="p", strata="h", weights="w", psus={"a": 40, "b": 60}, fpc={"a": 400, "b": 0.5}),
    dp.Survey(psu="p", strata="h", fpc=0.1, icc=0.3),
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_replace_without_a_change(record):
    fields = {f.name: getattr(record, f.name) for f in dataclasses.fields(record) if f.init}
    assert dataclasses.replace(record) == record and type(record)(**fields) == record


def test_lists_without_names_are_no_numbers_of_strata():
    with pytest.raises(dp.errors.RequestError, match="psus= must be public numbers"):
        dp.Survey(psu="p", strata="h", psus=(40, 60))


@pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
@pytest.mark.parametrize("more", [{}, {"fpc": {"a": 400, "b": 0.5}}])
def test_independence_by_a_design_with_declared_numbers_of_units(more):
    rng = np.random.default_rng(2)
    n = 3000
    data = pd.DataFrame({"p": rng.integers(0, 50, n), "w": rng.uniform(1, 2, n)})
    for name, levels in (("a", "xy"), ("b", "uv"), ("h", "ab")):
        data[name] = rng.choice(list(levels), n)
    levels = {"a": dp.Levels(["x", "y"]), "b": dp.Levels(["u", "v"]), "h": dp.Levels(["a", "b"])}
    survey = dp.Survey(psu="p", strata="h", weights="w", psus={"a": 50, "b": 50}, **more)
    call = {"eps": 40, "delta": 1e-6, "schema": {**levels, "w": dp.Real(0, 2)}, "seed": 1}
    test = dp.dp_test("~ a * b", data, design=survey, **call)
    assert 0.001 < test.pvalue <= 1.0


@pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
@pytest.mark.parametrize("eps", [0.05, 0.2, 1.0])
def test_no_plan_says_that_less_is_more(eps):
    """A figure stands beside the limit that it is above of, and no figure is infinite."""
    schema = dp.Schema(x=dp.Real(0, 1), y=dp.Real(0, 1))
    for n, psus in ((3000, 30), (20_000, 100), (20_000, 1000)):
        plan = dp.plan(
            "y ~ x", schema, n=n, eps=eps, delta=1e-6, vcov={"CRV1": "p"}, psus=psus
        )  # fmt: skip
        for figure, limit in re.findall(r"about ([\d.e+-]+) of .{1,90}?\(above ([\d.e+-]+)\)", " ".join(plan.advice)):
            assert float(figure) >= float(limit)
        rng = np.random.default_rng(1)
        data = pd.DataFrame({"x": rng.uniform(0, 1, 900), "y": rng.uniform(0, 1, 900)})
        data["p"] = rng.integers(0, 30, 900)
        fit = dp.dp_ols("y ~ x", data, eps=eps, delta=1e-6, schema=schema, vcov={"CRV1": "p"}, seed=1)
        assert not re.search(r"\binf\b", " ".join(fit.notes))
