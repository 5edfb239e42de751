"""Bayes classifier: statistics, sensitivities, forms, prediction."""

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.formula.build import build_design
from dpmodels.models.bayes import BayesDetail, class_sums
from dpmodels.own.class_means import pair_constants
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.statistics import ByClass, Sum

SCHEMA = dp.Schema(k=dp.Levels(["u", "v", "w"]), a=dp.Real(-4, 4), b=dp.Real(0, 10))


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    k = rng.choice(3, size=n, p=[0.6, 0.25, 0.15])
    a = np.array([-1.0, 1.0, 2.0])[k] + 0.5 * rng.normal(size=n)
    b = np.array([3.0, 5.0, 8.0])[k] + rng.normal(size=n)
    return pd.DataFrame({"k": np.array(["u", "v", "w"])[k], "a": a, "b": b})


CALL = dict(eps=1.0, delta=1e-6, schema=SCHEMA)


def test_without_noise_it_is_the_bayes_classifier(noiseless):
    frame = table(5000)
    frame["b"] = frame["b"].clip(0, 10)
    fit = dp.dp_bayes("k ~ a + b", frame, **CALL)
    means = frame.groupby("k")[["a", "b"]].mean()
    assert fit.params["v: a"] == pytest.approx(means.loc["v", "a"], abs=1e-4)
    assert fit.params["w: b"] == pytest.approx(means.loc["w", "b"], abs=1e-4)
    assert fit.params["u: prior"] == pytest.approx((frame.k == "u").mean(), abs=1e-9)
    within = frame.groupby("k")[["a", "b"]].transform(lambda c: c - c.mean())
    assert fit.arrays["variances"][0] == pytest.approx((within**2).mean().to_numpy(), rel=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "sums"},
        {"method": "sums", "variance": "class"},
        {"method": "sums", "variance": "identity", "R": 12.0},
        {"method": "eptr"},
        {"method": "eptr", "c0": 0.1, "eps": 4.0, "R": 12.0},
        {"method": "eptr", "variant": "paper", "R": 12.0, "c0": 0.1, "eps": 8.0},
        {"method": "sums", "R": 12.0},
    ],
)
def test_every_form_classifies(quiet, options):
    frame, test = table(20_000), table(4000, 1)
    fit = dp.dp_bayes("k ~ a + b", frame, seed=4, **{**CALL, **options})
    assert fit.released
    assert dp.balanced_error(fit, test) < (0.35 if "variant" in options else 0.12)
    confusion = dp.confusion_table(fit, test)
    assert confusion.to_numpy().sum() == 4000
    p = fit.predict(test, what="prob")
    assert p.sum(axis=1).to_numpy() == pytest.approx(1.0)
    assert list(p.columns) == ["u", "v", "w"]
    assert fit.privacy.delta_at(fit.privacy.eps) <= 1e-6 * (1 + 1e-8)


def test_prediction_of_missing_rows_is_missing(quiet):
    fit = dp.dp_bayes("k ~ a + b", table(5000), seed=1, **CALL)
    new = pd.DataFrame({"a": [0.0, np.nan], "b": [3.0, 3.0]})
    assert fit.predict(new).isna().tolist() == [False, True]


def design(formula="k ~ a + b", schema=SCHEMA):
    return build_design(formula, schema, response_ok="levels")


def rows_for(rng, d, radius):
    """Corner feature rows (in user units of a box [-1, 1]) and codes, with missing ones."""
    x = rng.choice([-1.0, 1.0, 0.0, 0.3], size=d)
    if rng.uniform() < 0.1:
        x[rng.integers(d)] = rng.choice([np.nan, np.inf, -np.inf, 1e300])
    code = rng.choice([0.0, 1.0, 2.0, np.nan], p=[0.35, 0.35, 0.2, 0.1])
    return np.concatenate([[1.0], x * (1 if radius is None else 2), [code]])


@pytest.mark.parametrize("radius", [None, 1.0])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_sensitivities_of_class_statistics(radius, d):
    names = [f"x{j}" for j in range(d)]
    schema = dp.Schema(k=dp.Levels(["u", "v", "w"]), **{c: dp.Real(-1, 1) for c in names})
    into, over = class_sums(design("k ~ " + " + ".join(names), schema), radius)
    squares = Sum(into.squares, products=True)
    shared, by_class = (sensitivity(s, "replace", "l2") for s in (squares, ByClass(squares, 3)))
    rng = np.random.default_rng(d)
    worst = {"joint": 0.0, "shared": 0.0, "class": 0.0}
    for _ in range(2500):
        base = np.column_stack([rows_for(rng, d, radius) for _ in range(3)])
        a, b = (
            over.over([np.column_stack([base, rows_for(rng, d, radius)])]).arrays[0].arrays
            for _ in range(2)
        )
        sums = (a[1] - b[1]) * 2.0**-20 / into.norm
        counts = (a[0] - b[0]).astype(float)
        squares = (a[2] - b[2]).astype(float) * 2.0**-40
        worst["joint"] = max(
            worst["joint"], math.hypot(np.linalg.norm(sums), np.linalg.norm(counts))
        )
        worst["shared"] = max(worst["shared"], np.linalg.norm(squares.sum(axis=0)))
        worst["class"] = max(worst["class"], np.linalg.norm(squares))
    assert worst["joint"] <= 2.0 * (1 + 1e-9)
    assert worst["joint"] > 1.99
    assert worst["shared"] <= shared * (1 + 1e-9)
    assert worst["class"] <= by_class * (1 + 1e-9)
    assert worst["class"] > 0.9 * by_class


@pytest.mark.parametrize("c0", [0.2, 0.3])
def test_pair_form_conditions(c0):
    """gamma is 1-Lipschitz and the scaled vector moves by at most alpha where gamma > 0."""
    rng = np.random.default_rng(3)
    detail = BayesDetail("fixed", 1.0, "identity", {}, c0=c0, eps_t=0.25, eps_r=0.75, delta=0.01)
    n, worst = 12, 0.0
    for _ in range(6000):
        k = rng.choice(2, size=n)
        x = rng.choice([-1.0, 1.0], size=n)
        k2, x2 = k.copy(), x.copy()
        i = rng.integers(n)
        k2[i], x2[i] = rng.choice(2), rng.choice([-1.0, 1.0])
        vectors, gammas = [], []
        for kk, xx in ((k, x), (k2, x2)):
            counts = np.bincount(kk, minlength=2)
            means = np.array([xx[kk == j].mean() if counts[j] else 0.0 for j in range(2)])
            c = pair_constants(detail, float(counts.min()), 1.0, n)
            gammas.append(c.gamma)
            vectors.append(np.concatenate([c.weight * counts / n, means]))
        assert abs(gammas[0] - gammas[1]) <= 1
        if max(gammas) > 0:
            change = np.linalg.norm(vectors[0] - vectors[1])
            assert change <= c.alpha
            worst = max(worst, change / c.alpha)
    assert worst > 0.6


@pytest.mark.oracle
def test_bayes_oracles():
    paper = BayesDetail("paper", None, "identity", {}, c0=0.1, eps_t=0.5, eps_r=0.5, delta=0.01)
    c = pair_constants(paper, 25.0, 1.0, 100)
    assert c.gamma == 14
    assert c.alpha == pytest.approx(0.284253408071, rel=1e-11)
    tight = BayesDetail("fixed", None, "identity", {}, c0=0.1, eps_t=0.25, eps_r=0.75, delta=0.01)
    c = pair_constants(tight, 25.0, 1.0, 100)
    assert c.gamma == 16
    unweighted = math.sqrt(4 / 10**2 + 4 / 11**2 + 2 / 100**2)
    assert unweighted == pytest.approx(0.270661876221, rel=1e-11)
    assert c.alpha == pytest.approx(
        math.sqrt(unweighted**2 + 2 * (c.weight**2 - 1) / 100**2), rel=2e-6
    )


def test_empty_class_answers_through_the_mechanism(quiet):
    frame = table(3000)
    frame = frame[frame.k != "w"]
    fit = dp.dp_bayes("k ~ a + b", frame, method="eptr", **CALL)
    assert not fit.released
    assert dp.dp_bayes("k ~ a + b", frame, **CALL).released


def test_undeclared_class_adds_nothing(noiseless):
    frame = table(3000)
    odd = pd.concat([frame, frame.head(500).assign(k="zzz")], ignore_index=True)
    fit = dp.dp_bayes("k ~ a + b", odd, **CALL)
    same = dp.dp_bayes("k ~ a + b", frame, **CALL)
    assert fit.params["u: a"] == pytest.approx(same.params["u: a"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "eptr", "variant": "paper"}, "R, c0"),
        ({"method": "eptr", "c0": 0.1, "variance": "shared"}, "identity"),
        ({"variance": "pooled"}, "variance"),
        ({"variance": "identity"}, "R="),
        ({"method": "eptr", "c0": 0.1}, "R="),
        ({"R": -1.0}, "R"),
    ],
)
def test_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        dp.dp_bayes("k ~ a + b", table(50), **{**CALL, **changes})


def test_undeclared_classes_are_refused_with_a_template():
    with pytest.raises(dp.errors.SchemaNeededError, match=r"dp\.Levels"):
        dp.dp_bayes("k ~ a + b", table(50), eps=1, delta=1e-6)
