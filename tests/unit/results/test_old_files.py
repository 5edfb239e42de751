"""Files that 0.1.0 wrote load, with their numbers, tables and predictions."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import UtilityWarning

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("ols", [0.4961226306032419, 0.9849335995499898, -0.6877448903104398]),
        ("glm", [1.4942993730372414, 2.9636953017525602, -2.154564135258455]),
        ("npreg", [-0.29470083381534173, -0.28691333753800774, -0.25393101022497216]),
    ],
)
def test_a_fit_of_0_1_0_loads(name, params):
    with pytest.warns(UtilityWarning, match="no checksum"):
        fit = dp.load(FILES / f"{name}-0.1.0.json")
    assert fit.params.to_numpy()[: len(params)] == pytest.approx(params, rel=1e-12)
    assert (fit.bias_bound == 0).all()
    assert "Differentially private" in str(fit.summary())
    assert fit.privacy.eps == 1.0
    assert dp.results.Fit.from_json(fit.to_json()).params.equals(fit.params)
    new = pd.DataFrame({"a": [0.0, 0.5], "b": [0.1, 0.2]})
    assert np.isfinite(np.asarray(fit.predict(new), dtype=float)).all()


def test_its_intervals_are_those_it_had():
    with pytest.warns(UtilityWarning, match="no checksum"):
        fit = dp.load(FILES / "ols-0.1.0.json")
    half = np.diff(fit.conf_int().to_numpy(), axis=1)[:, 0] / 2
    assert half == pytest.approx(1.959963984540054 * fit.bse.to_numpy(), rel=1e-12)
