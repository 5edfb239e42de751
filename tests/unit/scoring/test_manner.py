"""Rules that differ between kinds of models, recomputed from the theory note (3 and 4)."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.after.inference import Allowance, BiasBound
from dpmodels.after.moments import posterior
from dpmodels.core.parallel import Released
from dpmodels.scoring.clip import missed_squares
from dpmodels.scoring.intervals import _conservative, infer
from dpmodels.scoring.models import LeastSquares, State, kept_apart
from dpmodels.scoring.pass_plan import columns_noise, passes_of, plan_pass, policy_of
from dpmodels.scoring.rules import (
    AT_CLIP,
    BINS,
    BOUNDED,
    LEAST_SQUARES,
    LINEAR,
    MANY,
    MANY_COLUMNS,
    MEANS,
    STRONG_COLUMNS,
    TAME,
    UNITS_POLICY,
    WIDE_LEAST_SQUARES,
)
from dpmodels.scoring.step import newton_step
from dpmodels.scoring.taken import taken

N = 4000


def last_pass(p=8, policy=WIDE_LEAST_SQUARES, n=N, mu=0.3, relation="replace"):
    return plan_pass(LINEAR, 2, mu, n, p, relation, meat=True, tail=n, policy=policy)


def flat(p, phi=1.0):
    return State(np.zeros(p), np.eye(p), phi, np.eye(p))


def test_which_manner():
    """Means have one policy; of residuals those of 6 columns on are many, bounded scores of fewer tame."""
    kinds = {"averages": True, "of_mean": False}
    assert policy_of(5, **kinds) is LEAST_SQUARES
    assert policy_of(6, **kinds) is WIDE_LEAST_SQUARES
    mean = {"averages": False, "of_mean": True}
    assert policy_of(2, **mean) is MANY
    tame = {"averages": False, "of_mean": False}
    assert policy_of(5, **tame) is TAME and policy_of(6, **tame) is MANY


def test_shares_of_many_columns():
    """(.25, .10, .15, .50) where p^1.5/(mu n) is above .008 and there are 6 columns or more."""
    assert columns_noise(0.5, 1000, 9) == pytest.approx(27 / 500)
    assert passes_of(LINEAR, 0.5, 1000, 9) == MANY_COLUMNS == (0.18, 0.06, 0.09, 0.15, 0.52)
    assert passes_of(LINEAR, 0.5, 10_000, 9) == STRONG_COLUMNS == (0.15, 0.07, 0.13, 0.65)
    assert passes_of(LINEAR, 0.5, 1000, 5) == LINEAR.passes
    assert passes_of(MEANS, 0.5, 1000, 9) == MEANS.passes
    assert passes_of(BOUNDED, 0.5, 1000, 9) == MANY_COLUMNS
    assert passes_of(BOUNDED, 0.5, 1000, 5) == BOUNDED.passes
    assert math.fsum(MANY_COLUMNS) == pytest.approx(1.0)


@pytest.mark.parametrize(("p", "n"), [(8, 1500), (8, N), (30, N), (8, 400_000)])
def test_radii_of_many_columns(p, n):
    """R_H^2 = p max(1.75, min(.22 x^.7, .12 x/sqrt p)), C from sqrt p, R_L^2 = 1.5 p."""
    one = last_pass(p, n=n)
    worth = math.sqrt(2.0) * one.information**2 / one.noise.information  # mu of the information
    x = worth * n / p
    assert one.information**2 == pytest.approx(
        p * max(1.75, min(0.22 * x**0.7, 0.12 * x / math.sqrt(p))), rel=1e-9
    )
    worth = 2.0 * one.clip / one.noise.score
    assert one.clip == pytest.approx(max(math.sqrt(p), 0.36 * (worth * n) ** 0.45), rel=1e-9)


def test_a_shrunk_information_keeps_what_stands_apart():
    """20 noisy matrices with one true eigenvalue of .05: seeds fixed."""
    rng = np.random.default_rng(0)
    r, nu = 20, 0.05
    for _ in range(20):
        E = rng.normal(0, nu, (r, r)) / math.sqrt(2.0)
        E = np.triu(E, 1) + np.triu(E, 1).T + np.diag(rng.normal(0, nu, r))
        true = np.diag([0.05] + [1.0] * (r - 1))
        found, left = kept_apart(true + E, nu)
        values = np.linalg.eigvalsh(found)
        assert values[0] < 0.25 and values[1] > 0.6 and values[-1] < 1.4
        assert left < nu
    found, left = kept_apart(np.diag([2.0, 0.0]), 0.3)  # away from the mean 1 by (1, -1)
    lam = 3.0 * 0.09 / 2.0
    size = max(1.0 - lam, math.sqrt(1.0 - 4.0 * 0.09))
    assert found == pytest.approx(np.diag([1.0 + size, 1.0 - size]))
    assert left == pytest.approx(0.3 * math.sqrt(1.0 - lam))


def test_the_last_step_is_damped_by_what_its_noise_explains():
    one = last_pass()
    score = np.zeros(8)
    for length in (0.02, 0.5):
        score[0] = length * N
        released = Released(np.eye(8) * N, score)
        step = newton_step(released, one, flat(8), LeastSquares())
        sd = one.noise.score / N
        part = min(1.0, 8 * sd**2 / length**2)  # H = I: tr H^-2 = 8, d = score / n
        kept = 1.0 - 0.5 * part
        assert step.d[0] == pytest.approx(length * kept, rel=1e-3)
    much = last_pass(mu=3.0)  # of least squares whatever mu n
    score[0] = 0.1 * math.sqrt(8) * much.noise.score
    step = newton_step(Released(np.eye(8) * N, score), much, flat(8), LeastSquares())
    assert step.d[0] == pytest.approx(0.5 * score[0] / N, rel=1e-3)
    early = newton_step(Released(np.eye(8) * N, score), replace(one, last=False), flat(8), LeastSquares())
    assert early.d[0] == pytest.approx(score[0] / N, rel=1e-9)


def test_eigenvalues_of_a_shrunk_information_are_lowered_to_second_order():
    one = last_pass(3)
    released = Released(np.diag([1.2, 1.0, 0.0]) * N, np.zeros(3))
    step = newton_step(released, one, flat(3), LeastSquares())
    step = replace(step, nu=0.1, floor=0.25)
    values = np.array([0.01, 0.9, 1.2])
    v = np.array([0.25, 0.9, 1.2])
    lowered = v - np.minimum(0.005 * (np.sum(1 / v) + 1 / v), 0.5 * v)
    lowered[0] = min(lowered[0], 0.05)
    assert _conservative(values, step) == pytest.approx(lowered, rel=1e-12)
    values[0] = 0.2  # below the floor: as it is, if that is more than a fifth of the floor
    assert _conservative(values, step)[0] == pytest.approx(min(0.2, 0.25 - 0.005 * (1 / 0.25 + np.sum(1 / v))))


def tail(p=8, policy=WIDE_LEAST_SQUARES):
    one = last_pass(p, policy)
    bins = np.zeros(BINS)
    bins[AT_CLIP - 4 : AT_CLIP + 3] = 800, 600, 400, 250, 120, 60, 20
    return one, Released(np.eye(p) * N, np.zeros(p), meat=np.eye(p) * N, bins=bins)


def test_nothing_that_rows_lose_is_guessed():
    """Rows that are weighed lose nothing; of the others two clips tell what they lost."""
    r, row = 8, np.eye(8)[:1]
    H = np.eye(r)
    allowed = Allowance(H, H, 0.0)
    assert not allowed.bias(row).any()
    moved = replace(allowed, moved=np.array([0.3 * H[0], -0.2 * H[0]]), far=0.1)
    assert moved.bias(row) == pytest.approx([0.3 + 0.2 + 0.1], rel=1e-9)
    assert replace(moved, least=0.4).bias(row) == pytest.approx([0.5 + 0.1], rel=1e-9)
    assert replace(moved, least=0.7).bias(row) == pytest.approx([0.7 + 0.1], rel=1e-9)
    assert replace(allowed, every=0.2).bias(3.0 * row) == pytest.approx([0.6], rel=1e-9)


def test_the_meat_gets_what_lies_beyond_its_radius():
    one, released = tail(4)
    step = newton_step(released, one, flat(4), LeastSquares())
    missed = missed_squares(released, one) * one.clip**2 / 4
    found = infer(released, one, flat(4), step, LeastSquares(), free=1.0).meat
    assert missed > 0.0 and found == pytest.approx((1.0 + missed) * np.eye(4), rel=1e-9)


def test_the_last_pass_of_least_squares_has_two_clips():
    """C is .7071 of the rule's, the ledger the same; a response that is weighed has one clip."""
    one = last_pass(4, LEAST_SQUARES)
    assert one.two_clips and one.blocks == 2 and last_pass().blocks == 3
    assert not plan_pass(
        LINEAR, 1, 0.3, N, 4, "replace", meat=True, tail=N, policy=LEAST_SQUARES
    ).two_clips
    shorter = one.suited(0.0, LeastSquares(), one)
    assert shorter.clip == pytest.approx(0.7071 * one.clip)
    assert shorter.noise.score / shorter.clip == pytest.approx(one.noise.score / one.clip)
    assert not replace(one, uncut=True).two_clips and last_pass(4, UNITS_POLICY).blocks == 1
    early = plan_pass(LINEAR, 1, 0.3, N, 4, "replace", meat=True, tail=N, policy=MANY)
    assert early.blocks == 3  # where early passes decide how far the last one is


def test_without_noise_what_the_clips_took_is_given_back():
    """D clear of noise counts whole: ``U + 2 C D + C D'/2``, and what lies beyond is allowed for."""
    one, r = replace(last_pass(4), noise=replace(last_pass(4).noise, score=1e-6, count=1e-6)), 4
    D, D_long, U = np.array([30.0, 0, -5.0, 1.0]), np.array([0, 7.0, 0, 0]), np.arange(4.0)
    bins = np.zeros(BINS)
    bins[AT_CLIP + 4] = 10.0  # lengths about 2^2.25 C
    released = Released(np.eye(r), U, bins=bins, taken=np.array([D, D_long]))
    state = replace(flat(r), constant=np.eye(r)[0])
    found = taken(released, one, state, np.eye(r), np.eye(r))
    assert found.score == pytest.approx(U + one.clip * (2.0 * D + 0.5 * D_long), rel=5e-3)
    assert found.moved == pytest.approx(one.clip * np.array([1.5 * D, D_long]), rel=5e-3)
    # beyond 2 C, less .4 times what the bin has up to 2 C
    assert found.far == pytest.approx(0.5 * one.clip * 10.0 * (2.0**2.25 - 2.0 - 0.4), rel=1e-4)
    whole = taken(released, replace(one, whole=True), state, np.eye(r), np.eye(r))  # nothing was cut
    assert whole.score == pytest.approx(U + 0.5 * one.clip * D_long, rel=5e-3) and whole.far == 0.0
    assert taken(replace(released, taken=None), one, state, np.eye(r), np.eye(r)) is None


def test_the_posterior_of_what_was_taken():
    """Noise alone is mostly taken out; what is clear stays. By quadrature over v."""
    from scipy.integrate import quad

    for k, square in ((1, 0.5), (6, 3.0), (6, 400.0)):
        x = np.zeros(k)
        x[0] = math.sqrt(square)

        def weight(v, k=k, square=square):
            return v ** (k / 2) * math.exp(-v * square / 2)

        total = quad(weight, 0, 1)[0]
        v = quad(lambda v, w=weight: v * w(v), 0, 1)[0] / total
        v2 = quad(lambda v, w=weight: v * v * w(v), 0, 1)[0] / total
        mean, cov = posterior(x, 1.0, 1e9)
        assert mean[0] == pytest.approx((1 - v) * x[0], rel=1e-3)
        assert cov[-1, -1] == pytest.approx(1 - v + (v2 - v * v) * square * (k == 1), rel=1e-3)
    noise = np.random.default_rng(3).normal(size=30)
    assert np.linalg.norm(posterior(noise, 1.0, 1e9)[0]) < 0.25 * np.linalg.norm(noise)
    hopeless = posterior(100.0 * noise, 100.0, 10.0)[1]  # noise ten times what can be
    assert np.diag(hopeless).max() < 0.01 * 100.0**2 * 1.5
    apart = np.eye(30)[:, :1]  # a direction by itself is not shrunk with the rest
    noise[0] = 8.0
    assert posterior(noise, 1.0, 1e9, apart)[0][0] > 7.5 > 6.5 > posterior(noise, 1.0, 1e9)[0][0]


def test_the_allowance_where_two_clips_tell_what_was_taken():
    """``max(least, moved) + far``, along each combination."""
    r, H = 3, np.diag([1.0, 2.0, 4.0])
    moved = np.array([[0.3, 0.0, 0.001], [0.0, 0.2, 0.0]])
    rule = Allowance(0.5 * np.linalg.inv(H), H, 0.009, far=0.02, moved=moved)
    wanted = 0.5 / np.diag(H) * (np.array([0.3, 0.2, 0.009]) + 0.02)
    assert rule.bias(np.eye(r)) == pytest.approx(wanted)
    kept = BiasBound(((np.eye(r), rule),)).frozen().parts[0][1]
    assert not kept.moved.flags.writeable


@pytest.mark.slow
@pytest.mark.parametrize(("share", "least"), [(0.0, 10), (0.06, 6)])
def test_a_tail_in_one_level_is_covered_or_marked(share, least):
    """A contrast is covered or not tested in .82 of samples (1.0 without a tail).

    Fixed seeds; that fewer than 6 of 12 are has probability .005.
    """
    held = 0
    for seed in range(12):
        rng = np.random.default_rng([31, seed])
        n, levels = 50_000, [f"l{i}" for i in range(8)]
        g = rng.choice(8, n, p=[0.3, 0.2, 0.15, 0.12, 0.1, 0.06, 0.037, 0.033])
        x, e = rng.uniform(0, 1, n), rng.normal(size=n)
        e[(g == 7) & (rng.random(n) < share)] -= 7.0
        y = 0.5 * x + 0.1 * g + e
        frame = pd.DataFrame({"x": x, "g": np.array(levels)[g], "y": y})
        schema = dp.Schema(x=dp.Real(0, 1), g=dp.Levels(levels), y=dp.Real(-30, 30))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = dp.dp_ols("y ~ x + C(g)", frame, eps=1, delta=1e-6, schema=schema, seed=seed)
        X = np.column_stack([np.ones(n), x, *(g == k for k in range(1, 8))])
        exact = np.linalg.lstsq(X, y, rcond=None)[0][-1]
        low, high = fit.conf_int().loc["C(g)[T.l7]"]
        held += bool(np.isnan(fit.pvalues["C(g)[T.l7]"]) or low <= exact <= high)
    assert held >= least
