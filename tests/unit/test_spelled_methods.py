"""Spellings of methods: case does not hide a name, and a title leads to it."""

import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, UnknownMethodError, did_you_mean

PAY = {"n": 1000, "eps": 1, "delta": 1e-6, "bounds": {"y": (0, 1), "x": (0, 1)}}


@pytest.mark.parametrize(("typed", "name"), [
    ("ePTR", "eptr"), ("PMT", "pmt"), ("DRCL", "drcl"), ("SSP", "ssp"), ("posterior", "gptr"),
    ("posterior sampling", "gptr"), ("Posterior Sampling with tested bounds", "gptr"),
    ("Gaussian sketch", "jl"), ("noisy gradient descent", "gd"),
])  # fmt: skip
def test_a_spelling_leads_to_the_method(typed, name):
    if name not in dp.methods().query("verb == 'dp_ols'")["method"].tolist():
        name = ""
    with pytest.raises(UnknownMethodError, match=f"Did you mean '{name}"):
        dp.plan("y ~ x", method=typed, **PAY)


def test_every_title_leads_to_its_method():
    table = dp.methods()
    for _, row in table[table["verb"] == "dp_ols"].iterrows():
        with pytest.raises(UnknownMethodError, match=rf"Did you mean .*'{row['method']}'"):
            dp.plan("y ~ x", method=row["title"], **PAY)


@pytest.mark.parametrize("typed", ["zil", "ZIL"])
def test_zil_noise_is_a_share_of_clear_cells(typed):
    with pytest.raises(DPModelsError, match="clear_prob"):
        dp.dp_release("~ x", {"x": [0.1] * 100}, eps=1, delta=1e-6, bounds={"x": (0, 1)},
                      noise=typed)  # fmt: skip


def test_case_does_not_hide_a_name():
    assert did_you_mean("AGE", ["age", "sex"]) == " Did you mean 'age'?"
    assert did_you_mean("zzz", ["age", "sex"]) == ""
