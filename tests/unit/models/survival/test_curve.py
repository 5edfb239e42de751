"""Curves and log-rank tests on cells without noise, against their references."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.formula.design import Survival
from dpmodels.models.survival import table as layouts
from dpmodels.models.survival.curve import Curve, band, covariance_of, curves, level_at, logrank
from dpmodels.models.survival.table import CellNoise, Layout
from tests.unit.models.survival.test_counts import found

QUIET = 1e-9


def cells_of(time, event, group=None, start=None, *, edges, groups=("",), stratas=("",)):
    """Curves of a table without noise."""
    m = len(time)
    group = np.zeros(m) if group is None else group
    rows = [time, event, group]
    where = Survival(time=0, event=1, group=2, groups=groups)
    if start is not None:
        rows = [start, *rows]
        where = Survival(time=1, event=2, start=0, group=3, groups=groups)
    lay = Layout(tuple(edges), groups, entries=start is not None)
    exact = found(np.array(rows, dtype=float), lay, where, people=False).astype(float)
    if lay.entries:
        exact /= 2.0**20
    noise = CellNoise(lay, QUIET)
    if stratas != ("",):
        lay = Layout(tuple(edges), groups[: len(groups) // len(stratas)], stratas)
        noise = CellNoise(lay, QUIET)
    return lay, curves(lay, noise, noise.fit(exact, m))


def kaplan_meier(time, event, at, start=None):
    """(S, Greenwood's variance of log S) at times, of single rows; for delayed entry too."""
    start = np.zeros(len(time)) if start is None else start
    log_S, G = np.zeros(len(at)), np.zeros(len(at))
    for t in np.unique(time[event == 1]):
        risk = ((start < t) & (time >= t)).sum()
        d = ((time == t) & (event == 1)).sum()
        log_S[at >= t] += math.log1p(-d / risk)
        G[at >= t] += d / (risk * (risk - d))
    return np.exp(log_S), G


def cohort(rng, m):
    dies, leaves = 8.0 * rng.exponential(size=m) ** (1 / 1.3), rng.uniform(2, 16, m)
    end = np.minimum(np.minimum(dies, leaves), 12.0)
    return end, ((dies <= leaves) & (dies <= 12.0)).astype(float)


# -- Rossi -----------------------------------------------------------------------------------------


@pytest.fixture
def rossi():
    data = pytest.importorskip("lifelines.datasets").load_rossi()
    return data["week"].to_numpy(float), data["arrest"].to_numpy(float), data["fin"].to_numpy()


def test_rossi(rossi):
    week, arrest, fin = rossi
    edges = np.linspace(0, 52, 14)
    (curve,) = cells_of(week, arrest, edges=edges)[1]
    np.testing.assert_allclose(curve.S[-3:], [0.784722, 0.763889, 0.736111], atol=5e-7)
    assert math.sqrt(curve.greenwood[-1]) == pytest.approx(0.028807, abs=5e-7)
    lay, both = cells_of(week, arrest, fin, edges=edges, groups=("0", "1"))
    test = logrank(lay, both)
    assert test.U[1] == pytest.approx(-10.306163, abs=5e-5)  # of weeks: 4 of them a cell here
    assert test.V[1, 1] == pytest.approx(27.826935, abs=5e-5)
    assert test.statistic == pytest.approx(3.817057, abs=2e-5)


def test_rossi_ends_too_low_if_beyond_were_mid_interval(rossi, monkeypatch):
    week, arrest, _ = rossi
    right = Layout.last_run

    def mid(self, time, event):
        found = right(self, time, event)
        return np.where(found < 0, 2 * self.K - 1, found)  # censored within the last interval

    monkeypatch.setattr(layouts.Layout, "last_run", mid)
    (curve,) = cells_of(week, arrest, edges=np.linspace(0, 52, 14))[1]
    assert curve.S[-1] == pytest.approx(0.7103, abs=5e-5)


# -- curves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "most"), [(16, 0.2), (64, 0.1), (256, 0.05)])
def test_a_table_is_near_the_exact_curve(K, most):
    """Seed 1, 8000 rows; over the standard error of the curve."""
    end, event = cohort(np.random.default_rng(1), 8000)
    edges = np.linspace(0, 12, K + 1)
    (curve,) = cells_of(end, event, edges=edges)[1]
    S, G = kaplan_meier(end, event, edges[1:])
    assert np.max(np.abs(curve.S - S) / (S * np.sqrt(G))) < most
    np.testing.assert_allclose(curve.greenwood[K // 4 :], G[K // 4 :], rtol=0.03)


def test_delayed_entry_is_near_the_exact_curve():
    """Seed 2, 8000 rows that enter in the first half; those that ended before are not seen."""
    rng = np.random.default_rng(2)
    end, event = cohort(rng, 8000)
    start = np.where(rng.random(8000) < 0.4, 0.0, rng.uniform(0, 6, 8000))
    seen = start < end
    end, event, start = end[seen], event[seen], start[seen]
    edges = np.linspace(0, 12, 33)
    (curve,) = cells_of(end, event, start=start, edges=edges)[1]
    S, G = kaplan_meier(end, event, edges[1:], start)
    assert np.max(np.abs(curve.S - S) / (S * np.sqrt(G))) < 0.2
    naive, _ = kaplan_meier(end, event, edges[1:])
    assert np.max(np.abs(naive - S) / (S * np.sqrt(G))) > 2.0


@pytest.mark.parametrize("K", [12, 48], ids=["cells", "tree"])
@pytest.mark.parametrize("late", [False, True], ids=["from the first", "delayed entry"])
def test_times_on_the_breaks_are_those_of_kaplan_and_meier(K, late):
    """Whole years and breaks on them: no approximation is left, in curve, errors and test."""
    rng = np.random.default_rng(11)
    m = 4000
    dies, leaves = np.ceil(rng.exponential(9, m)), np.floor(rng.uniform(0, 1.2 * K, m))
    end, event = np.minimum(np.minimum(dies, leaves), K), (dies <= np.minimum(leaves, K)) * 1.0
    start = np.floor(rng.uniform(0, 5, m)) if late else None
    arm = rng.integers(0, 2, m)
    if late:
        seen = start < end
        end, event, start, arm = end[seen], event[seen], start[seen], arm[seen]
    edges = np.arange(K + 1.0)
    (curve,) = cells_of(end, event, start=start, edges=edges)[1]
    S, G = kaplan_meier(end, event, edges[1:], start)
    k = curve.intervals_known
    assert k > 10
    np.testing.assert_allclose(curve.S[:k], S[:k], rtol=1e-9)
    np.testing.assert_allclose(curve.greenwood[:k], G[:k], rtol=1e-7)
    at = np.zeros(len(end)) if start is None else start
    risk = [(at <= t) & (end > t) for t in edges[:-1]]
    np.testing.assert_allclose(curve.entering[:-1], np.sum(risk, axis=1), atol=1e-5)
    lay, both = cells_of(end, event, arm, start=start, edges=edges, groups=("0", "1"))
    observed = expected = V = 0.0
    for t in edges[1:]:
        here = (at < t) & (end >= t)
        died, n1, n = here & (end == t) & (event == 1), (here & (arm == 1)).sum(), here.sum()
        if n > 1 and n1 > 0:
            observed += died[arm == 1].sum()
            expected += died.sum() * n1 / n
            V += died.sum() * n1 / n * (1 - n1 / n) * (n - died.sum()) / (n - 1)
    test = logrank(lay, both)
    assert test.U[1] == pytest.approx(observed - expected, rel=1e-6)
    assert test.statistic == pytest.approx((observed - expected) ** 2 / V, rel=1e-6)


def test_derivatives_of_log_survival():
    end, event = cohort(np.random.default_rng(3), 900)
    for start in (None, np.random.default_rng(4).uniform(0, 1, 900) * np.minimum(end, 6)):
        lay, (curve,) = cells_of(end, event, start=start, edges=np.linspace(0, 10, 6))
        step = 1e-4
        for j in range(lay.M):
            moved = []
            for sign in (-1.0, 1.0):
                cells = curve.cells.copy()
                cells[j] += sign * step
                moved.append(Curve(lay, curve.noise, cells, 0).log_S)
            np.testing.assert_allclose(
                curve.J[:, j], (moved[1] - moved[0]) / (2 * step), atol=1e-7
            )


@pytest.mark.parametrize(
    "lay",
    [
        Layout(tuple(range(6)), ("a", "b")),
        Layout(tuple(range(38)), ("a", "b")),
        Layout(tuple(range(6)), ("a", "b"), entries=True),
        Layout(tuple(range(38)), entries=True),
    ],
)
def test_least_squares_and_its_covariance(lay):
    """Against dense algebra: generalised least squares of nodes under the public totals."""
    noise = CellNoise(lay, 2.0)
    rng = np.random.default_rng(5)
    rows = []
    for level in range(lay.levels):
        A = np.zeros((lay.sizes[level], lay.M))
        node = lay.node(np.arange(lay.M), level)
        A[node[node >= 0], np.flatnonzero(node >= 0)] = 1.0
        rows.append(A)
    A = np.concatenate(rows)
    C, t = noise.totals, np.zeros(len(noise.totals)) if lay.entries else np.array([100.0])
    y = rng.normal(size=len(A)) * 5
    V = 4.0 * np.linalg.inv(A.T @ A)
    free = np.linalg.solve(A.T @ A, A.T @ y)
    gain = V @ C.T @ np.linalg.inv(C @ V @ C.T)
    np.testing.assert_allclose(noise.fit(y, 100.0), free + gain @ (t - C @ free), atol=1e-9)
    J = rng.normal(size=(3, lay.M))
    np.testing.assert_allclose(noise.covariance(J), J @ (V - gain @ C @ V) @ J.T, atol=1e-8)
    np.testing.assert_allclose(C @ noise.fit(y, 100.0), t, atol=1e-9)


NONE = np.zeros(1)


def test_intervals_of_three_kinds():
    """R: ``survfit(..., conf.type=)`` at S = .8, se(log S) = .05."""
    log_S, V = np.log([0.8]), np.array([0.0025])
    z, S, se = 1.959963984540054, 0.8, 0.05
    low, high = band(log_S, V, NONE, 0.95, "plain")
    np.testing.assert_allclose([low[0], high[0]], [S - z * S * se, S + z * S * se])
    low, high = band(log_S, V, NONE, 0.95, "log")
    np.testing.assert_allclose([low[0], high[0]], [S * np.exp(-z * se), S * np.exp(z * se)])
    low, high = band(log_S, V, NONE, 0.95, "log-log")
    theta, half = np.log(-np.log(S)), z * se / -np.log(S)
    np.testing.assert_allclose([low[0], high[0]], np.exp(-np.exp([theta + half, theta - half])))


@pytest.mark.parametrize("conf_type", ["log-log", "log", "plain"])
def test_noise_alone_is_symmetric_in_its_own_scale(conf_type):
    """And it counts in every kind: sampling and noise of one size are sqrt 2 of either."""
    V = np.array([0.0004])
    for parts in ((NONE, V), (V, V)):
        low, high = band(np.log([0.7]), *parts, 0.95, conf_type)
        size = math.sqrt(sum(p[0] for p in parts))
        assert high[0] - low[0] == pytest.approx(2 * 1.959964 * 0.7 * size, rel=0.01)


def test_where_a_curve_is_not_known_survival_is_below_what_it_was():
    log_S, V = np.log([0.8, 0.7, np.nan]), np.array([0.001, 0.002, np.nan])
    low, high = band(log_S, V, V, 0.95)
    assert low[2] == 0.0
    assert high[2] == high[1] < 1.0


def test_quantiles_and_restricted_means():
    end, event = cohort(np.random.default_rng(6), 5000)
    edges = np.linspace(0, 12, 17)
    (curve,) = cells_of(end, event, edges=edges)[1]
    whole = np.append(1.0, curve.S)
    median = level_at(edges, curve.S, 0.5, curve.layout.periods)
    assert np.interp(median, edges, whole) == pytest.approx(0.5, abs=1e-12)
    assert level_at(edges, curve.S, 0.01, curve.layout.periods) == math.inf
    for tau in (12.0, 5.3, 0.4):
        t = np.union1d(edges[edges < tau], [tau])
        S = np.interp(t, edges, whole)
        area = np.sum(np.diff(t) * (S[1:] + S[:-1]) / 2)  # np.trapezoid is of numpy 2
        assert curve.value(curve.up_to(tau)) == pytest.approx(area, rel=1e-6)


def test_errors_of_restricted_means():
    """The variance of an area: seed 7, 300 cohorts; a ratio of sds beyond .12 has p < .004."""
    rng = np.random.default_rng(7)
    edges, found, said = np.linspace(0, 12, 17), [], []
    for _ in range(300):
        (curve,) = cells_of(*cohort(rng, 400), edges=edges)[1]
        w = curve.up_to(10.0)
        found.append(curve.value(w))
        said.append(covariance_of([(curve, w)])[0])
    assert abs(np.std(found) / math.sqrt(np.mean(said)) - 1.0) < 0.12


# -- log-rank --------------------------------------------------------------------------------------


@pytest.mark.parametrize("G", [2, 4])
@pytest.mark.parametrize("strata", [1, 3])
def test_log_rank_against_statsmodels(G, strata):
    """Events at breaks, all others followed to the end: a table loses nothing then."""
    survdiff = pytest.importorskip("statsmodels.duration.survfunc").survdiff
    rng = np.random.default_rng(8)
    group, stratum = rng.integers(0, G, 1500), rng.integers(0, strata, 1500)
    time = np.ceil(rng.exponential(9.0 + group + 3 * stratum))
    event = (time <= 12).astype(float)
    time = np.minimum(time, 12.0)
    groups = tuple(str(j) for j in range(G * strata))
    stratas = tuple(str(j) for j in range(strata))
    lay, found = cells_of(
        time, event, stratum * G + group, edges=range(13), groups=groups,
        stratas=stratas if strata > 1 else ("",),
    )  # fmt: skip
    test = logrank(lay, found)
    want = survdiff(time, event, group, strata=stratum if strata > 1 else None)
    assert test.statistic == pytest.approx(want[0], rel=1e-6)
    assert test.p_value == pytest.approx(want[1], rel=1e-5)
    assert test.df == G - 1


def test_the_noise_is_in_the_variance_of_the_test():
    rng = np.random.default_rng(10)
    end, event = cohort(rng, 2000)
    lay, found = cells_of(
        end, event, rng.integers(0, 2, 2000), edges=np.linspace(0, 12, 9), groups=("a", "b")
    )
    quiet = logrank(lay, found)
    loud = logrank(lay, curves(lay, CellNoise(lay, 5.0), found[0].cells))
    assert loud.W[0, 0] > 0.1 * loud.V[0, 0]
    assert loud.statistic == pytest.approx(loud.U[0] ** 2 / (loud.V[0, 0] + loud.W[0, 0]))
    assert loud.statistic < quiet.statistic == pytest.approx(quiet.U[0] ** 2 / quiet.V[0, 0])


def test_slopes_of_the_log_rank_noise():
    """W is the covariance of noise alone: seed 9, 2000 draws; 15 % off has p < 1e-5."""
    rng = np.random.default_rng(9)
    end, event = cohort(rng, 4000)
    group = rng.integers(0, 3, 4000)
    lay, found = cells_of(end, event, group, edges=np.linspace(0, 12, 9), groups=("a", "b", "c"))
    noise = CellNoise(lay, 3.0)
    drawn = []
    for _ in range(2000):
        cells = noise.fit(found[0].cells + 3.0 * rng.normal(size=lay.M), 4000)
        drawn.append(logrank(lay, curves(lay, noise, cells)).U)
    W = logrank(lay, curves(lay, noise, found[0].cells)).W
    np.testing.assert_allclose(np.diag(np.cov(np.array(drawn).T)), np.diag(W), rtol=0.15)


def test_a_time_within_rounding_of_a_break_is_at_the_break():
    """``k * .1`` is .1, .2, .30000000000000004 ...: its events were in the interval after."""
    edges = np.linspace(0, 1, 11)
    lay = Layout(tuple(edges), entries=True)
    k = np.arange(1, 11)
    for times in (edges[1:], k * 0.1, edges[1:] * (1 + 2e-16), edges[1:] * (1 - 2e-16)):
        assert lay.last_run(times, np.ones(10)).tolist() == list(range(10))
        inside = lay.last_run(times, np.zeros(10)).tolist()
        assert inside == [*(2 * lay.K + k[:-1]), -1]  # censored at the first break of the next
        assert lay.entered(times).tolist() == [*(4 * lay.K + k[:-1]), -1]
    between = (edges[1:] + edges[:-1]) / 2
    assert lay.last_run(between, np.zeros(10)).tolist() == list(range(lay.K, 2 * lay.K))
    _, (curve,) = cells_of(k * 0.1, np.ones(10), edges=edges)
    for t in k * 0.1:
        assert (curve.at(t) == curve.at(t, after=True)).all()


@pytest.mark.parametrize(("late", "first"), [(0.03, 0.0), (0.03, 0.5), (0.06, 0.0), (0.5, 0.5)])
def test_the_error_of_a_curve_holds_where_entries_are_in_their_interval(late, first):
    """Of whom all entered early in the first of 16 intervals S was .881 +- .003 for .922."""
    rng, n, edges = np.random.default_rng(1), 4000, np.linspace(0, 1, 17)
    start = np.where(rng.random(n) < first, 0.0, rng.uniform(0, late, n))
    death, leaves = start + rng.exponential(0.8, n), rng.uniform(0.6, 1.0, n)
    time, event = np.minimum(death, leaves), (death <= leaves) * 1.0
    _, (curve,) = cells_of(time, event, None, start, edges=edges)
    exact, _ = kaplan_meier(time, event, edges[1:9], start)
    away = np.abs(np.log(curve.S[:8] / exact)) / np.sqrt(curve.variance[:8])
    assert away.max() < 1.5
    if (late, first) == (0.5, 0.5):  # many intervals, few entries in each: little is added
        assert curve.variance[7] < 4 * np.sum(curve.d[:8] / curve.Y[:8] ** 2)


@pytest.mark.parametrize("unit", [{}, {"unit": "id", "max_episodes": 1}])
def test_a_note_says_where_an_early_error_is_a_bound(quiet, unit):
    """Entries within the first year: early errors are twice Greenwood's, the last ones are not."""
    rng = np.random.default_rng(3)
    start = rng.uniform(0.0, 1.0, 400)
    stop = start + rng.uniform(0.0, 20.0, 400)
    d = pd.DataFrame({"id": np.arange(400), "a": start, "b": np.minimum(stop, 12.0)})
    d["e"] = (stop <= 12.0).astype(int)
    call = {"eps": 1000, "delta": 1e-6, "bounds": {"a": (0, 12), "b": (0, 12), "e": (0, 1)},
            "seed": 1}  # fmt: skip
    fit = dp.dp_survfit("Surv(a, b, e) ~ 1", d, **call, **unit)
    assert any("is a bound" in note for note in fit.notes)
    d["a"] = 0.0
    whole = dp.dp_survfit("Surv(a, b, e) ~ 1", d, **call, **unit)
    assert not any("is a bound" in note for note in whole.notes)
