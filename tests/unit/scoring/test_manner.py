"""Rules that differ between kinds of models, recomputed from the theory note (3 and 4)."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.after.inference import Allowance, Tail
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.scoring.clip import long_scores, overflow, tail_of
from dpmodels.scoring.intervals import _conservative, infer
from dpmodels.scoring.models import LeastSquares, State, kept_apart
from dpmodels.scoring.pass_plan import columns_noise, passes_of, plan_pass, policy_of
from dpmodels.scoring.passes import PassSums, Released, ask_pass
from dpmodels.scoring.rules import (
    AT_CLIP,
    BINS,
    BOUNDED,
    FEW,
    LEAST_SQUARES,
    LINEAR,
    MANY,
    MANY_COLUMNS,
    MEANS,
    STRONG_COLUMNS,
    TAME,
    WIDE_LEAST_SQUARES,
)
from dpmodels.scoring.step import newton_step, scores_of
from dpmodels.sums.ask import Ask, Kept

N = 4000


def last_pass(p=8, policy=WIDE_LEAST_SQUARES, n=N, mu=0.3, relation="replace"):
    return plan_pass(LINEAR, 2, mu, n, p, relation, meat=True, tail=n, policy=policy)


def flat(p, phi=1.0):
    return State(np.zeros(p), np.eye(p), phi, np.eye(p))


def test_which_manner():
    """Least squares: many from 6 columns on; means: from 10; bounded scores are tame."""
    kinds = {"averages": True, "of_mean": False}
    assert policy_of(5, **kinds) is LEAST_SQUARES
    assert policy_of(6, **kinds) is WIDE_LEAST_SQUARES
    mean = {"averages": False, "of_mean": True}
    assert policy_of(9, **mean) is FEW and policy_of(10, **mean) is MANY
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
    assert one.ordinary**2 == pytest.approx(1.5 * p)
    assert last_pass(p, TAME, n).ordinary ** 2 == pytest.approx(2.0 * p)


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
    tame = newton_step(Released(np.eye(8) * N, score), last_pass(policy=TAME), flat(8), LeastSquares())
    assert tame.d[0] == pytest.approx(score[0] / N, rel=1e-9)


def test_eigenvalues_of_a_shrunk_information_are_lowered_to_second_order():
    one = last_pass(3)
    released = Released(np.diag([1.2, 1.0, 0.0]) * N, np.zeros(3))
    step = newton_step(released, one, flat(3), LeastSquares())
    step = replace(step, nu=0.1, floor=0.25)
    values = np.array([0.01, 0.9, 1.2])
    v = np.array([0.25, 0.9, 1.2])
    lowered = v - np.minimum(0.005 * (np.sum(1 / v) + 1 / v), 0.5 * v)
    lowered[0] = min(lowered[0], 0.05)
    assert _conservative(values, step, one) == pytest.approx(lowered, rel=1e-12)
    values[0] = 0.2  # below the floor: as it is, if that is more than a fifth of the floor
    assert _conservative(values, step, one)[0] == pytest.approx(min(0.2, 0.25 - 0.005 * (1 / 0.25 + np.sum(1 / v))))


def tail(p=8, policy=WIDE_LEAST_SQUARES, **more):
    one = last_pass(p, policy)
    bins = np.zeros(BINS)
    bins[AT_CLIP - 4 : AT_CLIP + 3] = 800, 600, 400, 250, 120, 60, 20
    signed = np.zeros(BINS)
    signed[AT_CLIP - 1 :] = 0.5 * bins[AT_CLIP - 1 :]
    out = Released(np.eye(p) * N, np.zeros(p), meat=np.eye(p) * N, ordinary=np.eye(p) * N, bins=bins)
    return one, replace(out, signed=signed, **more)


def test_the_tail_of_a_signed_histogram():
    """Sums of two bins have root two the noise; what is beyond .71 C is half of one sign."""
    one, released = tail()
    assert one.count == pytest.approx(math.sqrt(2.0) * one.noise.count)
    found = tail_of(released, one)
    bins = released.bins
    over = overflow(bins, one.count, one.meat / one.clip, apart=True)
    assert found.total == pytest.approx(one.clip * over.total / N)
    assert found.error == pytest.approx(one.clip * over.error / N)
    assert found.squares == pytest.approx(over.squares / N)
    k = BINS - AT_CLIP + 1
    net = 0.5 * bins[AT_CLIP - 1 :].sum() + one.count * math.sqrt(k)
    even = 0.75 * min(1.0, 400.0 / (0.3 * N))  # of what has none, where mu n is small
    assert found.one_sided == pytest.approx(even + min(1.0, net / bins[AT_CLIP - 1 :].sum()))
    assert tail_of(released, replace(one, whole=True)) == Tail()


def allowance(one, tail, few, r):
    H, L = np.eye(r), (1.0 - few) * np.eye(r)
    kind = "signed" if one.policy.signed else "plain" if one.unimodal else "rows"
    return Allowance(kind, not one.whole, H, H, L, 0.0, 0.0, np.zeros(r), 1.0, 0.0, tail, 4.0)


@pytest.mark.parametrize("few", [0.0, 0.4])
def test_what_clipping_may_have_moved(few):
    """theory 4: parts of the overflow that may point one way, by manner."""
    r, row = 8, np.eye(8)[:1]
    found = Tail(near=0.01, total=0.02, error=0.005, one_sided=0.5)
    one = last_pass(r)
    part = min(0.8, 0.4 * 0.5 / math.sqrt(8) + few)
    wanted = max(part * 0.025, 0.8 * 2.5 / 8 * 0.01)
    assert allowance(one, found, few, r).bias(row) == pytest.approx([wanted], rel=1e-9)
    means = last_pass(r, FEW)
    part = min(min(0.45, 0.9 / math.sqrt(8)) + few, 1.0)
    wanted = max(part * (0.02 + few * 0.005), 0.8 * 0.01)
    assert allowance(means, found, few, r).bias(row) == pytest.approx([wanted], rel=1e-9)
    rare = replace(means, unimodal=True)
    wanted = part * (0.02 + few * 0.005)
    assert allowance(rare, found, few, r).bias(row) == pytest.approx([wanted], rel=1e-9)
    assert not allowance(replace(one, whole=True), found, few, r).bias(row).any()


def test_even_tails_count_in_part_where_mu_n_is_small():
    """theory 4: all of .75 up to 400, in proportion to 1 / (mu n) beyond, without a step."""
    released = replace(tail()[1], signed=np.zeros(BINS))
    found = [
        tail_of(released, replace(last_pass(), strength=s)).one_sided
        for s in (200.0, 400.0, 401.0, 4e3, 4e9)
    ]
    assert np.array(found) - found[-1] == pytest.approx([0.75, 0.75, 0.7481, 0.075, 0.0], abs=1e-4)


def test_even_tails_move_nothing_and_one_sided_ones_continuously():
    """theory 4: short tails leave the least allowance, even ones t, one-sided ones most."""
    r, row, n = 8, np.eye(8)[:1], 50_000
    one = last_pass(r, n=n, mu=1.0)
    sd = one.noise.score / n

    def bias(long, sided):
        bins = np.zeros(BINS)
        bins[: AT_CLIP - 3] = n / (AT_CLIP - 3)
        bins[AT_CLIP - 3 :] = long * n * 0.8 ** np.arange(BINS - AT_CLIP + 3)
        released = Released(
            np.eye(r) * n, np.zeros(r), meat=np.eye(r) * n, ordinary=np.eye(r) * n, bins=bins,
            signed=sided * bins,
        )
        found = allowance(one, tail_of(released, one), 0.0, r)
        return float(replace(found, score=sd).bias(row)[0])

    least = bias(0.0, 0.0)
    assert least == pytest.approx(0.35 * sd)
    assert bias(0.1, 0.0) < 0.5 * bias(0.1, 1.0)
    for grid in ([(x, 0.5) for x in np.linspace(0, 0.1, 201)],
                 [(0.1, x) for x in np.linspace(0, 1, 201)]):  # fmt: skip
        found = np.array([bias(*at) for at in grid])
        assert (np.diff(found) >= -1e-3 * found[-1]).all()  # no step, and no more tail for less
        assert np.abs(np.diff(found)).max() < 0.02 * found[-1]


def test_the_meat_gets_what_lies_beyond_its_radius_and_what_the_model_asks():
    one, released = tail(4)
    step = newton_step(released, one, flat(4), LeastSquares())
    missed = tail_of(released, one).squares * one.clip**2 / 4

    def meat(score):
        return infer(released, one, flat(4), step, score, free=1.0).meat

    assert missed > 0.0
    assert meat(LeastSquares()) == pytest.approx((1.0 + missed) * np.eye(4), rel=1e-9)

    class Least(LeastSquares):
        def least_meat(self, state):
            return 7.0

    found = meat(Least())
    H = infer(released, one, flat(4), step, Least(), free=1.0).H
    assert found == pytest.approx(7.0 * H, rel=1e-6)


def far_pass(p=4, relation="replace", n=40_000):
    return plan_pass(LINEAR, 2, 0.3, n, p, relation, meat=True, tail=n, policy=LEAST_SQUARES)


def test_far_scores_are_heard_above_their_noise():
    """The part 1 - chi2_.99 sd^2/|E|^2 of long scores goes into the step, and its noise."""
    from scipy.stats import chi2

    one = far_pass()
    sd = one.noise.far
    assert sd == pytest.approx(2.0 / one.mu_far)
    for size in (1.0, 20.0):
        E = np.array([size * sd, 0.0, 0.0, 0.0])
        released = Released(np.eye(4) * one.rows, np.zeros(4), far=E, bins=np.zeros(BINS))
        part = max(0.0, 1.0 - chi2.ppf(0.99, 4) / size**2)
        part *= 0.25 * one.clip  # of an empty histogram the least length beyond C
        found, sd_of_sum = scores_of(released, one)
        assert found == pytest.approx(part * E, rel=1e-9)
        noise = math.hypot(one.noise.score, part * sd)
        assert sd_of_sum == pytest.approx(noise, rel=1e-9)
        step = newton_step(released, one, flat(4), LeastSquares())
        # half of what noise explains of a last step is lost
        plain = part * E / one.rows
        by_noise = min(4.0 * (sd_of_sum / one.rows) ** 2 / max(plain @ plain, 1e-300), 1.0)
        assert step.d == pytest.approx((1.0 - 0.5 * by_noise) * plain, rel=1e-9)
        whole = replace(
            released, meat=np.eye(4) * one.rows, ordinary=np.eye(4) * one.rows, bins=np.zeros(BINS)
        )
        found = infer(whole, one, flat(4), step, LeastSquares(), free=1.0)
        B = found.inverse
        H = step.nu**2 / 2.0 * (step.d @ step.d * np.eye(4) + np.outer(step.d, step.d))
        expected = B @ ((noise / one.rows) ** 2 * np.eye(4) + H) @ B
        assert found.privacy == pytest.approx(expected, rel=1e-9)
    assert far_pass(n=20_000).mu_far == 0.0  # mu n = 6000
    assert last_pass(4, FEW, 40_000).mu_far == 0.0


def test_long_scores_of_one_group_are_counted_along_its_row():
    one = far_pass()
    groups = np.array([[1.0, 2.0, 0.0, 0.0], [1.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    ahead = groups[1] / np.linalg.norm(groups[1])
    for many in (1.0, 3.0):  # noise explains one sd, and not three along one of three groups
        E = many * one.noise.far * ahead
        released = Released(np.eye(4), np.zeros(4), far=E, bins=np.zeros(BINS))
        long = long_scores(released, one)
        assert long.part == 0.0
        moved, allowed, seen = long.of_groups(groups)
        counts = moved / long.clip
        assert counts[1] == pytest.approx(E) and counts[2] == pytest.approx(np.zeros(4))
        assert seen.tolist() == [False, many > 2.0, False]
        above = max(many - 2.0, 0.0) * one.noise.far  # two noise sds do not count
        assert allowed[1] == pytest.approx(0.5 * one.clip * above * ahead)
    whole = replace(long, towards=100.0 * E)  # nearly all of it counts as missing
    left, _, seen = whole.of_groups(groups)
    left = left / whole.clip
    assert np.linalg.norm(left[1]) < 0.01 * np.linalg.norm(whole.towards) and not seen.any()


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


class Noiseless:
    """A run that draws nothing."""

    noise = None

    def mechanism(self, name):
        return Gaussian(1.0)

    def gaussian(self, name, value, sensitivity, *, weights=1.0, unit=1.0):
        return np.asarray(value, dtype=float) * unit


def test_a_signed_histogram_is_the_sum_of_both_signs_and_their_difference():
    plan = last_pass(2, n=60_000)
    zero, none = np.zeros((2, 2), dtype=object), np.array([0, 0], dtype=object)
    bins, far = tuple(range(100, 100 + 2 * BINS)), np.array([2**20, 0], dtype=object)
    sums = PassSums(zero, none, zero, zero, 0, bins, far=far)
    out = ask_pass(Ask(sums, Noiseless()), plan, Kept(), lambda kept: kept, "2", 2)
    up, down = np.array(bins[:BINS]), np.array(bins[BINS:])
    assert out.bins == pytest.approx(up + down) and out.signed == pytest.approx(up - down)
    assert out.far == pytest.approx([1.0, 0.0])
