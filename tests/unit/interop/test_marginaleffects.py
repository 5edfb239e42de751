"""The adapter for marginaleffects, on a public grid; skipped where it is not installed."""

from __future__ import annotations

import numpy as np
import pytest

from dpmodels.errors import DPModelsError, RequestError
from dpmodels.interop.marginaleffects import as_model, public_grid


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
    np.testing.assert_allclose(predicted, fit.predict(public_grid(fit, points=2)), rtol=1e-9)
    with pytest.raises(RequestError):
        as_model(make_fit(reply=False))
