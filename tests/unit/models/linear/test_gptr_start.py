"""A posterior draw as the start of a fit by scores: what is charged, calibrated, released, said."""

import math

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.models.linear.posterior import DRAW_SHARES
from dpmodels.own.profile import largest_s
from dpmodels.privacy.mechanisms import gaussian_replace, mu_gdp, upper_quantile
from tests.privacy.cases.verbs import backend_release
from tests.replaying import ReplayRun
from tests.unit.models.linear.test_starts import least_squares

pytestmark = pytest.mark.usefixtures("quiet")
CALL = dict(eps=1.0, delta=1e-6, method="gptr")
XY = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-1, 1), y=dp.Real(-4, 4))
ONE_SIDED = ("smallest eigenvalue", "residual bound", "coefficients")


def test_the_default_ends_by_scores(table, bounds):
    frame = table(20_000)
    fit = dp.dp_ols("y ~ a + b", frame, bounds=bounds, seed=3, **CALL)
    assert [s.name for s in fit.privacy.steps][2:7] == [
        "scale matrix", *ONE_SIDED, "residual variance",
    ]  # fmt: skip
    truth = least_squares(frame)
    ends = fit.conf_int(alpha=0.001).to_numpy()
    assert ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all()
    assert fit.pvalues.notna().all()
    draw = fit.arrays["draw"]
    assert draw.shape == (3,) and not np.allclose(draw, fit.params)
    assert np.abs(draw - truth).max() < 1.0
    assert any("one posterior draw" in note for note in fit.notes)
    assert fit.privacy.notes


@pytest.mark.parametrize("eps", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("bought", [True, False])
@pytest.mark.parametrize("options", [{}, {"vcov": "iid"},
    {"split": {"start": 0.3, "first": 0.1, "second": 0.05, "third": 0.05, "last": 0.5}}])  # fmt: skip
def test_the_steps_compose_to_the_request(eps, bought, options):
    """As Gaussian steps, with .3 of delta for the three failures (and a tenth for ranges)."""
    schema = dp.Schema(a=dp.Real(), b=dp.Real(), y=dp.Real()) if bought else XY
    plan = dp.plan("y ~ a + b", schema, n=5000, **{**CALL, "eps": eps}, **options)
    assert plan.guarantee.delta_at(eps) == pytest.approx(0.999e-6, rel=1e-6)
    failures = math.fsum(s.failure for s in plan.steps)
    assert failures == pytest.approx((0.4 if bought else 0.3) * 1e-6, rel=1e-6)
    mu = math.sqrt(math.fsum(s.mechanism.mu**2 for s in plan.steps))
    assert mu == pytest.approx(mu_gdp(eps, 0.999e-6 - failures))
    assert math.fsum(s.share for s in plan.steps) == pytest.approx(1.0)


def run_of(n, eps):
    plan = dp.plan("y ~ a + b", XY, n=n, eps=eps, delta=1e-5, method="gptr")
    rng = np.random.default_rng(2)
    data = {"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n), "y": rng.uniform(-4, 4, n)}
    run = ReplayRun(plan.steps, 4)
    done = backend_release(plan, data, run)
    return plan, done.detail.fits[0].values, run.drawn


@pytest.mark.parametrize(("n", "eps"), [(400, 1.0), (4000, 40.0)])
def test_bounds_and_draw_are_those_of_the_add_remove_run(n, eps):
    """Half of the mu in the ledger for each, and failures that come to .3 delta when doubled."""
    plan, values, drawn = run_of(n, eps)
    mu = {s.name: s.mechanism.mu for s in plan.steps}
    run = math.sqrt(math.fsum(mu[k] ** 2 for k in ONE_SIDED)) / 2.0
    paid = math.fsum(s.failure for s in plan.steps)
    # x of each: their sum x3, paid twice
    low, high = 0.0, paid
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if gaussian_replace(run, middle)[1] < paid else (low, middle)
    x, square = low / 3.0, 1.5 * 3
    eigen = float(np.ravel(drawn["smallest eigenvalue"].output)[0])
    margin = square / (mu["smallest eigenvalue"] / 2.0) * upper_quantile(x)
    assert float(values["lam_min"]) == pytest.approx(max(0.0, eigen - margin), rel=1e-3, abs=1e-9)
    star = float(values["lam_min"] + values["ridge"])
    rho = mu["coefficients"] / 2.0
    gamma = (largest_s(square / star * (1 + 2.0**-20), rho, x) / float(values["rbar"])) ** 2
    assert float(values["noise"]) == pytest.approx(1.0 / math.sqrt(gamma * star), rel=1e-3)
    bound = drawn["residual bound"]
    star0 = star  # the ridge may have been raised after the bound: its lemma is of the first
    assert bound.sensitivity * bound.unit >= -2.0 * math.log1p(-square / star0) * (1 - 1e-6)
    assert math.fsum(DRAW_SHARES.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"scoring": False}, "scoring=False was given"),
        ({"inference": False}, "inference=False asks for no intervals"),
        ({"draws": 3}, "draws= applies to"),
        ({"lam": 5.0}, "lam= applies to"),
        ({"estimator": "score"}, "estimator= applies to"),
        ({"relation": "add-remove"}, "relation='replace'"),
    ],
)
def test_the_draws_alone_are_said(options, why):
    plan = dp.plan("y ~ a + b", XY, n=5000, **CALL, **options)
    assert any("draws alone" in reason and why in reason for reason in plan.reasons)
    assert "start" not in plan.shares
    with pytest.raises(dp.errors.RequestError, match="Leave out vcov="):
        dp.plan("y ~ a + b", XY, n=5000, **CALL, **options, vcov="hetero")


def test_several_draws_print_their_standard_deviation(table, bounds):
    fit = dp.dp_ols("y ~ a + b", table(20_000), bounds=bounds, seed=1, draws=5, **CALL)
    draws = fit.arrays["draws"]
    assert fit.params.to_numpy() == pytest.approx(draws.mean(0))
    (note,) = [n for n in fit.notes if n.startswith("The estimate is the mean of 5 draws")]
    assert f"a {draws.std(0, ddof=1)[1]:.3g}" in note and "no sampling error" in note
    assert fit.bse.isna().all()
