"""Harrell's C of a table by tenths of risk: what it is, and what its errors are."""

import warnings

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.core.rows import Rows
from dpmodels.errors import RequestError
from dpmodels.models.survival.cox import TENTHS, Risk, by_risk, concordance_of
from dpmodels.models.survival.table import CellNoise, Layout

EDGES = tuple(np.linspace(0, 12, 14))
BOUNDS = {"time": (0, 12), "dead": (0, 1), "x": (-3, 3)}


def cohort(rng, n, beta=0.8):
    x = np.clip(rng.normal(size=n), -3, 3)
    dies = rng.exponential(8 * np.exp(-beta * x))
    leaves = rng.uniform(2, 14, n)
    return {
        "time": np.minimum(dies, leaves),
        "dead": (dies <= np.minimum(leaves, 12.0)) * 1.0,
        "x": x,
    }


def table(layout, time, event, risk):
    """The cells of rows, counted one by one."""
    cells = np.zeros(layout.M)
    runs = layout.last_run(Rows(time[None]), Rows(event[None])).numbers[0].astype(int)
    for k, g in zip(runs, risk, strict=True):
        cells[layout.beyond(g) if k < 0 else layout.run(g, 0).start + k] += 1
    return cells


def of_pairs(time, event, risk):
    """Harrell's C, pair by pair."""
    first = (time[:, None] < time[None, :]) & (event[:, None] == 1.0)
    right = (risk[:, None] > risk[None, :]) + 0.5 * (risk[:, None] == risk[None, :])
    return float(np.sum(first * right) / np.sum(first))


@pytest.mark.parametrize("cells, near", [(13, 0.002), (5, 0.008)])
def test_without_noise_it_is_harrells(cells, near):
    """Seed 1, deterministic: of tenths; few cells of time hold many pairs. Of the risk to .02."""
    d = cohort(np.random.default_rng(1), 3000)
    tenth = np.searchsorted(np.quantile(d["x"], np.arange(1, TENTHS) / TENTHS), d["x"])
    layout = by_risk(Layout(tuple(np.linspace(0, 12, cells + 1))))
    found = concordance_of(
        layout, CellNoise(layout, 1e-9), table(layout, d["time"], d["dead"], tenth)
    )
    exact = of_pairs(d["time"], d["dead"], d["x"])
    assert exact > 0.65
    assert found["concordance"] == pytest.approx(of_pairs(d["time"], d["dead"], tenth), abs=near)
    assert found["concordance"] == pytest.approx(exact, abs=0.02)


def test_pairs_are_of_one_stratum():
    """Two strata with opposite order, each by itself: C is the mean, not that of all pairs."""
    layout = by_risk(Layout(EDGES, stratas=("a", "b")))
    cells = np.zeros(layout.M)
    cells[layout.run(TENTHS - 1, 0).start] = 50  # in a the high risk goes first
    cells[layout.beyond(0)] = 50
    cells[layout.run(TENTHS, 0).start] = 50  # in b the low one
    cells[layout.beyond(2 * TENTHS - 1)] = 50
    found = concordance_of(layout, CellNoise(layout, 1e-9), cells)
    assert found["concordance"] == pytest.approx(0.5)


def test_pairs_of_one_cell():
    """50 events of the highest tenth, 50 censorings of the lowest: by half; events: ties."""
    layout = by_risk(Layout(EDGES))
    cells = np.zeros(layout.M)
    cells[layout.run(TENTHS - 1, 0).start] = cells[layout.run(0, 1).start] = 50
    found = concordance_of(layout, CellNoise(layout, 1e-9), cells)
    mixed, events = 50 * 50 / 2, 50 * 49 / 2
    assert found["concordance"] == pytest.approx((mixed + events / 2) / (mixed + events))


def test_errors_are_those_of_tables_and_of_noise():
    """Seed 2, 1500 tables each: a ratio of sds beyond .1 has p < 1e-6."""
    rng = np.random.default_rng(2)
    layout = by_risk(Layout(EDGES))
    p = np.zeros(layout.M)
    for g in range(TENTHS):
        p[layout.run(g, 0)] = 0.04 * (1 + 0.15 * g) * np.exp(-0.05 * np.arange(layout.K))
        p[layout.run(g, 1)], p[layout.beyond(g)] = 0.03, 0.3
    p /= p.sum()
    cells = rng.multinomial(8000, p).astype(float)
    none = concordance_of(layout, CellNoise(layout, 1e-9), cells)
    tables = [
        concordance_of(layout, CellNoise(layout, 1e-9), rng.multinomial(8000, p).astype(float))
        for _ in range(1500)
    ]
    sampled = np.std([t["concordance"] for t in tables])
    assert sampled == pytest.approx(none["concordance_se"], rel=0.1)
    noise = CellNoise(layout, 20.0)
    noisy = [
        concordance_of(layout, noise, noise.fit(cells + rng.normal(0, 20.0, layout.M), 8000.0))
        for _ in range(1500)
    ]
    C = np.array([t["concordance"] for t in noisy])
    said = np.median([t["concordance_noise"] for t in noisy])
    assert C.std() == pytest.approx(said, rel=0.1)
    assert abs(C.mean() - none["concordance"]) < 4 * C.std() / np.sqrt(1500)  # p < 1e-4


def test_noise_alone_determines_nothing():
    layout = by_risk(Layout(EDGES))
    noise = CellNoise(layout, 500.0)
    cells = noise.fit(np.random.default_rng(3).normal(0, 500.0, layout.M), 500.0)
    assert np.isnan(concordance_of(layout, noise, cells)["concordance"])


def test_the_tenth_of_a_row_is_its_own():
    """The same rows in other company and order; a row with a missing cell has none."""
    plan = dp.plan(
        "Surv(time, dead) ~ x", dp.Schema(time=(0, 12), dead=dp.Binary(), x=(-3, 3)), n=100,
        eps=1, delta=1e-6, verb="dp_coxph", concordance=True,
    )  # fmt: skip
    c = plan.detail.coordinates(plan.design)
    risk = Risk(c, np.array([0.4, 0.7]))
    rng = np.random.default_rng(4)
    rows = np.ones((plan.design.q, 50))
    rows[1] = rng.uniform(-3, 3, 50)
    rows[1, 7] = np.nan
    whole = risk(Rows(rows)).numbers[0]
    order = rng.permutation(50)
    np.testing.assert_array_equal(risk(Rows(rows[:, order])).numbers[0], whole[order])
    assert np.isnan(whole[7]) and set(np.delete(whole, 7)) <= set(range(TENTHS))
    assert len(risk.cuts) == TENTHS - 1 and (np.diff(risk.cuts) > 0).all()


def test_it_is_asked_for_and_charged():
    """Seed 5: C of a strong predictor within five errors; its step is in the ledger."""
    d = cohort(np.random.default_rng(5), 20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_coxph("Surv(time, dead) ~ x", d, eps=2, delta=1e-6, bounds=BOUNDS, seed=5,
                          concordance=True)  # fmt: skip
        other = dp.dp_coxph("Surv(time, dead) ~ x", d, eps=2, delta=1e-6, bounds=BOUNDS, seed=5)
    found = fit.concordance().iloc[0]
    some = np.random.default_rng(6).choice(20_000, 3000, replace=False)
    exact = of_pairs(d["time"][some], d["dead"][some], d["x"][some])
    assert abs(found["estimate"] - exact) < 5 * found["std_error"] + 0.02
    assert found["std_error"] < 0.02
    assert 0.2 * found["std_error"] < fit.stats["concordance_noise"] < found["std_error"]
    assert "Concordance" in str(fit.summary())
    steps = {s.name: s for s in fit.privacy.steps}
    assert steps["concordance table"].share == pytest.approx(0.05, rel=1e-3)  # of what the look leaves
    assert fit.privacy.eps == other.privacy.eps
    with pytest.raises(RequestError, match="concordance=True"):
        other.concordance()


def test_entries_are_refused_before_anything_is_read():
    with pytest.raises(RequestError, match="same time 0"):
        dp.plan(
            "Surv(start, time, dead) ~ x",
            dp.Schema(start=(0, 12), time=(0, 12), dead=dp.Binary(), x=(-3, 3)), n=100,
            eps=1, delta=1e-6, verb="dp_coxph", concordance=True,
        )  # fmt: skip
