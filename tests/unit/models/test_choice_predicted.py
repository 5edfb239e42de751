"""Probabilities of classes at public rows, and their intervals: the delta method, exactly."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError
from dpmodels.models.choice import Multinomial, ProportionalOdds, at_public_rows

LEVELS = ["low", "middle", "high", "top"]
NEW = pd.DataFrame({"x": [0.0, 1.5, -2.0], "z": [0.0, -0.5, 0.8]}, index=["p", "q", "r"])


def fitted(verb, n=6000):
    rng = np.random.default_rng(0)
    x, z = np.clip(rng.normal(size=n), -3, 3), rng.uniform(-1, 1, n)
    latent = 0.8 * x - 0.5 * z + rng.logistic(size=n)
    y = np.array(LEVELS)[np.searchsorted([-1.0, 0.3, 1.5], latent)]
    kind = dp.Ordered if verb == "dp_polr" else dp.Levels
    schema = dp.Schema(x=dp.Real(-3, 3), z=dp.Real(-1, 1), y=kind(LEVELS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(dp, verb)("y ~ x + z", pd.DataFrame({"x": x, "z": z, "y": y}), schema=schema,
                                 eps=4.0, delta=1e-6, seed=1)  # fmt: skip


def by_hand(verb, params, X):
    """Probabilities (m, K) of coefficients as they are reported."""
    if verb == "dp_polr":
        theta = np.concatenate([params[2:], params[:2]])
        return at_public_rows(ProportionalOdds(4), theta, X.T)[0].T
    return at_public_rows(Multinomial(4), params, X.T)[0].T


@pytest.mark.parametrize("verb", ["dp_polr", "dp_multinom"])
def test_errors_are_those_of_the_delta_method(verb):
    fit = fitted(verb)
    found = fit.predict(NEW, what="probs", interval="confidence", se_fit=True)
    assert list(found.columns) == ["class", "fit", "lwr", "upr", "se_fit"]
    assert found.index.tolist() == [i for i in "pqr" for _ in range(4)]
    assert found["class"].tolist() == LEVELS * 3
    X = np.column_stack([np.ones(3), NEW])
    params, V = fit.params.to_numpy(), fit.cov_params().to_numpy()
    step = 1e-6
    G = np.array([
        (by_hand(verb, params + step * e, X) - by_hand(verb, params - step * e, X)).ravel() / (2 * step)
        for e in np.eye(len(params))
    ])  # fmt: skip
    se = np.sqrt(np.einsum("ik,ij,jk->k", G, V, G))
    np.testing.assert_allclose(found["fit"], by_hand(verb, params, X).ravel(), rtol=1e-9)
    np.testing.assert_allclose(found["se_fit"], se, rtol=1e-5)
    # symmetric in the log odds, no narrower than without a bias
    odds = {name: np.log(found[name] / (1 - found[name])) for name in ("fit", "lwr", "upr")}
    np.testing.assert_allclose(odds["upr"] - odds["fit"], odds["fit"] - odds["lwr"], rtol=1e-8)
    p = found["fit"].to_numpy()
    assert (odds["upr"] - odds["fit"] >= 1.95996 * se / (p * (1 - p)) * (1 - 1e-4)).all()
    assert np.array_equal(found["fit"].to_numpy().reshape(3, 4), fit.predict(NEW, what="probs").to_numpy())
    wide = fit.predict(NEW, what="probs", interval="confidence", level=0.99)
    assert (wide["upr"] > found["upr"].to_numpy()).all() and "se_fit" not in wide


@pytest.mark.parametrize("verb", ["dp_polr", "dp_multinom"])
def test_rows_that_are_missing_have_none_and_classes_have_no_errors(verb):
    fit = fitted(verb)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        odd = fit.predict(NEW.assign(x=[np.nan, 1.5, -2.0]), what="probs", interval="confidence", se_fit=True)
    assert odd[["fit", "lwr", "upr", "se_fit"]].iloc[:4].isna().all().all()
    assert odd.iloc[4:].notna().all().all()
    with pytest.raises(RequestError, match='what="probs"'):
        fit.predict(NEW, interval="confidence")
    with pytest.raises(RequestError, match="interval"):
        fit.predict(NEW, what="probs", interval="prediction")
