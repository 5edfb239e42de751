"""Forecasts of single coefficients against fits: a rare level, two nearly collinear numbers."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.slow
LEVELS = list("abcd")


def table(n, shares, rho, rng):
    """Return rows with levels of these shares and two numbers with this correlation."""
    d = pd.DataFrame({"g": rng.choice(LEVELS, size=n, p=shares), "x": rng.normal(size=n)})
    d["z"] = rho * d["x"] + np.sqrt(1.0 - rho**2) * rng.normal(size=n)
    effects = d["g"].map({"a": 0.0, "b": 0.3, "c": 0.6, "d": 1.0})
    d["y"] = 0.5 * d["x"] + 0.3 * d["z"] + effects + rng.normal(size=n)
    d[["x", "z"]], d["y"] = d[["x", "z"]].clip(-4, 4), d["y"].clip(-6, 6)
    return d


def seen(n, eps, shares, rho, fits=12):
    """Return (forecasts, share of fits without a test, error over the non-private one)."""
    schema = dp.Schema(g=dp.Levels(LEVELS), x=dp.Real(-4, 4), z=dp.Real(-4, 4), y=dp.Real(-6, 6))
    formula = "y ~ g + x + z"
    sd = {f"g[T.{level}]": float(np.sqrt(q * (1 - q)))
          for level, q in zip(LEVELS[1:], shares[1:], strict=True)}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = dp.plan(formula, schema, n=n, eps=eps, delta=1e-6, sd={**sd, "x": 1.0, "z": 1.0},
                       corr={("x", "z"): rho})  # fmt: skip
        words = plan.to_frame().set_index("column")["forecast"]
        rng, untested, errors = np.random.default_rng(11), [], []
        for seed in range(fits):
            d = table(n, shares, rho, rng)
            fit = dp.dp_ols(formula, d, schema=schema, eps=eps, delta=1e-6, seed=seed).tidy()
            X = np.column_stack([np.ones(n), *[d["g"] == v for v in LEVELS[1:]], d["x"], d["z"]])
            X = X.astype(float)
            free = np.sqrt(np.diag(np.linalg.inv(X.T @ X)))
            untested.append(fit["p_value"].isna().to_numpy())
            errors.append(fit["std_error"].to_numpy() / free)
    names = fit["term"].tolist()
    return words[names].to_numpy(), np.mean(untested, axis=0), np.nanmedian(errors, axis=0)


@pytest.mark.parametrize(
    ("n", "eps", "shares", "rho"),
    [
        (10_000, 1.0, (0.4, 0.3, 0.297, 0.003), 0.999),
        (20_000, 0.7, (0.5, 0.35, 0.14, 0.01), 0.9995),
        (4_000, 2.0, (0.45, 0.3, 0.242, 0.008), 0.3),
        (40_000, 1.0, (0.4, 0.3, 0.25, 0.05), 0.95),
    ],
)  # fmt: skip
def test_a_forecast_of_a_coefficient_is_what_fits_show(n, eps, shares, rho):
    """Twelve fits per design, of designs that the limits were not chosen on.

    Fine: tested in at least three of four fits, with at most twice the error (over that without
    privacy) of the best coefficient. Not determined: untested in half of the fits, or with three
    times that error. Seeds are fixed. A coefficient that is untested in one fit
    in twenty fails the first condition with probability .002.
    """
    words, untested, errors = seen(n, eps, shares, rho)
    best = errors.min()
    for word, missing, error in zip(words, untested, errors / best, strict=True):
        if word == "fine":
            assert missing <= 0.25 and error <= 2.0
        if word == "not determined":
            assert missing >= 0.5 or error >= 3.0


def test_the_forecasts_of_a_design_differ():
    words, _, _ = seen(10_000, 1.0, (0.4, 0.3, 0.297, 0.003), 0.999, fits=1)
    assert set(words) == {"fine", "rough", "not determined"}
