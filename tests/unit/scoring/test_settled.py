"""Coefficients that rest on few rows: where the start hid them, and a step that has not arrived."""


import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

RANGES = {**{f"x{j}": (-5, 5) for j in range(5)}, "rare": (0, 1), "y": (-30, 30)}


def table(seed, n, rare, effect):
    """A response that spreads over a fifteenth of its range, and a rare level."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(5)])
    frame["rare"] = (rng.random(n) < rare) * 1.0
    frame["y"] = X @ np.linspace(-1, 1, 5) + effect * frame["rare"] + rng.standard_t(4, size=n)
    return frame


@pytest.mark.parametrize("effect", [-0.7, 8.0])
def test_a_rare_level_is_covered(quiet, effect):
    """40 fits each to 1 % and .5 % of 40 000 rows: fewer than 66 of 80 cover .95 once in 1e4.

    Effects of half a residual sd and of six: without this file's two rules 65 and 63 of 80, without
    the second 47 of the large effect. Without the first one in ten errors of the small effect was
    above 2.8, with it above 1.3.
    """
    hit, errors = 0, []
    for seed in range(40):
        for rare in (0.01, 0.005):
            frame = table(seed, 40_000, rare, effect)
            fit = dp.dp_ols("y ~ . ", frame, eps=1, delta=1e-10, bounds=RANGES, seed=seed)
            low, high = fit.conf_int().loc["rare"]
            hit += low <= effect <= high
            errors.append(fit.params["rare"] - effect)
    assert hit >= 66
    if effect < 0:
        assert np.quantile(np.abs(errors), 0.9) < 2.0


def test_a_fit_on_its_way_has_passes_from_the_reserve(quiet):
    """Counts of 0 and 1 that are declared up to 8: the ledger says what was planned and used.

    10 fits of 12 coefficients, 114 of 120 expected to be covered; 102 or fewer less than once in
    1e4.
    """
    hit, step = 0, "passes from the reserve"
    for seed in range(10):
        rng = np.random.default_rng([44, seed])
        X = (rng.random((20_000, 12)) < 0.08) * 1.0
        frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(12)])
        frame["y"] = X.sum(axis=1) + rng.normal(size=len(X))
        ranges = {**{f"c{j}": (0, 8) for j in range(12)}, "y": (-5, 20)}
        budget = dp.Budget(eps=4, delta=1e-6)
        fit = dp.dp_ols("y ~ .", frame, eps=4, delta=1e-6, bounds=ranges, budget=budget, seed=seed)
        (charge,) = budget.charges
        assert step in [one.name for one in charge.guarantee.steps]
        assert charge.notes[step].startswith("3 passes planned, ")
        assert int(charge.notes[step].split()[3]) > 0
        ends = fit.conf_int().to_numpy()[1:]
        hit += int(((ends[:, 0] <= 1.0) & (ends[:, 1] >= 1.0)).sum())
    assert hit > 102


def long_tailed(share, n=5_000, half=50.0, seed=None):
    """Return a fit of rows of which a share has responses 20 to 40 sds out, its robust errors."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, n)
    far = rng.random(n) < share * (1 + 0.5 * x)
    y = x + rng.normal(size=n) + far * rng.uniform(20, 40, n)
    X = np.column_stack([np.ones(n), x])
    e, back = y - X @ np.linalg.lstsq(X, y, rcond=None)[0], np.linalg.inv(X.T @ X)
    schema = dp.Schema(x=dp.Real(-1, 1), y=dp.Real(-half, half))
    data = pd.DataFrame({"x": x, "y": y})
    fit = dp.dp_ols("y ~ x", data, eps=1.0, delta=1e-6, schema=schema, seed=seed)
    return fit, np.sqrt(np.diag(back @ (X.T * e**2) @ X @ back))


def test_an_interval_is_no_narrower_than_the_start_allows(noiseless):
    """theory 4: without the rule .83 and .79 of the robust interval; long responses are named."""
    said = "Large residuals may have been clipped"
    fit, robust = long_tailed(0.02)
    ends = fit.conf_int().to_numpy()
    assert ((ends[:, 1] - ends[:, 0]) / 2 > 0.9 * 1.96 * robust).all()
    assert any(note.startswith(said) for note in fit.notes)
    fit, _ = long_tailed(0.0, half=5.0)
    assert not any(note.startswith(said) for note in fit.notes)


@pytest.mark.filterwarnings("ignore")  # a seed is no private noise
def test_a_wide_range_says_what_it_may_hide():
    """Normal responses in ranges 50 sds wide: all 12 fits say what such a range may hide."""
    fits = [long_tailed(0.0, n=3_000, seed=seed)[0] for seed in range(12)]
    said = [" ".join(note for note in fit.notes if "Large residuals" in note) for fit in fits]
    assert all("would not be seen" in text for text in said)
