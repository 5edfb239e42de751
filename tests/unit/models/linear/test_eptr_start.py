"""ePTR as the start of a fit by scores: what is charged, bounded, released and said."""

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models.linear.eptr import START_SHARES
from dpmodels.models.linear.opening import above_noise, scale_room
from dpmodels.privacy.mechanisms import mu_gdp, upper_quantile
from dpmodels.proof.sets import ls_bound
from tests.privacy.cases.verbs import backend_release
from tests.replaying import ReplayRun
from tests.unit.models.linear.test_starts import least_squares

CALL = dict(eps=1.0, delta=1e-6, method="eptr")
XY = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-1, 1), y=dp.Real(-4, 4))


def test_the_default_ends_by_scores(quiet, table, bounds):
    frame = table(20_000)
    fit = dp.dp_ols("y ~ a + b", frame, bounds=bounds, seed=3, **CALL)
    assert [s.name for s in fit.privacy.steps][2:6] == [
        "scale matrix", "lower bound", "coefficients", "residual variance",
    ]  # fmt: skip
    assert fit.privacy.steps[-1].name == "score lengths 4"
    ends = fit.conf_int(alpha=0.001).to_numpy()
    truth = least_squares(frame)
    assert ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all()
    assert fit.pvalues.notna().all()
    assert any("initial fit has the coefficients of ePTR" in note for note in fit.notes)
    assert fit.stats["ridge"] >= 0.0


@pytest.mark.parametrize("eps", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("bought", [True, False])
@pytest.mark.parametrize("options", [{}, {"vcov": "iid"}, {"bounds_share": 0.3},
    {"split": {"start": 0.3, "first": 0.1, "second": 0.05, "third": 0.05, "last": 0.5}}])  # fmt: skip
def test_the_steps_compose_to_the_request(eps, bought, options):
    """Under Gaussian accounting, with a tenth of delta for the bound (and a tenth for ranges)."""
    schema = dp.Schema(a=dp.Real(), b=dp.Real(), y=dp.Real()) if bought else XY
    plan = dp.plan("y ~ a + b", schema, n=5000, **{**CALL, "eps": eps}, **options)
    assert plan.guarantee.delta_at(eps) == pytest.approx(0.999e-6, rel=1e-6)
    failures = math.fsum(s.failure for s in plan.steps)
    assert failures == pytest.approx((0.2 if bought else 0.1) * 1e-6)
    (bound,) = [s for s in plan.steps if s.name == "lower bound"]
    assert bound.failure == pytest.approx(1e-7) and not bound.reply_test
    mu = math.sqrt(math.fsum(s.mechanism.mu**2 for s in plan.steps))
    assert mu == pytest.approx(mu_gdp(eps, 0.999e-6 - failures))
    assert math.fsum(plan.shares.values()) == pytest.approx(1.0)
    assert math.fsum(s.share for s in plan.steps) == pytest.approx(1.0)


@pytest.mark.parametrize("high", [False, True])
def test_bound_and_noise_are_those_of_the_claim(high):
    """l lies z sds below; the noise is B(R)/max(l - R^2, .3 n)/mu, with the ridge it says."""
    n, eps = (3000, 400.0) if high else (400, 1.0)
    plan = dp.plan("y ~ a + b", XY, n=n, eps=eps, delta=1e-5, method="eptr")
    rng = np.random.default_rng(2)
    data = {"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n), "y": rng.uniform(-4, 4, n)}
    run = ReplayRun(plan.steps, 4)
    done = backend_release(plan, data, run)
    fit, draws = done.detail.fits[0], run.drawn
    r, values = 3, done.detail.fits[0].values
    room = float(values["lower"]) - 1.5 * r
    assert float(values["ridge"]) == pytest.approx(max(0.0, 0.3 * n - room), rel=1e-5)
    assert (float(values["ridge"]) == 0.0) == high
    ry = math.sqrt(draws["residual variance"].unit * 2.0**30)
    safe = max(room, 0.3 * n)
    radius = min(ry, ry * math.sqrt(n / safe))
    h = ls_bound(math.sqrt(1.5 * r), ry, radius) / safe
    one = draws["coefficients"]
    assert one.sensitivity * one.unit == pytest.approx(h, rel=1e-4)
    start = {s.name: s.mechanism.mu for s in plan.steps}
    assert float(values["noise"]) == pytest.approx(h / start["coefficients"], rel=1e-4)
    drawn = float(np.ravel(draws["lower bound"].output)[0])
    margin = 1.5 * r / start["lower bound"] * upper_quantile(1e-6)
    assert drawn - float(values["lower"]) == pytest.approx(margin, rel=1e-3)
    assert len(fit.state.theta) == r


def test_only_ranges_can_have_no_reply(quiet, table):
    fit = dp.dp_ols("y ~ a + b", table(60), seed=1, **CALL)
    assert not fit.released
    assert fit.params.isna().all()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"scoring": False}, "scoring=False was given"),
        ({"inference": False}, "inference=False asks for no intervals"),
        ({"on_fail": "ridge"}, "on_fail= applies to"),
        ({"whiten": True}, "whiten= applies to"),
        ({"c0": 0.2}, "c0= applies to"),
        ({"split": {"scale": 0.2, "bound": 0.2, "coef": 0.5, "variance": 0.1}}, "split= names"),
    ],
)
def test_the_release_by_itself_is_said(options, why):
    plan = dp.plan("y ~ a + b", XY, n=5000, **CALL, **options)
    assert any(f"ePTR alone: {why}" in reason for reason in plan.reasons)
    assert "start" not in plan.shares


def test_the_release_by_itself_tests_nothing(quiet, table, bounds):
    fit = dp.dp_ols("y ~ a + b", table(20_000), bounds=bounds, seed=3, scoring=False, **CALL)
    assert fit.pvalues.isna().all() and fit.bse.notna().all()
    assert "n/d" in str(fit.summary())
    assert any(note.startswith("Not tested: these errors do not hold") for note in fit.notes)


def test_add_remove_has_no_proof():
    with pytest.raises(dp.errors.RequestError, match="replace"):
        dp.plan("y ~ a + b", XY, n=5000, relation="add-remove", **CALL)


def test_weights_are_those_of_weighted_least_squares(noiseless, table, bounds):
    frame = table(40_000)
    frame["w"] = np.where(frame["a"] > 0, 4.0, 1.0)
    fit = dp.dp_ols("y ~ a + b", frame, bounds={**bounds, "w": (0, 4)}, weights="w", **CALL)
    X = np.column_stack([np.ones(40_000), frame[["a", "b"]]])
    r = np.sqrt(frame["w"].to_numpy())
    wls = np.linalg.lstsq(X * r[:, None], frame["y"] * r, rcond=None)[0]
    assert fit.params.to_numpy() == pytest.approx(wls, abs=0.01)


def test_a_start_that_reads_some_rows_by_coins(quiet, table, bounds):
    """At so large an eps one row in several tells the start; the passes put it right."""
    call = {**CALL, "eps": 60.0}
    frame = table(120_000)
    plan = dp.plan("y ~ a + b", XY, n=120_000, **call)
    assert plan.detail.pilot.first > 1
    fit = dp.dp_ols("y ~ a + b", frame, bounds=bounds, seed=2, **call)
    assert fit.params.to_numpy() == pytest.approx(least_squares(frame), abs=0.02)


def test_many_columns_and_levels(quiet, table):
    frame = table(30_000, sd=0.2)
    frame["g"] = np.array(["u", "v", "w"])[np.arange(30_000) % 3]
    frame["y"] += np.where(frame["g"] == "v", 0.5 * frame["a"], 0.0)
    schema = dp.Schema(
        a=dp.Real(-3, 3), b=dp.Real(-3, 3), y=dp.Real(-5, 5), g=dp.Levels(["u", "v", "w"])
    )
    fit = dp.dp_ols("y ~ a * g + b", frame, schema=schema, seed=1, **{**CALL, "eps": 4.0})
    assert fit.params["a:g[T.v]"] == pytest.approx(0.5, abs=0.1)
    assert fit.bse.notna().all()


def test_the_shrinking_takes_what_noise_explains():
    assert above_noise(np.array([3.0, 4.0]), 1.0) == pytest.approx(np.array([3.0, 4.0]) * 23 / 25)
    assert above_noise(np.array([0.3, 0.4]), 1.0) == pytest.approx([0.0, 0.0])
    assert above_noise(np.zeros(2), 1.0) == pytest.approx([0.0, 0.0])
    assert scale_room(1e-9, 3, 100) == 1.0 and scale_room(10.0, 3, 10**6) == 4.0
    assert sum(START_SHARES.values()) == pytest.approx(1.0)


@pytest.mark.slow
def test_intervals_cover_where_the_model_is_wrong(quiet):
    """A curved mean and unequal variances, 80 tables of 5 000 rows, two slopes.

    Seeds are fixed. False alarm below 1e-4: 160 intervals that cover .95, less than .86 of them.
    The release by itself covers .3 of them.
    """
    hits, errors = [], []
    truth = None
    for seed in range(80):
        rng = np.random.default_rng(seed)
        n = 5000 if truth is not None else 400_000
        x, z = rng.gamma(2.0, 1.0, n), rng.uniform(-1, 1, n)
        y = np.log1p(x) + 0.3 * z + (0.3 + 0.2 * x) * rng.normal(size=n)
        frame = pd.DataFrame({"x": x, "z": z, "y": y})
        if truth is None:
            X = np.column_stack([np.ones(n), x, z])
            truth = np.linalg.lstsq(X, y, rcond=None)[0]
            continue
        ends = {"x": (0, 10), "z": (-1, 1), "y": (-5, 8)}
        fit = dp.dp_ols("y ~ x + z", frame, bounds=ends, seed=seed, **CALL)
        found = fit.conf_int().to_numpy()[1:]
        hits += ((found[:, 0] <= truth[1:]) & (truth[1:] <= found[:, 1])).tolist()
        errors.append(fit.params.to_numpy()[1:] - truth[1:])
    assert np.mean(hits) >= 0.86
    assert np.sqrt(np.mean(np.square(errors))) < 0.08
