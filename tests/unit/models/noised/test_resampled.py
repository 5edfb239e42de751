"""Errors of losses by resampling released rows, where the sandwich is not trusted."""

import warnings

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError
from dpmodels.models.noised.objective import resampled_covariance

SCHEMA = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-1, 1), y=dp.Binary())


def released(seed, n=3000, eps=2.2):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-(0.2 + a - 0.5 * b)))).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_release(
            ["a", "b"], {"a": a, "b": b, "y": y}, eps=eps, delta=0.05, noise="sl", schema=SCHEMA,
            public_columns=["y"], seed=seed, accept_no_estimate=True,
        )  # fmt: skip


def fitted(rel, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_glm("y ~ a + b", rel, **options)


def test_weak_signals_have_resampled_errors():
    rel = released(1)
    fit = fitted(rel)
    assert fit.stats["signal"] < 2
    assert np.isfinite(fit.bse).all()
    assert any("resampled released rows" in note for note in fit.notes)
    assert fitted(rel, errors="sandwich").bse.isna().all()
    assert fitted(rel).bse.equals(fit.bse)  # the same whenever it is made


def test_strong_signals_keep_the_sandwich_and_both_agree():
    """A difference of a fifth at most: 40 fits tell an sd to about .11 of it; seed 2, below 1 %."""
    rel = released(2, n=6000, eps=10.0)
    by_rule, both = fitted(rel), [fitted(rel, errors=e) for e in ("sandwich", "bootstrap")]
    assert by_rule.stats["signal"] > 5
    assert by_rule.bse.equals(both[0].bse)
    assert both[1].bse.to_numpy() == pytest.approx(both[0].bse.to_numpy(), rel=0.35)


def test_an_unknown_word_is_refused():
    with pytest.raises(RequestError, match="errors="):
        dp.dp_glm("y ~ a + b", released(3), errors="jackknife")


@pytest.mark.statistical
def test_covariances_of_fits_are_robust():
    """Normal fits with one that ran away: sds within a quarter (seed 0; 400 fits, sd of it .05)."""
    rng = np.random.default_rng(0)
    fits = rng.normal(size=(400, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    fits[0] = 1e6
    V = resampled_covariance(fits)
    assert np.sqrt(np.diag(V)) == pytest.approx([1.0, 1.0], rel=0.25)
    assert V[0, 1] == pytest.approx(0.8, abs=0.25)
    fits[:100] = np.nan
    assert resampled_covariance(fits) is None
    assert resampled_covariance(rng.normal(size=(40, 1))).shape == (1, 1)


@pytest.mark.slow
@pytest.mark.statistical
def test_resampled_intervals_cover():
    """Two slopes of 40 weak logits (signal about 1 to 2): coverage of 95 % intervals at least .85.

    Seeds 100 to 139. Of 80 intervals that cover .95 fewer than 68 do so in 1 of 3000 sets of seeds.
    """
    hits = []
    for seed in range(100, 140):
        fit = fitted(released(seed, n=5000))
        z = (fit.params[["a", "b"]].to_numpy() - [1.0, -0.5]) / fit.bse[["a", "b"]].to_numpy()
        hits += (np.abs(z[np.isfinite(z)]) < 1.96).tolist()
    assert len(hits) > 50
    assert np.mean(hits) >= 0.85
