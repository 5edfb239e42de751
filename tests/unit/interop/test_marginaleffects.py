"""The adapter for marginaleffects, on a public grid; skipped where it is not installed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, RequestError
from dpmodels.interop.marginaleffects import as_model, public_grid
from dpmodels.results.inference import widened


def test_the_grid_covers_the_public_ranges(make_fit):
    grid = public_grid(make_fit(), points=3)
    assert list(grid.columns) == ["alcohol", "volatile_acidity", "sulphates", "pH"]
    assert len(grid) == 3**4
    assert sorted(grid["alcohol"].unique()) == [8, 11.5, 15]
    bought = public_grid(make_fit(bought=("alcohol", "pH")), points=2)
    assert sorted(bought["alcohol"].unique()) == [8, 14]


def test_without_the_package_it_says_what_to_install(fit):
    try:
        import marginaleffects  # noqa: F401
    except ImportError:
        with pytest.raises(DPModelsError, match="pip install"):
            as_model(fit)


def test_slopes_and_predictions(make_fit):
    me = pytest.importorskip("marginaleffects")
    fit = make_fit()
    model = as_model(fit, public_grid(fit, points=2))
    slopes = me.avg_slopes(model)
    by_name = dict(zip(slopes["term"].to_list(), slopes["estimate"].to_list(), strict=True))
    for name in fit.params.index[1:]:
        assert by_name[name] == pytest.approx(fit.params[name], rel=1e-5)
    se = dict(zip(slopes["term"].to_list(), slopes["std_error"].to_list(), strict=True))
    assert se["pH"] == pytest.approx(fit.bse["pH"], rel=1e-4)
    predicted = me.predictions(model)["estimate"].to_numpy()
    X = fit.design.matrix(public_grid(fit, points=2))  # of the estimate, as its errors are
    np.testing.assert_allclose(predicted, X @ fit.params.to_numpy(), rtol=1e-9)
    with pytest.raises(RequestError):
        as_model(make_fit(reply=False))


def test_a_log_response_a_factor_and_a_spline(quiet):
    """Slopes, joint tests and a picture: the response is no predictor, joint tests find names."""
    me = pytest.importorskip("marginaleffects")
    rng = np.random.default_rng(0)
    n = 4000
    data = pd.DataFrame({"w": 0.0, "x": rng.uniform(0, 10, n), "g": rng.choice(list("abc"), n)})
    data["w"] = np.exp(1 + 0.05 * data["x"] + 0.2 * (data["g"] == "b") + rng.normal(0, 0.5, n))
    schema = dp.Schema(w=dp.Real(0.1, 50), x=dp.Real(0, 10), g=dp.Levels(list("abc")))
    fit = dp.dp_ols("log(w) ~ bs(x, knots=[3, 6]) + C(g)", data, eps=4, delta=1e-6, schema=schema,
                    seed=1)  # fmt: skip
    model = as_model(fit)
    slopes = me.avg_slopes(model)
    assert set(slopes["term"].to_list()) == {"g", "x"}
    b = dict(zip(slopes["contrast"].to_list(), slopes["estimate"].to_list(), strict=True))
    assert b["b - a"] == pytest.approx(fit.params["C(g)[T.b]"], abs=1e-8)
    names = ["C(g)[T.b]", "C(g)[T.c]"]
    joint = me.hypotheses(model, joint=names, joint_test="chisq")
    shown = joint.data if hasattr(joint, "data") else joint
    # it knows no bias, so its covariance is wide enough to hold it: the test is the weaker one
    at = [list(fit.params.index).index(name) for name in names]
    wide = widened(fit._record.estimate)[np.ix_(at, at)]
    effect = fit.params[names].to_numpy()
    wanted = float(effect @ np.linalg.solve(wide, effect))
    assert float(shown["statistic"][0]) == pytest.approx(wanted, rel=1e-6)
    assert wanted < fit.wald_test("g").statistic
    assert me.plot_predictions(model, condition=["x", "g"]) is not None
