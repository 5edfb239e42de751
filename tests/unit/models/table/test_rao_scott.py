"""Rao-Scott: the formula without noise, its size with it, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f as F_law

import dpmodels as dp
from dpmodels import _testing
from dpmodels.errors import RequestError

SCHEMA = dp.Schema(
    a=dp.Levels(list("xyz")), b=dp.Levels(list("uv")), w=dp.Real(0, 6), y=dp.Real(0, 1),
)  # fmt: skip


def sample(seed, G, m, effect=0.0, icc=0.25):
    """Two traits that go with the unit; independent of each other where there is no effect."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(G), m)

    def trait():
        own = np.sqrt(1 - icc) * rng.normal(size=G * m)
        return np.sqrt(icc) * rng.normal(size=G)[g] + own

    first = trait()
    second = trait() + effect * first
    return pd.DataFrame({
        "a": np.array(list("xyz"))[np.digitize(first, [-0.4, 0.5])],
        "b": np.where(second > 0.2, "v", "u"), "w": np.exp(0.4 * rng.normal(size=G * m)),
        "p": g, "y": rng.random(G * m),
    })  # fmt: skip


def by_hand(d, weighted=True):
    """Return (F, df, p) of the second-order correction."""
    w = d.w.to_numpy() if weighted else np.ones(len(d))
    A, B = np.array([(d.a == k) for k in "xy"]), (d.b == "u").to_numpy()
    r, c = (A * w).sum(axis=1) / w.sum(), (B * w).sum() / w.sum()
    Z = (A - r[:, None]) * (B - c) * w
    T = np.array([np.bincount(d.p, z) for z in Z])
    G = T.shape[1]
    V0 = (np.diag(r) - np.outer(r, r)) * c * (1 - c) * (w**2).sum()
    values = np.linalg.eigvals(np.linalg.solve(V0, T @ T.T * G / (G - 1))).real
    X = Z.sum(axis=1)
    df = values.sum() ** 2 / (values**2).sum()
    F = X @ np.linalg.solve(V0, X) / values.sum()
    return F, df, F_law.sf(F, df, df * (G - 1))


def asked_of(d, eps=1.0, weights="w", noise=True, **options):
    design = dp.Survey(weights=weights, psu="p", psus=int(d.p.max()) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_test(
            "~ a * b", d, design=design, eps=eps, delta=1e-6, schema=SCHEMA, **options
        )
    return fit._record.estimate.stats


def test_without_noise_it_is_the_formula():
    for effect in (0.0, 0.1):
        d = sample(1, 400, 15, effect)
        with _testing.noise_source(_testing.ZeroNoise()):
            found = asked_of(d, eps=1e5)
        F, df, p = by_hand(d)
        assert found["statistic"] == pytest.approx(F, rel=0.05)
        assert found["df"] == pytest.approx(df, rel=0.02)
        assert found["p_value"] == pytest.approx(p, abs=0.03)
        with _testing.noise_source(_testing.ZeroNoise()):
            found = asked_of(d, eps=1e5, weights=None)
        assert found["statistic"] == pytest.approx(by_hand(d, False)[0], rel=0.05)


@pytest.mark.slow
def test_it_keeps_its_size():
    """At 5 %, 200 tables of 1024 units: between .01 and .10 (a level of .05 is outside with
    probability .004)."""
    p = np.array([asked_of(sample(s, 1024, 10), seed=s)["p_value"] for s in range(200)])
    assert 0.01 <= np.mean(p < 0.05) <= 0.10


def test_an_effect_is_seen():
    p = [asked_of(sample(s, 1024, 10, 0.15), seed=s)["p_value"] for s in range(3)]
    assert max(p) < 0.01


def test_what_is_refused():
    d = sample(2, 50, 4)
    with pytest.raises(RequestError, match="test of independence"):
        dp.dp_test(
            "y ~ b", d, eps=1, delta=1e-6, schema=SCHEMA, design=dp.Survey(psu="p", psus=50)
        )
    with pytest.raises(RequestError, match="say the design"):
        dp.dp_test("~ a * b", d, eps=1, delta=1e-6, schema=SCHEMA, weights="w")


def test_it_says_that_it_is_careful():
    d, said = sample(1, 200, 20), "rejects .02 to .03 of true hypotheses"
    options = {"eps": 4.0, "delta": 1e-6, "schema": SCHEMA}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_unit = dp.dp_test("~ a * b", d, design=dp.Survey(psu="p", psus=200), **options)
        by_row = dp.dp_test("~ a * b", d, design=dp.Survey(weights="w"), **options)
    assert said in " ".join(by_unit.notes) and said not in " ".join(by_row.notes)
