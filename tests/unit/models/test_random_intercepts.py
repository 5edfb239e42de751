"""``dp_feols(re=)``: the fit at given variances, the released averages, the whole call."""

import functools
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.audit.elements import is_element
from dpmodels.core.own import OwnRows
from dpmodels.core.rows import Rows
from dpmodels.core.units import PairAverages, pair_means
from dpmodels.errors import NotReleasedError, RequestError
from dpmodels.models import panel as intercepts
from dpmodels.models.panel import Intercepts, Variances, coefficients
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.sets import PairMeans
from dpmodels.proof.statistics import Sum
from dpmodels.scoring.models import Beginning
from dpmodels.sources.people import BlockOfPeople
from tests import one_pass
from tests.unit.models.test_expansions_exact import block_of, coordinates_of, people, planned, root

SIDES = {"x": (-4, 4), "z": (-1, 1), "y": (-9, 9)}
CALL = {"unit": "id", "re": "id", "bounds": SIDES, "delta": 1e-6}


def variances_of(share):
    """Return public variances: this share goes with the person."""
    return Variances(share, 1.0, 1.0, 0.0, 1.0)


def begun(share, mundlak=False):
    """(table, model, its block) at a public share of the variance."""
    d = people()
    plan = planned("dp_feols", "y ~ x + z", SIDES, 300, unit="id", re="id", rows_per_unit=3)
    c = coordinates_of(plan)
    model = Intercepts(c, mundlak, 1.0, variances_of(share))
    return d, model, block_of(plan, d, d["id"].to_numpy())


def at_root(share, mundlak=False):
    d, model, block = begun(share, mundlak)
    r = intercepts.dimension(model.coordinates.rank, mundlak=mundlak)
    theta, _ = root(model, block, np.zeros(r), steps=4)
    A, a = coefficients(model.coordinates, mundlak=mundlak)
    return d, A @ theta + a


def gls(d, X, share):
    """Generalised least squares with the whole covariance of every person."""
    y, XtX, Xty = d["y"].to_numpy(), 0.0, 0.0
    for _, rows in d.reset_index(drop=True).groupby("id").groups.items():
        V = np.linalg.inv(share * np.ones((len(rows),) * 2) + (1 - share) * np.eye(len(rows)))
        XtX = XtX + X[rows].T @ V @ X[rows]
        Xty = Xty + X[rows].T @ V @ y[rows]
    return np.linalg.solve(XtX, Xty)


def columns(d, mundlak):
    X = d[["x", "z"]]
    parts = [np.ones((len(d), 1)), X.to_numpy()]
    if mundlak:
        parts.append(X.groupby(d["id"]).transform("mean").to_numpy())
    return np.hstack(parts)


@pytest.mark.parametrize("mundlak", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.98])
def test_at_given_variances_it_is_generalised_least_squares(share, mundlak):
    d, found = at_root(share, mundlak)
    np.testing.assert_allclose(found, gls(d, columns(d, mundlak), share), atol=1e-9)


@pytest.mark.parametrize("mundlak", [False, True])
def test_at_its_variances_it_is_mixedlm(mundlak):
    api = pytest.importorskip("statsmodels.api")
    d = people()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = api.MixedLM(d["y"].to_numpy(), columns(d, mundlak), d["id"].to_numpy()).fit(reml=False)
    u, e = float(own.cov_re[0, 0]), float(own.scale)
    _, found = at_root(u / (u + e), mundlak)
    np.testing.assert_allclose(found, own.fe_params, atol=1e-6)


def test_within_people_the_means_make_it_the_fit_of_fixed_effects():
    d, found = at_root(0.3, mundlak=True)
    X = np.column_stack([d[["x", "z"]].to_numpy(), pd.get_dummies(d["id"]).to_numpy(float)])
    own = np.linalg.lstsq(X, d["y"].to_numpy(), rcond=None)[0][:2]
    np.testing.assert_allclose(found[1:3], own, atol=1e-9)


# -- the averages ------------------------------------------------------------------------------
@functools.cache
def rows_at_zero():
    _, model, _ = begun(0.0)
    r = model.coordinates.rank
    return intercepts._Residuals(model, np.zeros(r), np.eye(r), 1.0)


def person(rows, residuals, columns=None):
    """One person whose unit responses, and so residuals, are these."""
    unit = rows.model.coordinates.unit
    q = len(unit.scale)
    block = np.zeros((q, len(residuals)))
    block[0] = 1.0
    if columns is not None:
        block[1:-1] = columns
    block[-1] = (np.asarray(residuals) - unit.shift[-1]) / unit.scale[-1]
    m = len(residuals)
    return BlockOfPeople(block, np.array([0]), np.array([m]))


def laid(residuals, clip=1.0, columns=None):
    rows = rows_at_zero()
    with np.errstate(all="ignore"):
        block = person(rows, residuals, columns)
    formula = functools.partial(rows.clipped, clip=clip)
    return one_pass.sums_of(PairAverages(), formula, [block]).astype(float)


def test_averages_are_those_of_the_formulas():
    e = np.array([0.5, -0.25, 0.75, 3.0, -9.0])
    cut = np.clip(e, -2, 2) / 2.0
    pairs = [cut[i] * cut[j] for i in range(5) for j in range(5) if i != j]
    want = np.array([np.mean(pairs), 1.0, np.mean(cut**2)])
    np.testing.assert_allclose(laid(e, 2.0) / 2**20, want, atol=3e-6)
    assert not laid([0.7]).any()
    assert not laid([0.7, np.nan]).any()  # a row that is not there is no row
    assert not laid([0.5, 0.5], columns=np.array([[1.0, np.nan], [0.0, 0.0]])).any()


def hostile(rng):
    """People of 1, 2, 5 and 1000 rows, residuals of any size."""
    for m in (1, 2, 5, 1000):
        yield from (np.ones(m), -np.ones(m), np.where(np.arange(m) % 2, 1.0, -1.0), np.zeros(m))
        for scale in (1e-160, 1e-3, 0.3, 1.0, 1e3, 1e154, 1e307):
            yield rng.normal(size=m) * scale
        wild = rng.choice([5e-324, 1e308, -1e308, np.inf, -np.inf, np.nan, 0.9, -0.9], m)
        yield from (wild, np.full(m, np.nan))


def test_what_a_person_lays_down_is_in_the_set_and_two_are_as_far_as_the_reach():
    """Seed 1: sensitivity 2 is reached by two people of two rows and never exceeded; sqrt 3 alone."""
    rng = np.random.default_rng(1)
    found = [laid(e) for e in hostile(rng)]
    found.append(np.zeros(3))  # nobody
    assert all(is_element(PairMeans(), np.array(k, dtype=object)) for k in found)
    points = np.array(found) / 2**20
    apart = np.linalg.norm(points[:, None] - points[None], axis=2).max()
    statistic = Sum(PairMeans())
    assert 0.9999 * sensitivity(statistic, "replace", "l2") < apart <= sensitivity(statistic, "replace", "l2")
    longest = np.linalg.norm(points, axis=1).max()
    alone = sensitivity(statistic, "add-remove", "l2")
    assert 0.9999 * alone < longest <= alone
    assert apart > 1.1 * alone  # the mutant: sqrt 3 for both


def test_whatever_floats_come_to_it_ends_in_the_set():
    numbers = [-np.inf, -2.0, -1.0, -0.3, -0.0, 1e-300, 0.3, 0.3000001, 1.0, 7.0, np.inf, np.nan]
    for there in (True, False):
        for x in numbers:
            for q in numbers:
                k = pair_means(np.array([x]), np.array([there]), np.array([q]))[:, 0]
                assert is_element(PairMeans(), k.astype(object)), (x, q, there)


def climbed(rng, m, other, steps=400):
    """The farthest two people of m and ``other`` rows that hill climbing finds, over 2^20."""
    pair = [rng.uniform(-1.5, 1.5, k) for k in (m, other)]

    def far(pair):
        a, b = (laid(e) if len(e) else np.zeros(3) for e in pair)
        return float(np.linalg.norm(a - b)) / 2**20

    best = far(pair)
    for step in range(steps):
        i = int(rng.integers(2))
        if not len(pair[i]):
            continue
        trial = [e.copy() for e in pair]
        j = rng.integers(len(trial[i]))
        trial[i][j] = rng.choice([1.0, -1.0, 0.0, rng.normal()]) if step % 2 else -trial[i][j]
        now = far(trial)
        if now >= best:
            best, pair = now, trial
    return best


@pytest.mark.parametrize(
    ("m", "other", "at_most"),
    [(2, 2, 2.0), (2, 1, 3**0.5), (2, 0, 3**0.5), (5, 2, 2.0), (1, 1, 0.0), (5, 5, 2**0.5)],
)
def test_hill_climbing_passes_the_reach_nowhere(m, other, at_most):
    """Seeds fixed. Pairs of five rows cannot all be opposite: nobody is farther."""
    best = max(climbed(np.random.default_rng(seed), m, other) for seed in range(3))
    assert best <= sensitivity(Sum(PairMeans()), "replace", "l2")
    assert best == pytest.approx(at_most, abs=0.02)


def test_a_person_lays_down_the_same_among_others():
    rng = np.random.default_rng(2)
    rows = rows_at_zero()
    blocks = [person(rows, rng.normal(size=m)) for m in (1, 7, 3, 1000, 2)]
    together = BlockOfPeople(
        np.hstack([b.rows for b in blocks]),
        np.cumsum([0, 1, 7, 3, 1000]), np.array([1, 7, 3, 1000, 2]),
    )  # fmt: skip

    def averages(block):
        own = OwnRows(block.counts)
        return PairAverages().averages(own, rows.clipped(Rows(block.rows), own, 1.0))

    one = averages(together)
    for k, block in enumerate(blocks):
        assert np.array_equal(one[:, k], averages(block)[:, 0])


def test_released_averages_become_variances_and_errors():
    """2000 draws, seed 3: 4000 people of two normal rows, correlation .4, noise of 25 each.

    Chance that a mean over 2000 is off by .1 sds: 1e-5; that an sd is off by .1: 2e-10.
    """
    rng = np.random.default_rng(3)
    K, c, found = 4000, 2.5, []
    u = rng.normal(size=(2000, K), scale=np.sqrt(0.4)).astype(np.float32)
    for own in u:
        e = own[:, None] + rng.normal(size=(K, 2)) * np.sqrt(0.6)
        x, q = (e[:, 0] * e[:, 1]).sum() / c**2, (e * e).mean(axis=1).sum() / c**2
        noise = rng.normal(size=3) * 25.0
        found.append(Variances(x + noise[0], K + noise[1], q + noise[2], 25.0, c).reported(1.0))
    for name, truth in (("sigma_u2", 0.4), ("sigma_e2", 0.6), ("icc", 0.4)):
        values = np.array([one[name] for one in found])
        errors = np.array([one[f"{name}_se"] for one in found])
        assert abs(values.mean() - truth) < 0.1 * values.std()
        assert errors.mean() == pytest.approx(values.std(), rel=0.1)


def test_noise_may_not_make_weights_of_what_is_no_share():
    assert Variances(-5.0, 100.0, 50.0, 3.0, 1.0).share == 0.0
    assert Variances(60.0, 100.0, 50.0, 3.0, 1.0).share == intercepts.MOST_BETWEEN
    assert Variances(10.0, -1.0, 50.0, 3.0, 1.0).share == 0.0
    assert Variances(10.0, -1.0, 50.0, 3.0, 1.0).reported(1.0) == {}


# -- the call ----------------------------------------------------------------------------------
def panel(n=3000, seed=5):
    d = people(seed, n)
    return d.sample(frac=1.0, random_state=1).reset_index(drop=True)


@pytest.fixture(scope="module")
def fit():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_feols("y ~ x + z", panel(), eps=1e5, seed=1, stop=False, **CALL)


def test_the_fit_is_that_at_its_released_weights(fit):
    d = panel()
    share = fit._record.estimate.stats["weight_icc"]
    assert share == pytest.approx(fit.icc) and 0.3 < share < 0.6
    own = gls(d, columns(d, mundlak=True), share)
    # a seeded fit, eps 1e5: noise is nothing, what is left is the clip of long scores
    assert (np.abs(fit.params.to_numpy() - own) < 0.06 * fit.bse.to_numpy()).all()
    assert list(fit.params.index) == ["Intercept", "x", "z", "mean(x)", "mean(z)"]
    assert fit.sigma_u2 + fit.sigma_e2 == pytest.approx(fit.sigma_u2 / fit.icc)


def test_hausman_is_the_joint_test_of_the_means(fit):
    found, same = fit.hausman(), fit.wald_test("mean(x) = 0, mean(z) = 0")
    assert found.df == 2
    assert found.statistic == pytest.approx(same.statistic)
    assert found.pvalue < 1e-6  # x goes with the intercept
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = dp.dp_feols("y ~ x + z", panel(600), eps=10, seed=1, mundlak=False, **CALL)
        effects = dp.dp_feols("y ~ x | id", panel(600), eps=10, seed=1, unit="id", bounds=SIDES,
                              delta=1e-6)  # fmt: skip
    assert list(plain.params.index) == ["Intercept", "x", "z"]
    for other in (plain, effects):
        with pytest.raises(RequestError, match="mundlak=True"):
            other.hausman()
    with pytest.raises(NotReleasedError):
        _ = effects.icc


def test_what_it_says_and_keeps(fit, tmp_path):
    text = str(fit.summary(full=True))
    for words in ("Random by", "ICC", "released variance components", "mean(x)"):
        assert words in text
    assert {"term", "estimate", "std_error", "bias_bound"} <= set(fit.tidy().columns)
    fit.save(tmp_path / "fit.json")
    again = dp.load(tmp_path / "fit.json")
    assert str(again.summary(full=True)) == text
    assert again.icc == fit.icc and again.hausman().pvalue == fit.hausman().pvalue
    assert pickle.loads(pickle.dumps(fit)).icc == fit.icc


def test_predictions_take_means_of_the_rows_of_one_id(fit):
    new = pd.DataFrame({"id": [1, 1, 2], "x": [0.0, 2.0, 3.0], "z": [0.5, 0.5, np.nan]})
    b = fit.params
    means = np.array([1.0, 1.0])
    eta = b["Intercept"] + b["x"] * new.x[:2] + 0.5 * b["z"] + b["mean(x)"] * means
    eta = eta + 0.5 * b["mean(z)"]
    got = fit.predict(new)
    assert got[:2].to_numpy() == pytest.approx(eta.to_numpy()) and np.isnan(got[2])
    alone = fit.predict(new[["x", "z"]])
    assert alone[1] == pytest.approx(
        b["Intercept"] + 2 * (b["x"] + b["mean(x)"]) + 0.5 * (b["z"] + b["mean(z)"])
    )
    shown = fit.predict(new, interval="confidence", se_fit=True)
    assert (shown.lwr[:2] < shown.fit[:2]).all() and (shown.se_fit[:2] > 0).all()
    with pytest.raises(RequestError, match="confidence"):
        fit.predict(new, interval="prediction")


@pytest.mark.parametrize(
    ("formula", "more", "says"),
    [("y ~ x | id", {}, r'dp_feols\("y ~ x", data, unit="id", re="id"\)'),
     ("y ~ x", {"re": "x"}, 're="id"'),
     ("y ~ x", {"unit": None}, 'Add unit="id"'),
     ("y ~ x", {"re": 3}, "column of the unit"),
     ("y ~ 1", {}, "needs a predictor"),
     ("y ~ x - 1", {}, "intercept"),
     ("y ~ x", {"delta": 0}, "delta > 0"),
     ("y ~ x", {"rows_per_unit": 1}, "one row each"),
     ("y ~ x", {"mundlak": "yes"}, "mundlak"),
     ("y ~ x", {"mundlak": False, "re": None, "unit": "id"}, r'after one "\|"')],
)  # fmt: skip
def test_what_has_no_form_is_refused_before_a_row_is_read(formula, more, says):
    with pytest.raises(RequestError, match=says):
        dp.dp_feols(formula, people(), eps=1, **{**CALL, **more})


def test_counts_have_none_and_means_are_of_random_intercepts_alone():
    with pytest.raises(RequestError, match="use dp_feols for random intercepts"):
        dp.dp_fepois("c ~ x", people(), eps=1, **CALL)
    with pytest.raises(RequestError, match="needs re="):
        dp.dp_feols("y ~ x | id", people(), eps=1, delta=1e-6, unit="id", mundlak=False,
                    bounds=SIDES)  # fmt: skip


def test_a_plan_is_that_of_the_fit(fit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = dp.plan("y ~ x + z", n=3000, eps=1, verb="dp_feols", stop=False, **CALL)
    names = [step.name for step in plan.guarantee.steps]
    assert names.count("averages of residuals") == 1
    assert sum("(pooled)" in name for name in names) == 9
    shares = [step.share for step in plan.guarantee.steps]
    assert sum(shares) == pytest.approx(1.0)
    of = {s.name: s.share for s in plan.guarantee.steps}
    assert of["averages of residuals"] == pytest.approx(0.05)
    assert sum(v for k, v in of.items() if "(pooled)" in k) == pytest.approx(0.20)
    assert names == [step.name for step in fit.privacy.steps]


def test_sources_orders_and_workers_make_no_difference():
    d = panel(400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = {**CALL, "eps": 3, "seed": 2}
        first = dp.dp_feols("y ~ x + z", d, **call).params
        again = dp.dp_feols("y ~ x + z", d.sort_values("id", kind="stable"), **call).params
        columns = dp.dp_feols("y ~ x + z", {k: d[k].to_numpy() for k in d}, **call).params
    assert (first == columns).all() and np.allclose(first, again, atol=1e-9)


def test_the_scores_of_a_model_that_has_begun_are_those_of_its_variances():
    """Without share the rows are as they are; with it each person's part is of its own T."""
    _, model, block = begun(0.0)
    r = model.coordinates.rank
    state = replace(Beginning(None, r, None).state(np.zeros(r)), W=np.eye(r))
    plain = one_pass.expanded(model.at(state), block)
    some = one_pass.expanded(replace(model, variances=variances_of(0.4)).at(state), block)
    a, m = block.starts[1], block.counts[1]
    part = 1 - np.sqrt(0.6 / (0.6 + 0.4 * m))
    z = plain.information[:, a : a + m]
    np.testing.assert_allclose(some.information[:, a : a + m], z - part * z.mean(axis=1, keepdims=True))
    assert len(block.counts) == 300


def test_errors_of_variances_by_hand():
    """Delta method of ``R = pairs/K``, ``M = squares/K``: noise n a sum, two normal rows a person."""
    A, K, S, n, clip, unit = 30.0, 100.0, 60.0, 3.0, 2.5, 0.5
    R, M, rho, c2 = A / K, S / K, A / S, (clip / unit) ** 2
    found = Variances(A, K, S, n, clip).reported(unit)
    noise = {  # (d/dA, d/dK, d/dS) times n
        "sigma_u2": np.array([1 / K, -A / K**2, 0.0]),
        "sigma_e2": np.array([-1 / K, -(S - A) / K**2, 1 / K]),
        "icc": np.array([1 / S, 0.0, -A / S**2]),
    }
    # a person of two normal rows: the product p has variance M^2 (1 + rho^2), the mean square q
    # the same, and their covariance is 2 M^2 rho
    covariance = M * M * np.array([[1 + rho**2, 2 * rho], [2 * rho, 1 + rho**2]])
    sampling = {
        "sigma_u2": np.array([1.0, 0.0]) / K, "sigma_e2": np.array([-1.0, 1.0]) / K,
        "icc": np.array([1.0, -rho]) / S,
    }  # fmt: skip
    values = {"sigma_u2": c2 * R, "sigma_e2": c2 * (M - R), "icc": rho}
    for name, value in values.items():
        by = 1.0 if name == "icc" else c2
        v = n**2 * noise[name] @ noise[name] + K * sampling[name] @ covariance @ sampling[name]
        assert found[name] == pytest.approx(value)
        assert found[f"{name}_se"] == pytest.approx(by * np.sqrt(v))
