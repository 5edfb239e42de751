"""Plans rank the methods of ``dp_ols`` as simulations do, and say their errors where sds are told."""

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError
from dpmodels.planning import RESIDUAL, SPREAD

METHODS = ("ssp", "eptr", "gptr")
B = {"a": (-4, 4), "b": (0, 10), "y": (-6, 6)}
SDS = {"a": 1.0, "b": 2.0, "y": 0.8}


def frame(n, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 1.0, n), rng.normal(5, 2.0, n).clip(0, 10)
    return pd.DataFrame({"a": a, "b": b, "y": 0.5 * a - 0.2 * (b - 5) + rng.normal(0, 0.8, n)})


def schema():
    return dp.Schema(**{k: dp.Real(*v) for k, v in B.items()})


def squares(data):
    X = np.column_stack([np.ones(len(data)), data["a"], data["b"]])
    return np.linalg.lstsq(X, data["y"], rcond=None)[0]


@pytest.mark.parametrize(("n", "eps"), [(5000, 1.0), (20_000, 1.0), (10_000, 4.0)])
def test_expected_errors_of_fits_by_scores_are_those_of_simulations(quiet, n, eps):
    """sd= told: expected over actual sd of two slopes in [.7, 2], 16 fits a method.

    Expected is what fits print. They cannot know that nothing was cut, and allow for it. Seeds are fixed; false alarm about .01 a cell: 32 draws tell an sd to an eighth.
    """
    call = dict(eps=eps, delta=1e-6)
    for method in METHODS:
        plan = dp.plan("y ~ a + b", schema(), n=n, method=method, sd=SDS, **call)
        moved = []
        for seed in range(16):
            data = frame(n, seed)
            fit = dp.dp_ols("y ~ a + b", data, schema=schema(), method=method, seed=seed, **call)
            moved.append((fit.params.to_numpy() - squares(data))[1:])
        expected = np.array([plan.expected_se[k] for k in ("a", "b")])
        ratio = 1.0 / math.sqrt(np.mean(np.square(np.array(moved) / expected)))
        assert 0.7 < ratio < 2.0, (method, ratio)


def test_a_release_of_rows_is_ranked_behind_one_fit(quiet):
    """30 000 rows, eps = 4, one value protected: the plan's order is that of ten simulations."""
    n, call = 30_000, dict(eps=4.0, delta=1e-6)
    expected, actual = {}, {}
    for method in (*METHODS, "drcl"):
        more = {"unit": "attribute"} if method == "drcl" else {}
        plan = dp.plan("y ~ a + b", schema(), n=n, method=method, sd=SDS, **call, **more)
        expected[method] = plan.expected_se["a"]
        errors = []
        for seed in range(10):
            data = frame(n, seed)
            fit = dp.dp_ols(
                "y ~ a + b", data, schema=schema(), method=method, seed=seed, **call, **more
            )
            errors.append(fit.params["a"] - squares(data)[1])
        actual[method] = math.sqrt(np.mean(np.square(errors)))
    by_scores = [expected[k] for k in METHODS]
    assert max(by_scores) < 1.1 * min(by_scores)
    assert max(actual[k] for k in METHODS) < 2.0 * min(actual[k] for k in METHODS)
    for k in METHODS:
        assert expected["drcl"] > 3.0 * expected[k] and actual["drcl"] > 3.0 * actual[k]
    assert 0.5 < expected["drcl"] / actual["drcl"] < 2.0


def test_sds_rescale_what_is_assumed():
    call = dict(n=5000, eps=1.0, delta=1e-6)
    plain = dp.plan("y ~ a + b", schema(), **call).expected_se
    told = dp.plan("y ~ a + b", schema(), sd={"a": 1.0, "y": 1.0}, **call).expected_se
    assumed = SPREAD / 2.0 * 8.0, RESIDUAL * SPREAD / 2.0 * 12.0
    factor = told["b"] / (plain["b"] / assumed[1])
    assert factor == pytest.approx(1.0, rel=0.03)  # the scale that a fit of normal residuals learns
    assert told["a"] == pytest.approx(factor * plain["a"] * assumed[0] / assumed[1])
    want = dp.plan("y ~ a + b", schema(), sd={"a": 1.0, "y": 1.0}, want={"a": 1e-4}, **call)
    assert f"{told['a']:.3g}" in want.advice[-1]


@pytest.mark.parametrize("sd", [{"z": 1.0}, {"a": 0.0}, {"a": -1.0}, {"a": "wide"}, 3])
def test_sds_that_are_none_are_refused(sd):
    with pytest.raises(RequestError, match="sd="):
        dp.plan("y ~ a + b", schema(), n=5000, eps=1.0, delta=1e-6, sd=sd)


def test_levels_and_binary_columns_are_assumed_wider_than_numbers():
    S = dp.Schema(
        g=dp.Levels(["u", "v", "w", "x"]), k=dp.Binary(), a=dp.Real(0, 1), y=dp.Real(-6, 6)
    )
    found = dp.plan("y ~ g + k + a", S, n=20_000, eps=2.0, delta=1e-6).expected_se
    assert found["k"] < found["g[T.v]"] < found["a"]
