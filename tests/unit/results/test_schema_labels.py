"""Labels of the schema appear in summaries, tables of fits and plots on request."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.errors import RequestError
from dpmodels.results.inference import schema_labels


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(2)
    n = 3000
    frame = pd.DataFrame({"age": rng.uniform(18, 90, n), "inc": rng.uniform(1, 90, n)})
    frame["sex"] = rng.choice(["f", "m:x"], n)
    frame["y"] = 0.01 * frame.age + 0.2 * (frame.sex == "f") + rng.normal(0, 0.3, n)
    schema = dp.Schema(
        age=dp.Real(18, 90, label="Age", unit="years"), inc=dp.Real(1, 90),
        sex=dp.Levels(["f", "m:x"], label="Sex"), y=dp.Real(-3, 4, label="Score (0-1)"),
    )  # fmt: skip
    with noise_source(ZeroNoise()):
        return dp.dp_ols(
            "y ~ age + inc + C(sex) + age:C(sex) + I(age ** 2)", frame, eps=4, delta=1e-6,
            schema=schema,
        )  # fmt: skip


def test_labels_are_those_of_the_variables_of_a_term(fit):
    labels = schema_labels(fit._record)
    assert labels["age"] == "Age, years"
    assert labels["C(sex)[T.m:x]"] == "Sex: m:x"
    assert labels["age:C(sex)[T.m:x]"] == "Age, years \u00d7 Sex: m:x"
    assert labels["I(age ** 2)"] == "I(Age, years ** 2)"
    assert labels["y"] == "Score (0-1)"
    assert not {"Intercept", "inc"} & set(labels)
    assert "age" in fit.params.index  # the names of calls


def test_they_appear_in_every_table_and_plot(fit):
    pytest.importorskip("matplotlib").use("Agg")
    summary = str(fit.summary())
    assert "Age, years" in summary and "Sex: m:x" in summary and "Reference:    Sex = f" in summary
    assert "Age, years" not in str(fit.summary(labels=False))  # the names that calls take
    text = str(dp.etable(fit, fit))
    assert "Age, years" in text and "Score (0-1)" in text and "Reference levels: Sex = f" in text
    assert "Age, years" not in str(dp.etable(fit, fit, labels=None))
    for axes in (fit.plot(), dp.coef_plot(fit)):
        ticks = [t.get_text().replace("\n", " ") for t in axes.get_yticklabels()]
        assert "Age, years" in ticks and "Sex: m:x" in ticks
    assert "Years of age" in str(dp.etable(fit, labels={"age": "Years of age"}))
    with pytest.raises(RequestError, match="or 'schema'"):
        dp.etable(fit, labels="names")


def test_without_labels_nothing_changes():
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 200), "y": np.linspace(0, 1, 200)})
    schema = dp.Schema(a=dp.Real(-1, 1), y=dp.Real(0, 1))
    with noise_source(ZeroNoise()):
        fit = dp.dp_ols("y ~ a", frame, eps=4, delta=1e-6, schema=schema)
    assert schema_labels(fit._record) == {}
