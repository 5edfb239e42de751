"""Where scoring determines nothing, least squares end by moments; rows that are declared short."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.errors import RequestError, UtilityWarning
from dpmodels.models.linear import moments, scored
from dpmodels.privacy.mechanisms import mu_gdp
from dpmodels.scoring.coordinates import of_short_rows, public_coordinates

NAMES = {3: ["x0", "x1"], 8: [f"x{j}" for j in range(7)]}
SCHEMAS = {
    p: dp.Schema(**{name: dp.Real(-1, 1) for name in [*names, "y"]}) for p, names in NAMES.items()
}


def planned(p, over, **options):
    """Return the plan of p columns at so many times the mu n that scoring needs."""
    n = math.ceil(over * scored.DETERMINES[p == 8] * p**1.5 / mu_gdp(0.3, 1e-6))
    options = {"eps": 0.3, "delta": 1e-6, **options}
    return dp.plan("y ~ " + " + ".join(NAMES[p]), SCHEMAS[p], n=n, method="ssp", **options)


@pytest.mark.parametrize("p", [3, 8])
def test_the_default_ends_by_moments_where_scoring_would_determine_nothing(p):
    below, above = planned(p, 0.98), planned(p, 1.02)
    assert below.backend is moments.MOMENTS_BACKEND and above.backend is scored.SCORED_BACKEND
    assert any(r.startswith("moments only: mu n = ") for r in below.reasons)
    assert not any("moments only" in r for r in above.reasons)
    if p == 8:
        assert below.verdict == above.verdict == "not determined"
    assert planned(p, 100.0).verdict == "fine" and "(below " in planned(p, 100.0).forecast


@pytest.mark.parametrize("asked", [{"scoring": True}, {"vcov": "hetero"}, {"vcov": "iid"},
                                   {"ranges": "uncertain"}])  # fmt: skip
def test_a_call_that_asks_for_what_scoring_gives_has_it_at_any_budget(asked):
    assert planned(8, 0.5, **asked).backend is scored.SCORED_BACKEND


def test_the_choice_takes_the_guess_where_n_is_private():
    common = {"relation": "add-remove", "scoring": None}
    assert planned(8, 1.0, n_guess=100, **common).backend is moments.MOMENTS_BACKEND
    assert planned(8, 0.1, n_guess=10_000, **common).backend is scored.SCORED_BACKEND


def test_below_the_border_there_is_an_estimate_for_predictions_without_errors():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1, 1, (300, 7)), columns=NAMES[8])
    table["y"] = (table["x0"] - table["x1"]) / 2
    with pytest.warns(UtilityWarning):
        fit = dp.dp_ols("y ~ " + " + ".join(NAMES[8]), table, eps=0.1, delta=1e-6,
                        schema=SCHEMAS[8])  # fmt: skip
    assert np.isfinite(fit.params).all() and np.isnan(fit.bse).all()
    assert np.isfinite(fit.predict(table.head())).all()


def test_declared_lengths_whiten_rows_of_that_length():
    design = planned(8, 4.0).design
    c = public_coordinates(design)
    for length in (0.3, 1.0):
        short = of_short_rows(c, design, length)
        # a row of that length along each column, as often as another: slopes of second moment R^2/7
        M = np.diag([1.0] + [length**2 / 7] * 7)
        assert pytest.approx(np.eye(8)) == short.W0 @ M @ short.W0.T
        assert short.constant @ short.W0 == pytest.approx(c.constant @ c.W0)
    same = of_short_rows(c, design, 10.0)
    assert pytest.approx(c.W0) == same.W0  # the box allows no longer rows


def test_a_declared_length_leaves_a_fit_without_noise_where_it_is_and_shortens_the_ball_of_moments():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 7))
    X *= rng.uniform(0.2, 1.0, (4000, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    table = pd.DataFrame(X, columns=NAMES[8])
    table["y"] = X[:, 0] / 2 - X[:, 1] / 3
    formula = "y ~ " + " + ".join(NAMES[8])
    common = {"eps": 1.0, "delta": 1e-6, "schema": SCHEMAS[8]}
    for scoring in (True, False):
        fits = []
        for length in (None, 1.0):
            with noise_source(ZeroNoise()):
                fits.append(dp.dp_ols(formula, table, row_norm=length, scoring=scoring, **common))
        assert fits[0].params.to_numpy() == pytest.approx(fits[1].params.to_numpy(), abs=1e-3)
    detail = [planned(8, 0.5, row_norm=r).detail.row_norm for r in (None, 1.0)]
    assert detail == [math.inf, 1.0]
    square = moments._unit_rows(planned(8, 0.5).design, 1.0)[1]
    assert square == 1.0 < moments._unit_rows(planned(8, 0.5).design, math.inf)[1]


def test_a_bound_that_need_not_hold_is_refused_where_a_proof_would_rest_on_it():
    with pytest.raises(RequestError, match="row_norm= is not"):
        planned(8, 4.0, query="bounded", row_norm=1.0)
