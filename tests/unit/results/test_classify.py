"""Confusion tables of every fit that predicts a class."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import NotPrivateWarning, RequestError

pytestmark = pytest.mark.usefixtures("quiet")

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, 4000)
Y = RNG.random(4000) < 1 / (1 + np.exp(-3 * X))


@pytest.mark.parametrize(
    ("formula", "cells", "fact", "options"),
    [
        ("y ~ x", Y.astype(int), dp.Binary(), {}),
        ("y ~ x", Y, dp.Binary(), {}),
        ("y ~ x", np.where(Y, "yes", "no"), dp.Levels(["no", "yes"]), {}),
        ("y ~ x", np.where(Y, "yes", "no"), dp.Binary(["no", "yes"]), {}),
        ("y ~ x", np.where(Y, "yes", "no"), dp.Levels(["no", "yes"]), {"event": "no"}),
        ("I(y > 2) ~ x", np.where(Y, 3.0, 1.0), dp.Real(0, 5), {}),
    ],
)
def test_a_logistic_fit_has_a_confusion_table(formula, cells, fact, options):
    """All zeros, and a balanced error of nan."""
    data = pd.DataFrame({"x": X, "y": cells})
    schema = dp.Schema(x=dp.Real(-1, 1), y=fact)
    fit = dp.dp_glm(formula, data, eps=4, delta=1e-6, schema=schema, seed=1, **options)
    table = dp.confusion_table(fit, data)
    p = fit.predict(data).to_numpy()
    event = ~Y if options else Y
    want = [[np.sum((event == t) & ((p > 0.5) == g)) for g in (False, True)] for t in (False, True)]
    np.testing.assert_array_equal(table.to_numpy(), want)
    assert list(table.index) == list(fit.design.levels)
    recall = [want[0][0] / sum(want[0]), want[1][1] / sum(want[1])]
    assert dp.balanced_error(fit, data) == pytest.approx(1 - np.mean(recall))
    assert dp.balanced_error(fit, data) < 0.3


def test_rows_without_class_or_prediction_are_not_counted():
    data = pd.DataFrame({"x": X, "y": Y.astype(float)})
    schema = dp.Schema(x=dp.Real(-1, 1), y=dp.Binary())
    fit = dp.dp_glm("y ~ x", data, eps=4, delta=1e-6, schema=schema, seed=1)
    holes = data.copy()
    holes.loc[:9, "y"] = np.nan
    holes.loc[10:29, "x"] = np.nan
    assert dp.confusion_table(fit, holes).to_numpy().sum() == 3970
    with pytest.raises(RequestError, match="no row of the new data"):
        dp.balanced_error(fit, data.assign(y=7.0))
    with pytest.raises(RequestError, match="no column 'y'"):
        dp.confusion_table(fit, data[["x"]])


def test_the_rows_of_the_fit_are_no_public_rows():
    """As many rows as the fit has: the table may be a release that nobody paid for."""
    data = pd.DataFrame({"x": X, "y": Y.astype(float)})
    schema = dp.Schema(x=dp.Real(-1, 1), y=dp.Binary())
    fit = dp.dp_glm("y ~ x", data, eps=4, delta=1e-6, schema=schema, seed=1)
    for use in (dp.confusion_table, dp.balanced_error):
        with pytest.warns(NotPrivateWarning, match="as many as the fit was made from"):
            use(fit, data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dp.confusion_table(fit, data[:1000])


def test_a_regression_has_none():
    data = pd.DataFrame({"x": X, "y": X})
    fit = dp.dp_ols("y ~ x", data, eps=4, delta=1e-6, bounds={"x": (-1, 1), "y": (-1, 1)}, seed=1)
    with pytest.raises(RequestError, match="does not predict classes"):
        dp.confusion_table(fit, data)
