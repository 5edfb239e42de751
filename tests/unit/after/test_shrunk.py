"""Coefficients for predictions: a posterior mean, by formulas of its own and at its ends."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.after.moments import about_mean_row, about_nothing, prior, shrunken
from dpmodels.families import LINKS

ENDS = np.array([[1.0, 1.0], [-1.0, 3.0], [0.0, 2000.0]])


def rows(seed=0, n=400):
    rng = np.random.default_rng(seed)
    return np.column_stack([np.ones(n), rng.uniform(-1, 3, n), rng.uniform(0, 2000, n)])


def drawn(b, V, S, ends, one, guess):
    return shrunken(b, V, *about_mean_row(S, ends, one, guess))


def test_it_is_the_posterior_mean_about_the_mean_row():
    X, b, guess = rows(), np.array([4.0, 1.0, -0.002]), (5.0, 3.0, 2.0)
    S, V = X.T @ X / len(X), np.linalg.inv(X.T @ X) * 40.0
    mean, var = X[:, 1:].mean(axis=0), X[:, 1:].var(axis=0)
    # precision form, in (level at the mean row, slopes)
    turn = np.eye(3)
    turn[0, 1:] = mean
    Vx = turn @ V @ turn.T
    D = np.diag([guess[1], *(guess[2] / 2 / var)])
    at = np.array([guess[0], 0.0, 0.0])
    A, B = np.linalg.inv(Vx), np.linalg.inv(D)
    exact = np.linalg.solve(turn, np.linalg.solve(A + B, A @ turn @ b + B @ at))
    assert drawn(b, V, S, ENDS, 0, guess) == pytest.approx(exact)
    # the unit of the information does not matter, nor that of a column
    assert drawn(b, V, 7.0 * S, ENDS, 0, guess) == pytest.approx(exact)
    unit = np.array([1.0, 1.0, 1e-6])
    small = drawn(
        b / unit, V / np.outer(unit, unit), S * np.outer(unit, unit), ENDS * unit[:, None], 0, guess
    )
    assert small * unit == pytest.approx(exact)


def test_nothing_moves_without_noise_and_noise_alone_is_the_guess():
    X, b, guess = rows(), np.array([4.0, 1.0, -0.002]), (5.0, 3.0, 2.0)
    S, V = X.T @ X / len(X), np.linalg.inv(X.T @ X)
    assert drawn(b, 1e-9 * V, S, ENDS, 0, guess) == pytest.approx(b, rel=1e-6)
    assert drawn(b, 1e9 * V, S, ENDS, 0, guess) == pytest.approx([5.0, 0.0, 0.0], abs=1e-4)
    moved = [np.abs(drawn(b, v * V, S, ENDS, 0, guess) - b).max() for v in np.geomspace(1, 1e6, 60)]
    assert (np.diff(moved) >= 0).all()
    assert np.isfinite(drawn(b, V, None, ENDS, 0, guess)).all()  # by the declared box


def test_columns_without_an_intercept_begin_at_the_level_where_they_add_up_to_it():
    ends = np.array([[0.0, 1.0], [0.0, 1.0], [-2.0, 2.0]])
    b, V = np.array([14.0, 26.0, 3.0]), np.diag([1.0, 1.0, 0.5])
    guess = (20.0, 30.0, 4.0)
    b0, D = about_nothing(None, ends, np.array([1.0, 1.0, 0.0]), guess)
    assert b0 == pytest.approx([20.0, 20.0, 0.0])
    exact = np.diag([4.0, 4.0, 1.0]) + 30.0 * np.outer([1, 1, 0], [1, 1, 0])
    assert pytest.approx(exact) == D
    near = shrunken(b, 1e9 * V, b0, D)
    assert near == pytest.approx(b0, abs=1e-4) and shrunken(b, 1e-9 * V, b0, D) == pytest.approx(b)
    b0, D = about_nothing(np.array([0.2, 0.3, 9.0]), ends, None, guess)
    assert not b0.any() and np.diag(D) == pytest.approx(404.0 / 3 / np.array([0.2, 0.3, 4.0]))


def test_the_guess_of_a_link():
    middle, level, tau2 = prior(LINKS["identity"], (2.0, 8.0), {"sigma": 1.0, "r_squared": 0.75})
    assert (middle, level, tau2) == pytest.approx((5.0, 3.0, 2.0))
    assert prior(LINKS["identity"], (2.0, 8.0), {"sigma": 1.2})[2] == pytest.approx(1.44)
    assert prior(LINKS["identity"], (2.0, 8.0), {})[2] == pytest.approx(3.0)
    middle, level, tau2 = prior(LINKS["logit"], (0.0, 1.0), {})
    assert (middle, tau2) == pytest.approx((0.0, np.pi**2 / 3)) and level > tau2
    assert prior(LINKS["log"], (0.0, 40.0), {})[0] == pytest.approx(np.log(40.0) - np.log(1e3) / 2)


@pytest.mark.parametrize("unit", [None, "pid"])
@pytest.mark.parametrize(("verb", "response", "options"), [
    (dp.dp_ols, "y", {}), (dp.dp_glm, "e", {"family": "binomial"}),
    (dp.dp_glm, "k", {"family": "poisson"}), (dp.dp_quantreg, "y", {"tau": [0.25, 0.5]}),
])  # fmt: skip
def test_predictions_of_a_hopeless_budget_stay_within_the_declared_range(
    verb, response, options, unit
):
    """Seeds fixed. At eps = .02 the estimates predict far beyond; at eps = 40 both are alike."""
    rng = np.random.default_rng(3)
    n = 2000
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, n), "z": rng.uniform(0, 50, n)})
    frame["y"] = np.clip(3 + frame.x + rng.normal(size=n), 0, 6)
    frame["e"] = (frame.y > 3.2) * 1
    frame["k"] = np.minimum(rng.poisson(np.exp(0.3 * frame.x)), 20)
    frame["pid"] = np.arange(n) // 2
    schema = dp.Schema(
        x=dp.Real(-1, 1), z=dp.Real(0, 50), y=dp.Real(0, 6), e=dp.Binary(), k=dp.Count(20)
    )
    options = options | ({} if unit is None else {"unit": unit, "units": n // 2})
    seen = []
    for eps in (0.02, 40.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = verb(f"{response} ~ x + z", frame, eps=eps, delta=1e-6, schema=schema, seed=7, **options)
            seen.append((fit, np.asarray(fit.predict(frame, outside="clip"), dtype=float)))
    low, high = (0.0, 1.0) if response == "e" else (0.0, 20.0) if response == "k" else (0.0, 6.0)
    fit, values = seen[0]
    assert np.isfinite(values).all()
    assert (values > low - 0.5 * (high - low)).all() and (values < high + 0.5 * (high - low)).all()
    fit, values = seen[1]
    gap = np.abs(fit.shrunk - fit.params) / fit.bse
    assert gap.max() < 0.1
    assert list(fit.shrunk.index) == list(fit.params.index)


@pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
def test_a_summary_says_which_coefficients_predictions_shrink():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.uniform(-1, 1, (1000, 8)), columns=list("abcdefgh"))
    frame["y"] = np.clip(frame.a + rng.normal(size=1000), -3, 3)
    schema = dp.Schema(**dict.fromkeys("abcdefgh", dp.Real(-1, 1)), y=dp.Real(-3, 3))
    said = {}
    for eps in (1.0, 10.0):
        call = dict(eps=eps, delta=1e-6, schema=schema, seed=1)
        fit = dp.dp_ols("y ~ a + b + c + d + e + f + g + h", frame, scoring=True, **call)
        said[eps] = "Predictions use shrunken coefficients" in " ".join(str(fit.summary(full=True)).split())
    assert said == {1.0: True, 10.0: False}
