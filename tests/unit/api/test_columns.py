"""Columns without a response, written in three ways."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(3000, 3)), columns=["a", "b", "c d"])
CALL = dict(eps=2, delta=1e-6, seed=1)
BOUNDS = {c: (-4, 4) for c in FRAME}


@pytest.mark.parametrize("verb", [dp.dp_mean, dp.dp_moments, dp.dp_pca])
def test_three_spellings_are_one_call(quiet, verb):
    fits = [
        verb(columns, FRAME, bounds=BOUNDS, **CALL).params
        for columns in ("a + `c d` ~ 1", "~ a + `c d`", ["a", "c d"])
    ]
    pd.testing.assert_series_equal(fits[0], fits[1])
    pd.testing.assert_series_equal(fits[0], fits[2])


@pytest.mark.parametrize("verb", [dp.dp_mean, dp.dp_moments, dp.dp_pca])
@pytest.mark.parametrize("columns", [[], [1, 2], 3, None])
def test_anything_else_is_refused_by_name(verb, columns):
    with pytest.raises(dp.errors.RequestError, match="list of column names"):
        verb(columns, FRAME, bounds=BOUNDS, eps=2, delta=1e-6)


@pytest.mark.parametrize("verb", [dp.dp_moments, dp.dp_pca])
def test_no_summary_offers_an_argument_that_the_verb_has_not(quiet, verb):
    assert "inference=True" not in str(verb(["a", "b"], FRAME, bounds=BOUNDS, **CALL).summary())
