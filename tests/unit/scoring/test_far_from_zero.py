"""A number in a narrow range far from zero is no constant, whatever the form of the model."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.scoring.coordinates import _in_turn

N = 10_000


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    part, x = rng.uniform(-1, 1, N), rng.uniform(-1, 1, N)
    h = np.array(list("abc"))[rng.integers(0, 3, N)]
    y = 0.3 * x + part + 0.5 * rng.normal(size=N)
    return pd.DataFrame({
        "x": x, "h": h, "w": rng.uniform(0.5, 1.5, N), "y": y, "part": part,
        "psu": rng.integers(0, 200, N),
    })  # fmt: skip


@pytest.mark.parametrize(("middle", "half"), [(1.7e9, 4e4), (2_000.0, 0.5), (1e6, 1.0)])
@pytest.mark.parametrize(("terms", "more"), [
    ("x + t", {"weights": "w"}), ("x + t", {"design": True}), ("x + t + C(h) - 1", {}),
    ("x + t:C(h)", {}), ("x + t * C(h)", {}), ("x + C(h) + t:C(h)", {}), ("x + t", {}),
])  # fmt: skip
def test_a_number_far_from_zero_has_a_slope(quiet, table, terms, more, middle, half):
    """It was a multiple of the constant "whatever the rows", and another slope .553 for .300."""
    frame = table.assign(t=middle + half * table["part"])
    schema = dp.Schema(
        t=dp.Real(middle - half, middle + half), x=dp.Real(-1, 1), h=dp.Levels(list("abc")),
        w=dp.Real(0.5, 1.5), y=dp.Real(-4, 4), psu=dp.Levels([str(i) for i in range(200)]),
    )  # fmt: skip
    if "design" in more:
        more = {"design": dp.Survey(psu="psu")}
        frame["psu"] = frame["psu"].astype(str)
    fit = dp.dp_ols(f"y ~ {terms}", frame, schema=schema, eps=5, delta=1e-6, seed=1, **more)
    assert fit.bse.notna().all()
    assert abs(fit.params["x"] - 0.3) < 4.0 * fit.bse["x"] < 0.1
    name = "t" if "t" in fit.params.index else "t:C(h)[a]"
    assert fit.params[name] * half == pytest.approx(1.0, abs=0.15)


def test_columns_that_are_combinations_are_still_found(quiet, table):
    z = np.vstack([np.ones(50), 1.0 + 1e-6 * np.linspace(-1, 1, 50)])
    basis, coefficients = _in_turn(np.vstack([z, 3.0 * z[1] - z[0], np.zeros(50)]))
    assert basis == [0, 1]
    u = coefficients[:2, :2] @ z
    assert u @ u.T / 50 == pytest.approx(np.eye(2), abs=1e-8)
    assert coefficients[2] == pytest.approx([1.0, -3.0, 1.0, 0.0], abs=1e-6)
    schema = dp.Schema(x=dp.Real(-1, 1), y=dp.Real(-4, 4))
    fit = dp.dp_ols("y ~ x + I(2 * x)", table, schema=schema, eps=5, delta=1e-6, seed=1)
    assert fit.bse.isna().tolist() == [False, False, True]
