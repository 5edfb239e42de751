"""Exact tests of what the replay of sensitivities cannot see: thresholds, failures, own proofs."""

import itertools
import math
import sqlite3

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

import dpmodels as dp
from dpmodels.errors import PrivacyBugError
from dpmodels.formula.schema import Schema
from dpmodels.models.objpert import COEF_STEP, INEXACT_STEP
from dpmodels.own.proposed import PtrMeanDetail, sensitivity
from dpmodels.privacy import ledger_file as sqlite_store
from dpmodels.privacy.account import Account, entries_of
from dpmodels.privacy.composition import Guarantee, delta_of_parts
from dpmodels.privacy.mechanisms import (
    Approximate,
    Gaussian,
    Profile,
    Pure,
    Step,
    delta_gdp,
    gaussian_form,
    gaussian_replace,
)
from dpmodels.privacy.run import Run
from dpmodels.ranges import plan_purchase, threshold
from dpmodels.variables import Levels, Real
from tests.replaying import replay_stage

# -- bought ranges -------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [("a",), ("a", "b", "c")])
def test_a_bin_of_one_row_is_kept_with_the_probability_that_is_charged(columns):
    mu, delta = 0.7, 1e-6
    purchase, steps = plan_purchase(columns, mu, delta)
    sd, tau = threshold(purchase)
    each = math.sqrt(sum(s.mechanism.mu**2 for s in steps) / len(steps))
    # what the run adds: sensitivity sqrt 2 over the mu of the step
    assert sd == pytest.approx(math.sqrt(2.0) / each, rel=1e-12)
    kept = norm.sf((tau - 1.0) / sd)
    assert 0.99 * delta / len(steps) <= kept <= delta / len(steps)
    assert [s.failure for s in steps] == pytest.approx([delta / len(steps)] * len(steps))
    assert math.fsum(s.mechanism.mu**2 for s in steps) == pytest.approx(mu**2, rel=1e-12)


def test_the_histogram_draws_the_noise_that_the_threshold_is_made_for():
    from dpmodels.audit.queries import Kept
    from dpmodels.privacy.run import Run
    from dpmodels.sums.ask import Ask

    class Widths(Run):
        asked = None

        def gaussian(self, name, value, sensitivity, **how):
            self.asked = sensitivity
            return np.asarray(value, dtype=float)

    run = Widths((Step("scale of a", Gaussian(1e9), failure=0.5),), None)
    kept = Ask(np.array([3, 3, 4]), run).bins("scale of a", Kept(), lambda bins: bins, 1.5)
    assert run.asked == math.sqrt(2.0) and kept == ([3], [2.0])


# -- conversions and composition -----------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("failure", [1e-12, 1e-6, 0.01])
def test_failure_of_a_replacement(mu, failure):
    twice, lost = gaussian_replace(mu, failure)
    assert twice == 2 * mu
    assert lost == pytest.approx(failure + norm.cdf(norm.ppf(failure) + mu), rel=1e-11)
    # an attacker who is told outright with that probability, and the Gaussian pair besides
    assert gaussian_replace(mu, 0.0) == (2 * mu, 0.0)


def test_gaussian_form_adds_every_failure():
    from dpmodels.privacy.mechanisms import mu_of_pure

    steps = (
        Step("g", Gaussian(0.5), failure=1e-7),
        Step("p", Pure(0.3), failure=3e-7),
        Step("a", Approximate(0.2, 5e-7), failure=1e-8),
    )
    mu, failure = gaussian_form(steps)
    assert failure == pytest.approx(1e-7 + 3e-7 + 5e-7 + 1e-8, rel=1e-14)
    assert mu == pytest.approx(math.sqrt(0.25 + mu_of_pure(0.3) ** 2 + mu_of_pure(0.2) ** 2))


def test_thirteen_pure_steps_against_all_atoms():
    """2^13 atoms of randomised response, summed exactly: the composition may not be below."""
    parts = [0.05 + 0.013 * k for k in range(13)]
    steps = [Step(f"s{k}", Pure(e)) for k, e in enumerate(parts)]
    signs = np.array(list(itertools.product([-1, 1], repeat=13)))
    loss = signs @ np.array(parts)
    p = np.ones(len(signs))
    for k, e in enumerate(parts):
        p *= np.where(signs[:, k] > 0, math.exp(e), 1.0) / (1.0 + math.exp(e))
    for eps in (0.0, 0.2, 0.7, 1.3, sum(parts)):
        exact = math.fsum(np.maximum(p * -np.expm1(np.minimum(eps - loss, 0.0)), 0.0).tolist())
        found = delta_of_parts(steps, eps)
        assert exact - 1e-15 <= found <= exact + 2e-4, eps  # the grid of losses rounds up


def test_failures_are_charged_and_kept_in_memory_and_file(tmp_path):
    steps = (Step("g", Gaussian(0.1), failure=2e-7), Step("h", Gaussian(0.1), failure=3e-7))
    claim = Guarantee(steps, 1.0, 1e-6)
    assert entries_of(claim, "replace", "record")[0].failure == pytest.approx(5e-7, rel=1e-12)
    for budget in (
        dp.Budget(2.0, 1e-5),
        dp.Budget.open(tmp_path / "x.ledger", eps=2.0, delta=1e-5),
    ):
        budget.charge("one", claim)
        budget.charge("two", claim)
        kept = budget.charges[0].guarantee.steps
        assert [s.failure for s in kept] == [2e-7, 3e-7]
        assert budget.account.spent[2] == pytest.approx(1e-6, rel=1e-12)
    again = dp.Budget.open(tmp_path / "x.ledger")
    assert again.account.spent[2] == pytest.approx(1e-6, rel=1e-12)
    assert [s.failure for s in again.charges[0].guarantee.steps] == [2e-7, 3e-7]


def test_failures_alone_fill_a_budget():
    """Calls of almost no noise budget, each with a failure: their sum may not pass delta."""
    account, spent = Account(1.0, 1e-5), 0.0
    claim = Guarantee((Step("g", Gaussian(1e-3), failure=1e-6),), 0.1, 1.1e-6)
    with pytest.raises(dp.errors.BudgetExceededError):
        for _ in range(20):
            account, entry = account.admit(claim)
            spent += entry.failure
    assert 2e-6 <= spent <= 1e-5


def test_boxes_of_a_mixed_budget_keep_their_promise():
    """D + sum_j dG(eps - E_j; M_j) <= delta, whatever the first call was."""
    for mu, pure, failure in ((0.1, 0.0, 0.0), (0.5, 0.0, 1e-7), (0.01, 0.2, 1e-6)):
        steps = [Step("g", Gaussian(mu), failure=failure)]
        steps += [Step("p", Pure(pure))] if pure else []
        account = Account(5.0, 1e-5)
        account, _ = account.admit(Guarantee(tuple(steps), 4.0, 9e-6))
        assert account.rule == "mixed"
        spends = math.fsum(delta_gdp(5.0 - e, m) for m, e, _ in account.boxes if m > 0)
        assert spends + account.boxes[0][2] <= 1e-5 * (1 + 1e-9)


def test_the_ledger_waits_for_the_disk(tmp_path):
    """PRAGMA synchronous is EXTRA (3): the journal's removal has reached the disk at commit."""
    seen = []
    real = sqlite3.connect

    def connect(*args, **kw):
        db = real(*args, **kw)

        class Watched:
            def __getattr__(self, name):
                return getattr(db, name)

            def execute(self, sql, *rest):
                if sql.startswith(("INSERT", "COMMIT")):
                    seen.append(db.execute("PRAGMA synchronous").fetchone()[0])
                return db.execute(sql, *rest)

        return Watched()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_store.sqlite3, "connect", connect)
        budget = dp.Budget.open(tmp_path / "x.ledger", eps=1.0, delta=1e-6)
        budget.charge("one", Guarantee((Step("g", Gaussian(0.1)),), 0.9, 1e-7))
    assert seen and set(seen) == {3}


# -- objective perturbation: the exact curve of one coefficient -----------------------------------

EVENT = Schema(a=Real(-1, 1), y=Levels(["no", "yes"]))


def one_slope(eps=1.0, delta=1e-3, relation="add-remove"):
    return dp.plan(
        "y ~ a - 1", EVENT, n=12, eps=eps, delta=delta, verb="dp_glm", method="objpert",
        rescale=False, inference=False, relation=relation,
    )  # fmt: skip


def density(theta, rows, lam, sigma):
    """Density of the exact minimiser: the tilt is -(gradient), times the Jacobian."""
    gradient, curvature = lam * theta, lam
    for x, y in rows:
        s = expit(theta * x)
        gradient += (s - y) * x
        curvature += s * (1 - s) * x * x
    return norm.pdf(gradient / sigma) / sigma * curvature


def exact_delta(eps, first, second, lam, sigma):
    reach = (len(first) + len(second) + 12 * sigma) / lam

    t = np.linspace(-reach, reach, 20_001)
    a = density(t, first, lam, sigma) - math.exp(eps) * density(t, second, lam, sigma)
    return float(np.maximum(a, 0.0).sum() * (t[1] - t[0]))


def test_the_tilt_of_objective_perturbation_is_wide_enough():
    """The exact delta(eps) of one slope, all pairs of corner tables: at most the claimed profile.

    Half the tilt exceeds it, so the test would notice.
    """
    plan = one_slope()
    detail = plan.detail
    (step,) = [s for s in plan.steps if s.name == COEF_STEP]
    assert isinstance(step.mechanism, Profile)
    B = detail.radius
    tables = [(), ((B, 0.0),) * 3, ((B, 0.0), (-B, 0.0)), ((B, 1.0), (B, 0.0))]
    extra = [(B, 1.0), (B, 0.0), (0.3 * B, 1.0)]
    worst, half = 0.0, 0.0
    for eps in (0.1, 0.5, 1.0):
        claim = step.mechanism.delta_at(eps)
        for table, row in itertools.product(tables, extra):
            for one, two in ((table, (*table, row)), ((*table, row), table)):
                found = exact_delta(eps, one, two, detail.lam, detail.sigma)
                worst = max(worst, found / claim)
                half = max(half, exact_delta(eps, one, two, detail.lam, detail.sigma / 2) / claim)
    assert 0.3 < worst <= 1.0 + 1e-6
    assert half > 1.5


def test_the_stage_adds_the_tilt_that_the_plan_states():
    """At the stage's minimiser the gradient of the data and the planned tilt cancel."""
    plan = one_slope()
    detail = plan.detail
    rng = np.random.default_rng(4)
    a = rng.choice([-1.0, 1.0, 0.4], 12)
    y = np.array(["no", "yes"], dtype=object)[rng.integers(0, 2, 12)]
    for seed in range(4):
        drawn = replay_stage(plan, {"a": a, "y": y}, seed)
        z = float(drawn[COEF_STEP].output[0])
        out = drawn[INEXACT_STEP]
        theta = float(out.value[0]) * (2.0 * detail.tol / detail.lam) * 2.0**-30
        gradient = detail.lam * theta + detail.sigma * z
        gradient += float(((expit(theta * a) - (y == "yes")) * a).sum())
        assert abs(gradient) <= 2.0 * detail.tol + 1e-6
    assert detail.sigma == pytest.approx(detail.radius * detail.loss.score / detail.rho, rel=1e-6)


@pytest.mark.parametrize("cap", [2.0, pytest.param(50.0, marks=pytest.mark.slow)])
def test_curvature_and_reach_of_counts(cap):
    """sup w l'' x^2 over cells is what the plan divides by: attained, never passed."""
    plan = dp.plan(
        "y ~ a", Schema(a=Real(-1, 1), y=dp.Count(int(cap))), n=50, eps=1.0, delta=1e-5,
        verb="dp_glm", family="poisson", method="objpert", inference=False,
    )  # fmt: skip
    detail = plan.detail
    from dpmodels.own.minimum import WorkingRows

    rng = np.random.default_rng(0)
    worst = worst_score = 0.0
    working = WorkingRows(
        np.ones(2), np.zeros(2), detail.radius, detail.reach, y_max=detail.loss.score, thins=True
    )
    for _ in range(300):
        block = np.vstack(
            [rng.normal(size=(2, 40)) * 10.0 ** rng.uniform(-1, 3), rng.uniform(0, cap, 40)]
        )
        X, y, w = working.apply(block)
        theta = rng.normal(size=2) * 10.0 ** rng.uniform(-3, 3)
        _, first, second = detail.loss.terms(theta @ X, y, w)
        length = np.linalg.norm(X, axis=0)
        worst = max(worst, float((second * length**2).max()))
        worst_score = max(worst_score, float((np.abs(first) * length).max()))
    bound = detail.loss.curvature * detail.radius * detail.reach
    assert 0.9 * bound <= worst <= bound
    assert 0.9 * detail.radius * cap <= worst_score <= detail.radius * cap
    assert detail.loss.score == cap


# -- bounds from released numbers ----------------------------------------------------------------


def test_the_lower_bound_of_eptr_fails_with_the_charged_probability():
    """noise below -(noisy - lower) at the eigenvalue: its failure, neither more nor a tenth of it."""
    from tests.privacy.cases.verbs import backend_release

    xy = Schema(a=Real(-1, 1), b=Real(-1, 1), y=Real(-1, 1))
    plan = dp.plan("y ~ a + b", xy, n=400, eps=20.0, delta=1e-5, method="eptr", scoring=False)
    rng = np.random.default_rng(1)
    data = {k: rng.choice([-1.0, 1.0], 400) for k in "aby"}
    from tests.replaying import ReplayRun

    run = ReplayRun(plan.steps, 3)
    done = backend_release(plan, data, run)
    step = "lower bound and test"
    d = run.drawn[step]
    (mu,) = [s.mechanism.mu for s in plan.steps if s.name == step]
    noisy, lower = float(np.ravel(d.output)[0]), float(done.values["lower"])
    tail = norm.sf((noisy - lower) / (d.sensitivity * d.unit / mu))
    (failure,) = [x.failure for x in plan.steps if x.name == step]
    assert failure == pytest.approx(1e-6, rel=1e-9)
    assert 0.99 * failure <= tail <= failure * (1 + 1e-6)


def test_the_classic_mean_has_the_sensitivity_of_its_proof():
    """A box of width 2c moves by at most (4T + 6) c / n a coordinate."""
    for d, slack, c, n in ((1, 3, 0.5, 40), (3, 11, 2.0, 500)):
        detail = PtrMeanDetail(np.full(d, c), slack, 1.0)
        expected = math.sqrt(d) * (4 * slack + 6) * c / n
        assert sensitivity(detail, n) == pytest.approx(expected, rel=1e-5)
        assert sensitivity(detail, n) >= expected
        with pytest.raises(PrivacyBugError, match="in common"):
            sensitivity(detail, 2 * (slack + 1))


def test_the_residual_bound_keeps_its_public_ends():
    """At least Y; under replace-one at most Y + B Y sqrt(n) / (2 sqrt(lam0)); else as released."""
    from dpmodels.own.draws import bounded

    assert bounded(3.0, 1.0, 1.0, 0.0, 100) == 3.0
    assert bounded(0.2, 1.0, 1.0, 0.0, 100) == 1.0
    assert bounded(100.0, 1.0, 1.0, 4.0, 100) == 1.0 + 10.0 / 4.0
    assert bounded(100.0, 1.0, 1.0, 4.0, None) == 100.0


# -- noised tables with scripted draws ------------------------------------------------------------


class Scripted:
    """Noise of given numbers: normals 1, exponentials 4, uniforms .3."""

    private = False

    def normals(self, size):
        return np.ones(size)

    def exponentials(self, size):
        return np.full(size, 4.0)

    def uniforms(self, size):
        return np.linspace(0.0, 1.0, size, endpoint=False)


def noised(mechanism, d=2, n=10, sensitivity=3.0):
    run = Run((Step("t", mechanism),), Scripted())
    values = np.zeros((d, n))
    run.noisy_table(
        "t", values, shape=[1.0, 2.0], sensitivity=sensitivity, lower=np.zeros(d), grid=[1e-12] * d
    )
    return values


def test_noise_of_a_table_is_what_its_curve_is_proved_for():
    """SL: one radius sqrt(Exp) a row, sd sensitivity / c; Laplace: sd sqrt 2 sensitivity / eps."""
    sl = Profile("sl noise", (("c", 1.5), ("p", 0.0)))
    assert noised(sl) == pytest.approx(np.outer([1.0, 2.0], np.full(10, 3.0 / 1.5 * 2.0)))
    laplace = noised(Pure(1.5))
    # Laplace(b) = b sqrt(2 Exp) N(0, 1), b = sensitivity / eps
    assert laplace == pytest.approx(np.outer([1.0, 2.0], np.full(10, math.sqrt(2.0) * 2.0 * 2.0)))
    assert noised(Gaussian(1.5)) == pytest.approx(np.outer([1.0, 2.0], np.full(10, 2.0)))


def test_a_row_stays_clear_with_the_stated_probability():
    clear = noised(Profile("sl noise", (("c", 1.5), ("p", 0.35))))
    assert (clear[0] == 0.0).sum() == 4  # uniforms 0, .1, .2, .3 of ten
    assert (clear[1] == 0.0).sum() == 4
