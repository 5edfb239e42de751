"""Survival that a Cox fit predicts: what its intervals are made of, and what they look like."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models.survival.cox import _poisson, offset_of, residual
from dpmodels.models.survival.table import CellNoise, layout_of
from tests.unit.models.test_expansions_exact import planned

BETA = np.array([0.5, -0.4])
SCHEMA = dp.Schema(t=dp.Real(0, 12), d=dp.Binary(), a=dp.Real(0, 1), b=dp.Real(-3, 3),
                   g=dp.Levels(["k", "l"]))  # fmt: skip
NEW = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, -1.5], "g": ["k", "l"]})


def cohort(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    a, b = (rng.random(n) < 0.4) * 1.0, np.clip(rng.normal(size=n), -3, 3)
    dies = 8.0 * (rng.exponential(size=n) / np.exp(BETA @ [a, b])) ** (1 / 1.3)
    leaves = rng.uniform(2, 12, n)
    g = np.array(["k", "l"])[rng.integers(0, 2, n)]
    return pd.DataFrame({"t": np.minimum(dies, leaves), "d": (dies <= leaves) * 1.0, "a": a, "b": b, "g": g})


def fitted(formula="Surv(t, d) ~ a + b", n=20_000, eps=200.0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_coxph(formula, cohort(n), schema=SCHEMA, eps=eps, delta=1e-6, seed=1, **options)


def test_without_noise_to_speak_of_it_is_that_of_breslow():
    duration = pytest.importorskip("statsmodels.duration.hazard_regression")
    fit, d = fitted(), cohort()
    own = duration.PHReg(d["t"].to_numpy(), d[["a", "b"]].to_numpy(), status=d["d"].to_numpy()).fit()
    ((times, H, _),) = own.baseline_cumulative_hazard
    edges = fit.baseline()["time"].to_numpy()
    at = edges[1::2]  # ends of whole cells
    eta = NEW[["a", "b"]].to_numpy() @ own.params
    expected = np.exp(-np.interp(at, times, H) * np.exp(eta)[:, None])
    found = fit.predict(NEW, what="survival", times=at, interval="confidence")
    S, low, high = (found[c].to_numpy().reshape(2, -1) for c in ("fit", "lwr", "upr"))
    assert np.abs(S - expected)[:, :-1].max() < 0.004  # a sixth of the width of an interval
    assert ((low <= expected) & (expected <= high)).all()  # the last cell holds hardly anybody


def test_intervals_are_rows_of_rows_and_times():
    fit = fitted(eps=5.0)
    whole = fit.predict(NEW, what="survival", times=[0.0, 3.0, 3.7, 12.0], interval="confidence", se_fit=True)
    assert list(whole.columns) == ["time", "fit", "lwr", "upr", "se_fit"]
    assert whole.index.tolist() == [0] * 4 + [1] * 4 and whole["time"].tolist()[:4] == [0.0, 3.0, 3.7, 12.0]
    point = fit.predict(NEW, what="survival", times=[0.0, 3.0, 3.7, 12.0])
    assert np.array_equal(whole["fit"].to_numpy().reshape(2, 4), point.to_numpy())
    later = whole[whole["time"] > 0]
    assert (later["lwr"] < later["fit"]).all() and (later["fit"] < later["upr"]).all()
    assert (whole[whole["time"] == 0][["fit", "lwr", "upr"]] == 1.0).all().all()
    assert ((whole["lwr"] >= 0) & (whole["upr"] <= 1)).all() and (later["se_fit"] > 0).all()
    narrow = fit.predict(NEW, what="survival", times=[3.0], interval="confidence", level=0.5)
    assert (narrow["upr"] - narrow["lwr"]).max() < (later["upr"] - later["lwr"])[later["time"] == 3.0].min()
    assert "lwr" not in fit.predict(NEW, what="survival", times=[3.0], se_fit=True)


def test_strata_have_their_own_and_an_unknown_one_has_none():
    fit = fitted("Surv(t, d) ~ a + b + strata(g)", eps=5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        odd = fit.predict(NEW.assign(g=["k", "?"]), what="survival", times=[3.0, 9.0], interval="confidence")
    own = fit.predict(NEW, what="survival", times=[3.0, 9.0], interval="confidence")
    assert odd[["fit", "lwr", "upr"]].iloc[2:].isna().all().all()
    assert np.array_equal(odd.iloc[:2], own.iloc[:2]) and own.notna().all().all()


def test_a_saved_fit_predicts_the_same(tmp_path):
    fit = fitted(eps=5.0)
    fit.save(tmp_path / "cox.json")
    again = dp.load(tmp_path / "cox.json")
    how = {"what": "survival", "times": [3.0, 8.0], "interval": "confidence"}
    pd.testing.assert_frame_equal(again.predict(NEW, **how), fit.predict(NEW, **how))


# -- the offset -----------------------------------------------------------------------------------
def offset(sd=12.0, n=8000):
    d = cohort(n)
    plan = planned("dp_coxph", "Surv(t, d) ~ a + b", SCHEMA, n)
    options = {**plan.request.options, "breaks": 13}
    layout = layout_of(plan.design, options, opening=False)
    edges = np.array(layout.edges)
    cells = np.zeros(layout.M)
    at = np.clip(np.searchsorted(edges, d["t"], side="left") - 1, 0, layout.K - 1)
    for kind, own in ((0, d["d"] > 0), (1, d["d"] == 0)):
        cells[layout.run(0, kind)] = np.bincount(at[own], minlength=layout.K)
    return layout, cells, CellNoise(layout, sd)


def test_the_time_terms_take_their_part_of_the_errors():
    layout, cells, noise = offset()
    line, events = offset_of(layout, noise, cells)
    (spread,), (factors,) = line.spread, line.factors
    assert events == pytest.approx(cells[layout.run(0, 0)].sum())
    D = cells[layout.run(0, 0)]
    assert np.abs((line.terms[0] * D) @ spread).max() < 1e-9 * D.sum()
    assert np.linalg.eigvalsh(spread).min() > -1e-12
    # hazards of the cells, but for a straight line, a bend and a level of their log
    width = np.diff(line.edges)
    raw = cells[layout.run(0, 0)] / (line.rates[0] * factors * width / np.diff(layout.edges))
    assert np.isfinite(raw).all() and (factors > 0).all()


def test_noise_of_the_table_is_in_the_errors():
    layout, cells, quiet = offset(sd=1e-6)
    mass = np.full((1, 13), 0.05)
    least = residual(offset_of(layout, quiet, cells)[0], mass)
    more = residual(offset_of(layout, CellNoise(layout, 30.0), cells)[0], mass)
    assert (more > 1.2 * least).all() and (least > 0).all()


def test_events_that_are_drawn_again_move_hazards_as_it_says():
    """The part that time terms leave; exposure as it was but for who is left. Within a fifth."""
    layout, cells, quiet = offset(sd=1e-6)
    line, _ = offset_of(layout, quiet, cells)
    D, Z = cells[layout.run(0, 0)], line.terms[0].T
    rest = np.eye(13) - Z @ np.linalg.solve(Z.T @ (D[:, None] * Z), Z.T * D)
    rng, found = np.random.default_rng(0), []
    for _ in range(600):
        drawn = cells.copy()
        drawn[layout.run(0, 0)] = rng.poisson(cells[layout.run(0, 0)])
        drawn[layout.run(0, 1)] += cells[layout.run(0, 0)] - drawn[layout.run(0, 0)]
        own, _ = offset_of(layout, quiet, drawn)
        found.append(rest @ np.log(own.rates[0] * own.factors[0]))
    told, seen = (np.diag(V) for V in (line.spread[0], np.cov(np.transpose(found))))
    np.testing.assert_allclose(np.sqrt(seen / told), 1.0, atol=0.2)


def test_a_root_of_three_terms():
    rng = np.random.default_rng(1)
    Z = np.stack([np.ones(26), np.linspace(-1, 1, 26), np.linspace(-1, 1, 26) ** 2], axis=1)
    expected = rng.uniform(50, 200, 26)
    events = expected * np.exp(Z @ [0.3, -0.8, 0.5])
    np.testing.assert_allclose(_poisson(events, expected, Z), [0.3, -0.8, 0.5], atol=1e-9)
    assert np.isfinite(_poisson(np.zeros(26), expected, Z)).all()
