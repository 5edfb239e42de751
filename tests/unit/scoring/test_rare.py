"""Rare events and counts (theory 5.9): lengths, starts, curvature, and fits that cover."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.families import FAMILIES, LINKS
from dpmodels.scoring import mean_models as rare
from dpmodels.scoring.mean_models import MeanModel
from dpmodels.scoring.models import State
from dpmodels.scoring.pass_plan import plan_pass
from dpmodels.scoring.rules import FIRST_CLIP, HUMP_PART, MEANS

LOGIT, LOG = LINKS["logit"], LINKS["log"]


def state_of(weight, r=2, phi=1.0, nuisance=0.0, eta=0.0):
    """Rows with second moments I and information ``weight`` each, a constant first."""
    constant = np.zeros(r)
    constant[0] = 1.0
    theta = eta * constant
    return State(
        theta, np.eye(r) / math.sqrt(weight), phi, np.eye(r), nuisance=nuisance, constant=constant
    )


def test_typical_long_scores():
    """sqrt(r (1 - m)/m) of an event, sqrt(r/m) of a count of 1."""
    m = 0.02
    found = MeanModel.of(FAMILIES["binomial"], LOGIT).typical_long(state_of(m * (1 - m)))
    assert found == pytest.approx(math.sqrt(2 * (1 - m) / m), rel=1e-9)
    probit = LINKS["probit"]
    events = MeanModel.of(FAMILIES["binomial"], probit)
    found = events.typical_long(state_of(0.3, eta=probit.forward(m)))
    assert found == pytest.approx(math.sqrt(2 * (1 - m) / m), rel=1e-9)
    poisson = FAMILIES["poisson"]
    assert MeanModel.of(poisson, LOG).typical_long(state_of(0.05, phi=1.5)) == pytest.approx(
        math.sqrt(2 * 1.5 / 0.05), rel=1e-9
    )
    assert MeanModel.of(poisson, LOG).typical_long(state_of(1.2)) == 0.0
    alpha, mean = 2.0, 0.3  # omega = m/(1 + alpha m)
    counts = MeanModel.of(FAMILIES["negative_binomial"], LOG)
    found = counts.typical_long(state_of(mean / (1 + alpha * mean), nuisance=alpha))
    assert found == pytest.approx(math.sqrt(2 / mean), rel=1e-9)
    assert MeanModel.of(FAMILIES["gamma"], LOG).typical_long(state_of(0.1)) == 0.0


def test_rare_counts_have_two_clips():
    """Counts may have any size, so none is weighed; noise is in proportion to C."""
    one = plan_pass(MEANS, 4, 0.3, 5000, 3, "replace", meat=True, tail=5000)
    counts = MeanModel.of(FAMILIES["poisson"], LOG)
    found = one.suited(2.0 / 1.75 * one.clip, counts, one)
    assert found.two_clips and found.rare and not found.uncut
    assert found.clip == pytest.approx(FIRST_CLIP * one.clip)
    assert found.noise.score == pytest.approx(FIRST_CLIP * one.noise.score)
    assert found.mu_joint == one.mu_joint and found.noise.information == one.noise.information
    assert not one.suited(0.5 * HUMP_PART * one.clip, counts, one).rare


def test_a_rate_of_events_is_weighed():
    """A Poisson response that is declared 0/1 has two outcomes, as a logit has."""
    design = dp.plan("y ~ a", dp.Schema(a=dp.Real(0, 1), y=dp.Binary()), n=5000, eps=1, delta=1e-6,
                     verb="dp_glm", family="poisson").design  # fmt: skip
    one = plan_pass(MEANS, 4, 0.3, 5000, 3, "replace", meat=True, tail=5000)
    rate = MeanModel.of(FAMILIES["poisson"], LOG).bound(design)
    assert rate.outcomes == (0.0, 1.0)
    assert one.suited(3.0 * one.clip, rate, one).uncut
    assert not one.suited(0.1 * one.clip, rate, one).uncut  # common events: a second clip


def test_a_clip_where_rows_are_weighed():
    """method 5.11: .8 of the rule, or noise of 1.2 sampling errors; the same in all passes."""
    logit = MeanModel.of(FAMILIES["binomial"], LOGIT)
    many = replace(MEANS, passes=(0.12, 0.1, 0.78))
    early, last = (
        plan_pass(many, k, 0.3, 5000, 3, "replace", meat=True, tail=5000) for k in (1, 2)
    )
    noise = last.noise.score / last.clip / math.sqrt(5000)
    short, long = min(0.8 * last.clip, 1.2 / noise), 3.0 * last.clip
    for one in (early, last):
        for typical in (0.1, long):
            found = one.suited(typical, logit, last)
            assert found.clip == pytest.approx(short) and found.uncut and found.weighted
            assert found.noise.score == pytest.approx(one.noise.score / one.clip * short)
            assert found.rare == (typical == long) and found.mu_joint == one.mu_joint
    louder = replace(last, noise=replace(last.noise, score=9.0 * last.noise.score))
    probit = MeanModel.of(FAMILIES["binomial"], LINKS["probit"])  # only where it is rare
    assert not last.suited(0.1, probit, last).uncut and last.suited(long, probit, last).uncut
    assert last.suited(0.1, logit, louder).clip == pytest.approx(1.2 / (9.0 * noise))


def test_the_mean_of_rare_counts_is_read_off_the_mean_of_their_logarithms():
    rng = np.random.default_rng(3)
    for mean in (0.02, 0.3, 0.9):
        y = rng.poisson(mean, 400_000)
        level = float(np.log(y + 0.5).mean())
        assert rare.mean_of_log(level, 0.5) == pytest.approx(mean, rel=0.03)
        step = 1e-3
        up, down = (
            float(np.log(np.arange(60) + 0.5) @ np.exp(_log_poisson(mean * math.exp(s))))
            for s in (step, -step)
        )
        assert rare.slope_of_log(mean, 0.5) == pytest.approx((up - down) / (2 * step), rel=1e-3)


def _log_poisson(mean):
    from scipy.special import gammaln

    k = np.arange(60.0)
    return k * math.log(mean) - mean - gammaln(k + 1)


def test_the_scale_of_events_and_of_few_counts_is_at_least_one():
    """Early fits sit at too high a mean: 1 -> .17 -> .036 in two passes, were it not so."""
    logit = MeanModel.of(FAMILIES["binomial"], LOGIT)
    assert logit.updated(state_of(0.02), np.eye(2), 0.1).phi == 1.0
    assert logit.updated(state_of(0.02), np.eye(2), 2.0).phi == pytest.approx(2.2)
    poisson = MeanModel.of(FAMILIES["poisson"], LOG)
    assert poisson.updated(state_of(0.1), np.eye(2), 0.1).phi == 1.0
    assert poisson.updated(state_of(5.0), np.eye(2), 0.1).phi == pytest.approx(0.11)


@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_the_start_of_rare_counts_is_at_their_mean(family):
    from dpmodels.formula.build import build_design
    from dpmodels.formula.schema import Schema
    from dpmodels.scoring.models import Start
    from dpmodels.variables import Count, Real

    design = build_design("y ~ x", Schema(y=Count(10), x=Real(-1, 1)))
    score = MeanModel.of(FAMILIES[family], LOG).bound(design)
    w, mean = score.working, 0.08
    level = float(np.log(np.arange(60) + w.small) @ np.exp(_log_poisson(mean)))
    theta = np.array([(level - w.middle) / w.half, 0.0])
    start = Start(theta, 0.05, np.eye(2), 0.01, np.array([1.0, 0.0]), np.zeros(2))
    assert score.start(start).theta == pytest.approx([math.log(mean), 0.0], abs=0.02)


def table(seed, n, rate):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, n), "z": rng.integers(0, 2, n) * 1.0})
    eta = rate + 0.8 * frame["x"] + 0.5 * frame["z"]
    frame["b"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["c"] = rng.poisson(np.exp(eta))
    return frame


@pytest.mark.statistical
@pytest.mark.parametrize("verb", ["logit", "poisson"])
def test_intervals_of_two_percent_events_cover(quiet, verb):
    """30 fits of each to 10 000 rows, 2 % events: .95 covers fewer than 24 of 30 once in 3e4.

    The version before covered 0, 13 and 22 of 30.
    """
    bounds = {"x": (-1, 1), "z": (0, 1), "c": (0, 20)}
    truth = np.array([-4.4, 0.8, 0.5])
    hits, widths = np.zeros(3), []
    for seed in range(30):
        frame = table(seed, 10_000, -4.4)
        call = dict(eps=1, delta=1e-6, seed=seed, method="scoring", bounds=bounds)
        if verb == "logit":
            fit = dp.dp_glm("b ~ x + z", frame, event=1, **call)
        else:
            fit = dp.dp_glm("c ~ x + z", frame, family="poisson", **call)
        ends = fit.conf_int().to_numpy()
        hits += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        widths.append(ends[:, 1] - ends[:, 0])
    assert (hits >= 24).all(), hits
    assert np.median(widths, axis=0).max() < 3.0  # of the Intercept and two coefficients


def test_count_families_say_so():
    kinds = {name: family.counts for name, family in FAMILIES.items() if family.counts}
    assert kinds == {
        "poisson": "whole", "quasipoisson": "loose", "negative_binomial": "whole",
        "geometric": "loose",
    }  # fmt: skip
    assert MEANS.passes == (0.12, 0.08, 0.10, 0.15, 0.55) == MEANS.passes


@pytest.mark.parametrize("ratio", [3, 10, 30])
def test_rates_of_two_groups_are_covered_or_marked(quiet, ratio):
    """40 fits of 1 % events in 50 000 rows: .93 of them by the note; 31 or fewer 1 in 1e4.

    With the start, coins and clip of before: .69, .06 and .00 (n = 200 000).
    """
    n, low = 50_000, 0.02 / (1 + ratio)
    truth = math.log(ratio * low / (1 - ratio * low)) - math.log(low / (1 - low))
    facts = dp.Schema(g=dp.Levels(["a", "b"]), x=dp.Real(-5, 5), y=dp.Binary())
    hit = marked = 0
    for seed in range(40):
        rng = np.random.default_rng([44, seed])
        g = rng.random(n) < 0.5
        frame = pd.DataFrame({"g": np.where(g, "b", "a"), "x": rng.normal(size=n).clip(-5, 5)})
        frame["y"] = (rng.random(n) < np.where(g, ratio * low, low)).astype(int)
        fit = dp.dp_glm("y ~ g + x", frame, eps=1, delta=1e-6, schema=facts, seed=seed)
        least, most = fit.conf_int().loc["g[b]"] if "g[b]" in fit.params else fit.conf_int().iloc[1]
        untested = fit._record.estimate.untested
        alone = untested is not None and untested[1]
        hit += bool(least <= truth <= most) or bool(alone)
        marked += bool(alone)
    assert hit >= 32
    assert (marked < 20) == (ratio < 30)


def test_the_second_value_of_a_response_is_no_tail(quiet):
    """Least squares of 4.5 % events: 20 fits, 57 of 60 expected to be covered, 46 or fewer less
    than once in 1e4; errors at most 2.2 of the non-private ones (before: 10.9 at three columns)."""
    n, hit, widths = 20_000, 0, []
    facts = dp.Schema(a=dp.Real(-1, 1), s=dp.Binary(), y=dp.Binary())
    for seed in range(20):
        rng = np.random.default_rng([44, seed])
        a, s = rng.uniform(-1, 1, size=n), rng.integers(0, 2, size=n)
        frame = pd.DataFrame({"a": a, "s": s, "y": rng.random(n) < 0.045 + 0.02 * a + 0.01 * s})
        fit = dp.dp_ols("y ~ a + s", frame.astype(float), eps=1, delta=1e-6, schema=facts, seed=seed)
        ends = fit.conf_int().to_numpy()
        truth = np.array([0.045, 0.02, 0.01])
        hit += int(((ends[:, 0] <= truth) & (ends[:, 1] >= truth)).sum())
        widths.append((ends[1, 1] - ends[1, 0]) / 3.92 / math.sqrt(3 * 0.05 * 0.95 / n))
    assert hit > 46
    assert np.median(widths) < 2.2


def test_only_least_squares_faces_two_values():
    from dpmodels.formula.build import build_design
    from dpmodels.scoring.coordinates import public_coordinates
    from dpmodels.scoring.models import Huber, LeastSquares

    two, many = (
        build_design("y ~ x", dp.Schema(y=y, x=dp.Real(0, 1))) for y in (dp.Binary(), dp.Real(0, 1))
    )
    unit = public_coordinates(two).unit
    faced = LeastSquares().bound(two, unit)
    assert faced.ends == pytest.approx((-1.0, 1.0)) and faced.can_be_rare
    assert faced.outcomes == (0.0, 1.0)
    for score, design in ((LeastSquares(), many), (Huber(), two)):
        assert getattr(score.bound(design, unit), "ends", None) is None
        assert score.bound(design, unit).typical_long(state_of(1.0)) == 0.0
    state = state_of(1.0, phi=0.16, eta=-0.9)
    assert faced.typical_long(state) == pytest.approx(1.75 * 1.9 * math.sqrt(2 / 0.16))


@pytest.mark.parametrize(("share", "marked"), [(0.003, True), (0.3, False)])
def test_levels_with_few_events_are_marked_where_people_are_protected(share, marked):
    """Two rows a person, 10 % events: about 6 at a level of .3 %, or 600; seed fixed."""
    rng = np.random.default_rng(1)
    n = 20_000
    rare = rng.random(n) < share
    frame = pd.DataFrame({
        "pid": np.repeat(np.arange(n // 2), 2), "x": rng.uniform(-1, 1, n),
        "g": np.where(rare, "b", "a"), "y": (rng.random(n) < 0.1).astype(int),
    })  # fmt: skip
    schema = dp.Schema(g=dp.Levels(["a", "b"]), x=dp.Real(-1, 1), y=dp.Binary())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_glm(
            "y ~ C(g) + x", frame, eps=4, delta=1e-6, schema=schema, seed=3, family="binomial",
            unit="pid", units=n // 2,
        )  # fmt: skip
    assert fit.pvalues.isna().tolist() == [False, marked, False]
    assert ("fewer than 25 expected events" in " ".join(fit.notes)) == marked


def test_a_start_is_shortened_about_the_mean_row_to_what_passes_can_take_back():
    from dpmodels.scoring.models import State
    from dpmodels.scoring.program import within_reach
    from dpmodels.scoring.rules import REACH_OF_START

    M = np.array([[1.0, 0.2], [0.2, 1.0]])  # of (1, x): the mean row is (1, .2)
    rows = np.array([[1.0, -2.0], [1.0, 0.2], [1.0, 2.0]])
    for slope, kept in ((1.0, 1.0), (-10.0, REACH_OF_START / 22.0), (40.0, REACH_OF_START / 88.0)):
        theta = np.array([-3.0, slope])
        state = State(theta, np.eye(2), 1.0, M, constant=np.array([1.0, 0.0]))
        found = within_reach(state, rows).theta
        middle = theta @ np.array([1.0, 0.2])
        assert found @ rows[1] == pytest.approx(middle)
        assert rows @ found - middle == pytest.approx(kept * (rows @ theta - middle))
    free = State(np.array([-3.0, 5.0]), np.eye(2), 1.0, M)  # no constant: about zero
    assert np.abs(rows @ within_reach(free, rows).theta).max() == pytest.approx(REACH_OF_START)


def test_few_events_do_not_run_away():
    """Of 60 seeded fits none has an effect of 30 logits over half a range; two had 45 and 141.

    With 80 events of 3000 rows the noise of the start is tens of logits at the ends of the ranges.
    """
    schema = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-1, 1), c=dp.Real(-1, 1), y=dp.Binary())
    longest = []
    for seed in range(60):
        rng = np.random.default_rng([11, seed])
        X = np.clip(rng.normal(0, 0.2, (3000, 3)), -1, 1)
        y = rng.random(3000) < 1 / (1 + np.exp(3.7 - X @ np.array([1.0, -1.0, 0.5]) * 0.35 / 0.2))
        frame = pd.DataFrame(X, columns=list("abc")).assign(y=y.astype(int))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = dp.dp_glm("y ~ a + b + c", frame, eps=1, delta=1e-6, family="binomial",
                            schema=schema, seed=seed)  # fmt: skip
        longest.append(np.abs(fit.params.to_numpy()).max())
    assert max(longest) < 30.0
