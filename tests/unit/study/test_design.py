"""A study whose release has a survey design, as the guide writes it."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

STUDY = """
[study]
title = "Villages"
[data]
n = 4000
[budget]
eps = 2
delta = 1e-6
[schema.x]
type = "real"
lower = 0
upper = 1
[schema.w]
type = "real"
lower = 0
upper = 4
[[release]]
name = "mean"
verb = "mean"
formula = "~ x"
eps = 1
options = {{design = {{{design}}}}}
"""


@pytest.fixture
def study(tmp_path):
    def write(design):
        (tmp_path / "study.toml").write_text(STUDY.format(design=design))
        return dp.Study.read(tmp_path / "study.toml")

    return write


def test_a_design_is_read_planned_and_run(study, tmp_path):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"x": rng.uniform(0, 1, 4000), "w": rng.uniform(1, 3, 4000)})
    asked = study('weights = "w"')
    assert asked.check().ok
    ran = asked.run(rows, ledger=tmp_path / "ledger", out=tmp_path / "out")
    assert ran.complete
    assert ran["mean"].params["x"] == pytest.approx(0.5, abs=0.1)


def test_a_word_that_no_design_has_is_a_fault(study):
    checked = study('weigths = "w"').check()
    assert not checked.ok
    assert "Did you mean 'weights'" in str(checked)
    with pytest.raises(dp.errors.UnknownOptionError, match="design= has no 'weigths'"):
        dp.Survey(weigths="w")
