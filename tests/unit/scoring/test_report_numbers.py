"""Released sums to printed numbers, and scores to integers: against formulas written out."""

import functools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.core.clusters import Scorer
from dpmodels.core.parallel import Parallel
from dpmodels.core.release import Release
from dpmodels.core.rows import Rows
from dpmodels.core.sets import Counted
from dpmodels.families import FAMILIES
from dpmodels.models.survival.hazard import _LEAST_EVENTS, Timeline
from dpmodels.models.table.weighted_quantiles import contrasts_of
from dpmodels.models.weights import row_mass
from dpmodels.proof.sets import STEPS
from dpmodels.scoring import cluster_plan as cluster_rules
from dpmodels.scoring import rules
from dpmodels.scoring.deviance import Deviance, FitStatistics
from dpmodels.scoring.fit import Part, _complete, _free, _lost
from dpmodels.scoring.rules import AT_CLIP, CELLS, CLEAR_OF_NOISE
from dpmodels.scoring.unit_scales import Number
from dpmodels.scoring.units import unit_pass
from dpmodels.sums.products import SHRINK
from tests.one_pass import added


@pytest.mark.parametrize(
    ("clusters", "mu"), [(50.0, 0.5), (50.0, 0.02), (2000.0, 0.5), (40_000.0, 0.5)]
)
def test_radii_of_sums_by_cluster(clusters, mu):
    """By the formula of the docstring; more clusters than rows are of one row each."""
    p, n, icc = 4, 20_000, 0.15
    m = max(n / clusters, 1.0)
    tau = 1.0 + icc * (m - 1.0)
    C = cluster_rules.clip_of(p, n, mu)
    low, high = 2 * math.sqrt(p * m * tau), 2 * m * math.sqrt(p)
    found = cluster_rules.radii(p, n, clusters, mu, "replace", icc=icc)
    assert (found.clip, found.guess) == pytest.approx((C, tau))
    assert found.bound == pytest.approx(max(low, min(0.25 * tau * mu * n / (4 * C), high), C))


def test_a_score_by_cluster_has_its_size_and_its_factor():
    """Of length ``|psi factor| long / step``, at most C, along z with the sign of psi."""
    z = np.array([[0.6, 3.0, 1.0], [0.8, 4.0, 0.0]])
    psi, factor, step, C = np.array([2.0, -1.0, 5.0]), np.array([0.5, 2.0, 1.0]), 2.0, 2.0
    long = np.sqrt((z**2).sum(axis=0))
    policy = SimpleNamespace(by_leverage=False)
    into = Parallel(SimpleNamespace(policy=policy, information=STEPS * SHRINK / step), 2)
    scored = Scorer(lambda _: (Rows(z), Rows(psi[None]), None), 2, np.eye(2), into)
    found = scored.contribution(np.zeros((1, 3)), factor, C) * C / STEPS
    size = np.minimum(np.abs(psi * factor) * long / step, C)
    assert found == pytest.approx(z / long * size * np.sign(psi), abs=1e-5)


def test_contrasts_of_a_table_are_products():
    """``R u (1_a - r)(1_b - c)``, cells without a place nothing, in the ball of C."""
    r, c, root, C = np.array([0.2, 0.3, 0.5]), np.array([0.4, 0.6]), np.array([[2.0, 0.0], [0.5, 1.0]]), 3.0
    u = functools.partial(row_mass, place=2, top=2.0)
    one = Scorer(functools.partial(contrasts_of, rows=r, columns=c, root=root, u=u), 2)
    rows = np.array([[0, 1, 2, 3, 0], [0, 1, 0, 0, 2], [1.0, 2.0, 0.5, 1.0, 1.0]])
    factor = np.array([1.0, -1.0, 9.0, 1.0, 1.0])
    with np.errstate(all="ignore"):
        found = one.contribution(rows, factor, C) * C / STEPS
    for j in range(5):
        a, b, w = rows[:, j]
        wanted = np.zeros(2)
        if a < 3 and b < 2:
            z = [((a == i) - r[i]) * ((b == 0) - c[0]) * min(w / 2.0, 1.0) for i in range(2)]
            wanted = root @ z * factor[j]
            wanted *= min(1.0, C / np.linalg.norm(wanted))
        assert found[:, j] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(("family", "sums"), [("binomial", (300.0, -1.0, 900.0)), ("poisson", (2500.0, 900.0, 1100.0))])
def test_the_error_of_a_null_deviance_is_its_derivative(family, sums):
    """By differences of the null deviance along each noise."""
    own, n, sd = FAMILIES[family], 1000.0, 3.0
    lift = np.array([[1.5, 0.2, 2.0], [4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 5.0]])

    def report(count, y):
        one = SimpleNamespace(centre=SimpleNamespace(offset=None), family=own, alpha=0.0, chord=0.7)
        return Deviance.report(one, FitStatistics(count, y, lift, sd), 3)

    y = np.array(sums)
    told = report(n, y)
    moves = [
        (report(n + 1e-3 * (sd if k == 0 else 0.0), y + 1e-3 * lift[k])["null_deviance"] - told["null_deviance"]) / 1e-3
        for k in range(4)
    ]
    assert told["null_deviance_se"] == pytest.approx(np.linalg.norm(moves), rel=1e-3)
    assert told["deviance_se"] == pytest.approx(np.linalg.norm(lift[:, 2]))
    assert told.get("aic") == (pytest.approx(906.0) if family == "binomial" else None)


def test_statistics_of_people_are_means_of_their_whole_rows():
    t = np.array([[0.1, 0.9, 0.5, 0.2], [0.3, 0.5, 0.1, 0.2], [1.0, 0.0, 0.25, 0.2]])
    t[:, 3] = np.nan
    block = SimpleNamespace(rows=t - 0.5, starts=np.array([0, 2, 3]))
    release = Release("", Counted(3, 1.0, people=True), lambda z: z, None)
    found = added(release, [block]).astype(float) / STEPS
    mean = (t[:, :2].mean(axis=1) - 0.5) + (t[:, 2] - 0.5)
    assert found == pytest.approx([2.0, *mean], abs=1e-5)


def test_the_spread_of_a_unit_is_by_its_scale():
    T, inverse, meat = np.array([[1.0, 2.0], [0.0, 1.0]]), np.diag([0.5, 0.25]), np.diag([4.0, 9.0])
    one = SimpleNamespace(T=T, inference=SimpleNamespace(inverse=inverse, meat=meat, plan=SimpleNamespace(people=True)), release=SimpleNamespace(before=SimpleNamespace(phi=16.0)))
    assert Part.spread.fget(one) == pytest.approx(T @ inverse @ np.diag([2.0, 3.0]) * 4.0)


@pytest.mark.parametrize(("counts", "said"), [((600.0, 300.0), "About 10 %"), ((990.0, 9.0), ""), ((0.0, -5.0), "About 100 %")])
def test_units_that_count_as_nothing_are_told(counts, said):
    """One less the released part that counts, at most all; nothing below a share or the noise."""
    detail = SimpleNamespace(rows=1000)
    plan = SimpleNamespace(request=SimpleNamespace(relation="replace", unit=None), detail=detail)
    lengths = SimpleNamespace(counts=np.array(counts), sd=1.0)
    part = SimpleNamespace(
        release=SimpleNamespace(lengths=[lengths]), inference=SimpleNamespace(plan=SimpleNamespace(people=True))
    )
    found = _lost(plan, None, part, _complete(plan, part))
    assert (str(found[0]).startswith(said) if said else not found), found
    lengths.sd = 1000.0
    assert _lost(plan, None, part, _complete(plan, part)) == []


def test_a_fit_may_have_the_noise_of_its_errors_and_an_average_more():
    """Units stay in pairs while the noise of J is below .35 of it, an average's below that times its factor."""
    p, n, mu = 2, 100_000, 1.0
    survey = SimpleNamespace(total=400.0, psu="v", icc=0.15)
    sample = SimpleNamespace(frame=SimpleNamespace(survey=survey, pairs=True))
    one = cluster_rules.ClusterPlan.of(sample, mu, n, "replace", ["", "b"], p)
    assert (one.sample, one.loose, one.mu) == (sample, 1.0, pytest.approx(mu * math.sqrt(0.1)))
    own = cluster_rules.radii(p, n, 400.0, mu * math.sqrt(0.1 / 2), "replace", icc=0.15, pairs=True)
    assert one.radii(p) == own
    assert 0.0 < own.ratio < 0.35
    many = cluster_rules.ClusterPlan.of(sample, mu, n, "replace", [""], p, averaged=True)
    assert (many.loose, many.mu) == pytest.approx((1.6, mu * math.sqrt(0.2)))


@pytest.mark.parametrize("last", [True, False])
def test_the_noise_of_a_pass_over_units_is_radius_over_mu(last):
    """By the formulas of the docstring: own radius, reach of one unit that changes, part of mu."""
    mu, N, p, trace, square = 0.3, 5000, 4, 3.0, 2.5
    lengths = SimpleNamespace(square=square)
    one = unit_pass(lengths, mu, N, p, "replace", trace, last=last, scale=False, tail=4000, clip=2.0)
    counts, information, meat, score = (0.06, 0.15, 0.05, 0.74) if last else (0.08, 0.30, 0.20, 0.42)
    H2 = trace * max(3.0, 0.22 * (mu * math.sqrt(information) * N / p) ** 0.7)
    J2 = square * max(3.0, 0.8 * math.sqrt(mu * math.sqrt(meat) * 4000 / p))
    sd = one.noise
    assert sd.information == pytest.approx(math.sqrt(2) * H2 / (mu * math.sqrt(information)))
    assert sd.meat == pytest.approx(math.sqrt(2) * J2 / (mu * math.sqrt(meat)))
    assert sd.score == pytest.approx(2 * 2.0 / (mu * math.sqrt(score)))
    assert sd.count == pytest.approx(math.sqrt(2) / (mu * math.sqrt(counts)))
    assert sd.scale == 0.0


def test_the_deviance_beyond_its_range_is_told_by_the_lengths_of_scores():
    """Of an event: half octave k beyond C has squared residuals ``phi C^2/p 2^(k + 1/2)``."""
    phi, C, p, width = 0.8, 3.0, 4, 2.5
    bins = np.zeros(16)
    bins[AT_CLIP - 2 : AT_CLIP + 4] = [900.0, 300.0, 100.0, 50.0, 20.0, 4.0]
    own = SimpleNamespace(
        family=FAMILIES["binomial"], low=np.zeros(3), width=np.array([1.0, 1.0, width]),
        _cut_near_zero=lambda found: 0.0,
    )  # fmt: skip
    last = SimpleNamespace(clip=C, p=p, noise=SimpleNamespace(count=5.0))
    k = np.arange(16.0) - AT_CLIP
    each = 2.0 * np.log1p(phi * C**2 / p * 2.0 ** (k + 0.5))
    seen = np.where(bins > CLEAR_OF_NOISE * 5.0, bins, 0.0)
    assert each[seen > 0.0].min() < width < each[seen > 0.0].max()
    expected = float(np.sum(seen * np.maximum(each - width, 0.0)))
    assert Deviance.cut(own, None, bins, last, phi) == pytest.approx(expected)


@pytest.mark.parametrize(("sample", "expected"), [
    (None, 50 / 46), (True, 49 / 46), (False, 1.0),
])  # fmt: skip
def test_the_small_sample_factor_is_that_of_the_errors(sample, expected):
    """HC1, CRV1, and none of a survey, whose errors are by its design."""
    frame = SimpleNamespace(survey=SimpleNamespace(errors_only=sample))
    given = None if sample is None else SimpleNamespace(frame=frame)
    plan = SimpleNamespace(request=SimpleNamespace(sample=given))
    assert _free(plan, 50.0, 4) == pytest.approx(expected)


def test_cells_that_are_not_seen_share_what_the_seen_leave():
    """Two cells hold nine tenths of 1000 units: the others a tenth, evenly."""
    counts = np.zeros(CELLS)
    counts[3], counts[10] = 500.0, 400.0
    found = Number("x", 1, 0.0, 1.0).shares(counts, 4.0, 1000.0)
    assert found[3] == pytest.approx(0.5 + 0.1 / CELLS) and found[10] == pytest.approx(0.4 + 0.1 / CELLS)
    assert found[0] == pytest.approx(0.1 / CELLS)


def test_the_terms_of_a_baseline_are_orthonormal_under_its_events():
    events = np.array([[30.0, 20.0, -2.0, 8.0, 1.0], [3.0, 9.0, 27.0, 9.0, 3.0]])
    one = SimpleNamespace(edges=np.array([0.0, 1.0, 2.0, 4.0, 5.0, 9.0]), events=events)
    for terms, own in zip(Timeline.terms.func(one), events, strict=True):
        share = np.maximum(own, 0.0) + _LEAST_EVENTS * np.maximum(own, 0.0).sum()
        assert (terms * share / share.sum()) @ terms.T == pytest.approx(np.eye(3), abs=1e-9)


def test_the_advice_of_clusters_is_the_first_budget_that_does():
    """The factor said is the least of the list at which both limits hold."""
    schema = dp.Schema(y=dp.Real(0, 1), x=dp.Real(-1, 1), v=dp.Levels(list(range(400))))
    said = set()
    for eps in (0.25, 0.5, 1.0, 2.0, 4.0):
        plan = dp.plan(
            "y ~ x", schema, n=20_000, eps=eps, delta=1e-6, verb="dp_ols",
            design=dp.Survey(psu="v", psus=400),
        )  # fmt: skip
        one, p = plan.detail.clusters, plan.design.p

        def does(more, one=one, p=p):
            then = replace(one, mu=one.mu * more).radii(p)
            noise = then.noise * one.frame.correction
            return then.ratio <= rules.CLUSTER_NOISE_HIGH and noise <= rules.CLUSTER_NOISE_MAX

        usual = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)
        first = next((more for more in usual if does(more)), None)
        told = one._enough(p)
        assert told.startswith("no budget" if first is None else f"about {first:g} times"), told
        said.add(first)
    assert len(said) > 2
