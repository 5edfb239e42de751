"""``fit.cox_zph``: Grambsch and Therneau's test where there is no noise, and what it says else."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.errors import BudgetError, RequestError, UtilityWarning
from dpmodels.models.survival.zph import Intervals, centred, slopes, transformed, zph_of
from dpmodels.sources.people import BlockOfPeople
from tests.one_pass import expanded
from tests.privacy.cases.survival import check_of

BOUNDS = {"time": (0, 12), "dead": (0, 1), "x": (0, 1), "w": (-3, 3)}
FORMULA = "Surv(time, dead) ~ x + w"


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def cohort(seed, n=8000, gamma=0.0, b=(0.5, -0.3), level=0.04):
    """Exponential; from t = 4 on the coefficient of x is larger by gamma."""
    rng = np.random.default_rng(seed)
    x, w = (rng.random(n) < 0.4) * 1.0, np.clip(rng.normal(size=n), -3, 3)
    first = level * np.exp(b[0] * x + b[1] * w)
    E = rng.exponential(size=n)
    dies = np.where(4 * first > E, E / first, 4 + (E - 4 * first) / (first * np.exp(gamma * x)))
    leaves = rng.uniform(2, 20, n)
    end = np.minimum(np.minimum(dies, leaves), 12.0)
    return pd.DataFrame({"time": end, "dead": (dies <= np.minimum(leaves, 12.0)) * 1.0, "x": x, "w": w})


def fitted(table, eps=200.0, seed=None, **call):
    return dp.dp_coxph(FORMULA, table, eps=eps, delta=1e-6, bounds=BOUNDS, seed=seed, **call)


def by_hand(table, beta, g):
    """Score tests of b + gamma g(t) by the partial likelihood itself (Breslow), as R's cox.zph."""
    table = table.sort_values("time")
    t, X, event = table["time"].to_numpy(), table[["x", "w"]].to_numpy(), table["dead"].to_numpy() == 1
    risk = np.exp(X @ beta)

    def at_risk(values):
        return np.cumsum(values[::-1], axis=0)[::-1][event]

    total = at_risk(risk)
    mean = at_risk(risk[:, None] * X) / total[:, None]
    V = at_risk(risk[:, None, None] * X[:, :, None] * X[:, None, :]) / total[:, None, None]
    V -= mean[:, :, None] * mean[:, None, :]
    own, at = X[event] - mean, g(t[event])
    U = np.concatenate([own.sum(axis=0), (at[:, None] * own).sum(axis=0)])
    A, B, C = (np.tensordot(at**k, V, axes=1) for k in range(3))
    whole, p = np.block([[A, B], [B, C]]), 2

    def statistic(some):
        return U[some] @ np.linalg.solve(whole[np.ix_(some, some)], U[some])

    old = statistic([*range(p)])
    return np.array([statistic([0, 1, 2]) - old, statistic([0, 1, 3]) - old, statistic([0, 1, 2, 3]) - old])


@pytest.mark.parametrize(("gamma", "seed"), [(0.0, 0), (0.0, 1), (0.6, 0), (0.6, 1)])
def test_without_noise_it_is_the_test_of_the_partial_likelihood(gamma, seed):
    table = cohort(seed, gamma=gamma)
    with noise_source(ZeroNoise()):
        fit = fitted(table)
        found = fit.cox_zph(table, eps=200.0, delta=1e-6, intervals=4)
    events = np.histogram(table["time"][table["dead"] == 1], found.ends)[0]
    rank = (np.cumsum(events) - events / 2) / events.sum()

    def g(t):
        return rank[np.clip(np.searchsorted(found.ends, t, side="left") - 1, 0, 3)]

    wanted = by_hand(table, fit.params.to_numpy(), g)
    np.testing.assert_allclose(np.sqrt(found.tests["statistic"]), np.sqrt(wanted), atol=0.25)


def test_the_numbers_of_a_row_are_its_events_and_expected_events():
    """Against sums over a grid of time; seed fixed, deterministic."""
    plan = check_of("rows, entries", 1)
    local, where, lay = plan.local, plan.design.survival, plan.local.layout
    rng, m = np.random.default_rng(1), 40
    block = rng.choice([-1.0, 0.2, 1.0], (plan.design.q, m))
    block[0], block[where.event] = 1.0, rng.integers(0, 2, m)
    block[where.start], block[where.time] = rng.uniform(0, 4, m), rng.uniform(4, 12, m)
    found = expanded(local, BlockOfPeople(block, np.arange(m), np.ones(m, dtype=np.intp)))
    s, r, t, e, q = np.split(found.score, np.cumsum(lay.sizes)[:-1])
    line, u = local.model.timeline, local.model.coordinates.affine
    z = (u[0] @ block + u[1])[1:]
    risk = np.exp(np.linspace(0.8, -0.5, lay.p) @ block[1 : lay.p + 1])
    z *= np.minimum(1.0, lay.longest / np.linalg.norm(z, axis=0))
    grid = np.linspace(0, 12, 24_001)[:-1] + 0.00025
    hazard = line.rates[0][np.searchsorted(line.edges, grid) - 1]
    whole = np.flatnonzero(risk * (line.rates[0] @ np.diff(line.edges)) < 2.0)  # nobody is stopped
    assert len(whole) >= 12
    for i in whole:
        start, stop = block[where.start, i], block[where.time, i]
        if block[where.event, i]:  # an event is where in its cell the row's own hazard expects it
            k = np.searchsorted(line.edges, stop) - 1
            begin, end = max(start, line.edges[k]), line.edges[k + 1]
            mass = risk[i] * line.rates[0][k] * (end - begin)
            stop = begin + (end - begin) * (1.0 / mass - 1.0 / np.expm1(mass))
        inside = (grid > start) & (grid <= stop)
        for j in range(lay.J):
            here = (grid > local.ends[j]) & (grid <= local.ends[j + 1])
            expected = risk[i] * hazard[inside & here].sum() * 0.0005
            event = block[where.event, i] * (local.ends[j] < stop <= local.ends[j + 1])
            assert r[j, i] == pytest.approx(event - expected, abs=2e-3)
            assert e[j, i] == pytest.approx(0.25 * expected, abs=1e-3)
            np.testing.assert_allclose(s[j * lay.p : (j + 1) * lay.p, i], z[:, i] * r[j, i], atol=1e-9)
            np.testing.assert_allclose(t[j * lay.p : (j + 1) * lay.p, i], z[:, i] * e[j, i], atol=1e-9)
        flat = np.zeros(lay.d)
        flat[-len(q) :] = q[:, i]
        Q = lay.parts(flat)[-1]
        np.testing.assert_allclose(Q, np.outer(z[:, i], z[:, i]) * e[:, i].sum() / 0.25, atol=1e-9)


def test_follow_up_that_is_used_up_is_left_out_by_predictors_alone():
    """Two rows that differ in what happened late add the same once they are used up."""
    plan = check_of("rows", 1)
    where = plan.design.survival
    block = np.ones((plan.design.q, 2))
    block[1], block[2], block[where.time], block[where.event] = 1.0, -2.0, [11.0, 12.0], [1.0, 0.0]
    found = expanded(plan.local, BlockOfPeople(block, np.arange(2), np.ones(2, dtype=np.intp)))
    assert np.abs(found.score).max() > 0.1
    assert (found.score[:, 0] == found.score[:, 1]).all()


def released(seed):
    """Numbers as a run of 900 events would release them, without noise."""
    lay, rng = Intervals(2, 3, 2), np.random.default_rng(seed)
    e = rng.uniform(100, 200, (lay.S, lay.J))
    t = e[:, :, None] * rng.uniform(-0.3, 0.3, (lay.S, lay.J, lay.p))
    r, s = rng.normal(size=e.shape) * 12.0, rng.normal(size=(lay.J, lay.p)) * 15.0
    upper, weight = lay.pairs
    Q = (e.sum() * (np.eye(lay.p) + 0.2))[upper] * weight
    return lay, np.concatenate([s.ravel(), r.ravel(), 0.25 * t.ravel(), 0.25 * e.ravel(), Q])


def put(lay, flat, s=0.0, r=0.0):
    """Add to scores (J, p) and residuals (S, J)."""
    out, k, m = flat.copy(), lay.sizes[0], lay.sizes[1]
    out[:k] += np.ravel(s)
    out[k : k + m] += np.ravel(r)
    return out


@pytest.mark.parametrize("seed", range(5))
def test_neither_a_wrong_baseline_nor_a_fit_that_is_off_moves_a_slope(seed):
    """A hazard wrong by a factor in each stratum and interval; coefficients off by any amount."""
    lay, flat = released(seed)
    _, _, t, e, _ = lay.parts(flat)
    rng = np.random.default_rng(seed)
    off = 0.2 * rng.normal(size=e.shape)
    wrong = put(lay, flat, np.einsum("sj,sjp->jp", off, t), off * e)
    one, other = centred(lay, flat, 0.0), centred(lay, wrong, 0.0)
    np.testing.assert_allclose(one.s, other.s, atol=1e-9)
    g = transformed(np.arange(4.0), one.events, "rank")
    moved = put(lay, flat, one.slope @ rng.normal(size=lay.p))
    for along in (np.eye(lay.p), np.array([[1.0], [2.0]])):
        for a, b in zip(slopes(one, g, along), slopes(centred(lay, moved, 0.0), g, along), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)
    changed = put(lay, flat, g[:, None] * (one.slope @ [0.3, -0.2]))
    gained = slopes(centred(lay, changed, 0.0), g, np.eye(2))[0] - slopes(one, g, np.eye(2))[0]
    np.testing.assert_allclose(gained, [0.3, -0.2], atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_noise_makes_no_p_value_smaller(seed):
    """The same numbers, said to hold noise: variances grow by it at least, chi-squares fall."""
    lay, flat = released(seed)
    clean = centred(lay, flat, 0.0)
    last = zph_of(lay, ("a", "b"), np.zeros(2), np.eye(2), np.arange(4.0), flat, 1e-9, "rank", None)
    for sd in (2.0, 5.0, 9.0):
        more = centred(lay, flat, sd).cov - clean.cov
        assert (np.linalg.eigvalsh(more)[:, 0] > sd**2).all()
        # beside the scores' own noise: that of events and of second moments
        of_e, share = 4.0 * sd, clean.events / clean.events.sum()
        least = np.linalg.eigvalsh(clean.slope / clean.events[:, None, None])[:, 0]
        wanted = share * of_e * lay.longest + of_e * np.sqrt(lay.S) * least
        assert (np.linalg.eigvalsh(more)[:, 0] > sd**2 + 0.9 * wanted).all()
        found = zph_of(lay, ("a", "b"), np.zeros(2), np.eye(2), np.arange(4.0), flat, sd, "rank", None)
        assert (found.tests["p_value"] >= last.tests["p_value"] - 0.02).all()
        last = found


def test_a_coefficient_that_changes_is_found():
    table = cohort(3, n=20_000, gamma=0.8, level=0.1)
    found = fitted(table, 2.0, seed=1).cox_zph(table, eps=2.0, delta=1e-6, seed=2)
    p = found.tests.set_index("term")["p_value"]
    assert p["x"] < 1e-4 and p["GLOBAL"] < 1e-3
    own = found.by_interval[found.by_interval["term"] == "x"]
    assert own["estimate"].iloc[-1] - own["estimate"].iloc[0] > 0.4
    points = found.plot(term="w").containers[0].lines[0].get_ydata().astype(float)
    np.testing.assert_allclose(points, found.by_interval["estimate"][1::2])


def test_the_transform_is_free_and_the_check_is_saved_and_loaded(tmp_path):
    table = cohort(0)
    fit = fitted(table, 4.0, seed=1)
    fit.save(tmp_path / "fit.json")
    found = fit.cox_zph(table, eps=4.0, delta=1e-6, seed=2, transform="log")
    found.save(tmp_path / "check.json")
    again = dp.load(tmp_path / "check.json")
    pd.testing.assert_frame_equal(again.tests, found.tests)
    for transform in ("rank", "identity"):
        fresh = dp.load(tmp_path / "fit.json").cox_zph(
            table, eps=4.0, delta=1e-6, seed=2, transform=transform
        )
        pd.testing.assert_frame_equal(again.with_transform(transform).tests, fresh.tests)
    assert "by log of time" in str(found)


def test_it_is_charged_before_noise_and_once():
    table = cohort(0, n=2000)
    fit = fitted(table, 4.0, seed=1)
    budget = dp.Budget(eps=3, delta=1e-5)
    found = fit.cox_zph(table, eps=1.0, delta=1e-6, budget=budget)
    assert "cox_zph" in str(budget) and "scores by interval" in str(budget)
    assert (found.privacy.eps, found.privacy.unit) == (1.0, "record")
    with pytest.raises(BudgetError):
        fit.cox_zph(table, eps=4.0, delta=1e-6, budget=budget)


def test_episodes_of_people_are_one_unit():
    whole = cohort(4, n=3000, level=0.1)
    half = whole["time"] / 2
    parts = [whole.assign(s=0.0, t=half, dead=0.0), whole.assign(s=half, t=whole["time"])]
    rows = pd.concat([part.assign(id=np.arange(3000)) for part in parts]).sample(frac=1, random_state=1)
    bounds = {"s": (0, 12), "t": (0, 12), "dead": (0, 1), "x": (0, 1), "w": (-3, 3)}
    with noise_source(ZeroNoise()):
        fit = dp.dp_coxph("Surv(s, t, dead) ~ x + w", rows, eps=200, delta=1e-6, bounds=bounds,
                          unit="id", max_episodes=2)  # fmt: skip
        found = fit.cox_zph(rows, eps=200.0, delta=1e-6)
        one = fitted(whole).cox_zph(whole, eps=200.0, delta=1e-6)
    assert found.privacy.unit == "one person (column id)"
    np.testing.assert_allclose(
        found.by_interval["estimate"], one.by_interval["estimate"], atol=0.04
    )


def test_too_few_events_are_not_determined():
    table = cohort(0, n=300)
    fit = fitted(table, 1.0, seed=1)
    with pytest.warns(UtilityWarning, match="only strong departures"):
        found = fit.cox_zph(table, eps=0.1, delta=1e-6, seed=1)
    assert found.tests["p_value"].isna().all() and "n/d" in str(found)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"transform": "km"}, "rank"), ({"intervals": 1}, "from 2 to 20"), ({"delta": 0}, "delta > 0"),
     ({"units": 5}, "unit=")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_before_the_charge(given, said):
    table = cohort(0, n=500)
    fit, budget = fitted(table, 1.0, seed=1), dp.Budget(eps=3, delta=1e-5)
    with pytest.raises(RequestError, match=said):
        fit.cox_zph(table, **{"eps": 1.0, "delta": 1e-6, "budget": budget, **given})
    with pytest.raises(RequestError, match="no column 'w'"):
        fit.cox_zph(table.drop(columns="w"), eps=1.0, delta=1e-6, budget=budget)
    assert "cox_zph" not in str(budget)
