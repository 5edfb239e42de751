"""The engine of passes over units: noise as charged, steps, coordinates, sums of the scale."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.core.units import UnitPass
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.sets import NuclearBall
from dpmodels.proof.statistics import Gram
from dpmodels.scoring.clip import Lengths
from dpmodels.scoring.rules import OCTAVE_ZERO, OCTAVES
from dpmodels.scoring.unit_passes import RegressionRows
from dpmodels.scoring.units import unit_pass
from dpmodels.sources.people import BlockOfPeople
from tests.one_pass import sums_of
from tests.unit.scoring.test_expansion import N, P, centre, plan


@pytest.fixture
def panel():
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(3000), 6)
    between = rng.uniform(-1, 1, 3000)[who]
    within = rng.uniform(-1, 1, len(who))
    y = 0.5 + between + 0.5 * within + rng.normal(size=3000)[who] + rng.normal(size=len(who))
    return pd.DataFrame({"id": who, "b": between, "w": within, "y": y})


def fitted(data, *, eps, y=(-8, 8), b=(-1, 1), seed=1, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_ols("y ~ b + w", data, eps=eps, delta=1e-6, unit="id", seed=seed,
                         bounds={"y": y, "b": b, "w": (-1, 1)}, **more)  # fmt: skip


def test_without_noise_it_is_least_squares_with_errors_by_person(panel):
    fit = fitted(panel, eps=1e5)
    X = np.column_stack([np.ones(len(panel)), panel.b, panel.w])
    b = np.linalg.lstsq(X, panel.y, rcond=None)[0]
    H = np.linalg.inv(X.T @ X)
    S = np.add.reduceat(X * (panel.y.to_numpy() - X @ b)[:, None], np.arange(0, len(X), 6))
    se = np.sqrt(np.diag(H @ (S.T @ S) @ H))
    assert np.abs(fit.params.to_numpy() - b).max() < 0.2 * se.min()
    assert fit.bse.to_numpy() == pytest.approx(se, rel=0.2)  # the meat is of some people


def test_a_box_ten_times_too_wide_or_off_costs_little(panel):
    """Median width over 12 seeds; the boxes of y and b ten times as wide, or ten sds away."""

    def width(**how):
        return np.median([fitted(panel, eps=1, seed=s, **how).bse for s in range(12)], axis=0)

    plain = width()
    assert (width(y=(-80, 80), b=(-10, 10)) < 1.2 * plain).all()
    assert (width(y=(-30, 5), b=(-11, 1)) < 1.2 * plain).all()


def test_information_is_looked_at_in_coordinates_of_its_own(panel):
    """Between and within people scores differ by 5 in variance, the information does not."""
    from dpmodels.scoring import units as shell

    seen = []
    plain = shell.release_scoring

    def watched(*args):
        seen.append((yield from plain(*args)))
        return seen[-1]

    shell.release_scoring = watched
    try:
        fitted(panel, eps=50)
    finally:
        shell.release_scoring = plain
    ((chain,),) = (found.fits for found in seen)
    values = np.linalg.eigvalsh(chain.released[-1].information / chain.plans[-1].rows)
    assert values.max() < 2.0 * values.min()
    spread = np.linalg.eigvalsh(chain.turn @ chain.turn.T)
    assert spread.max() > 2.5 * spread.min()


def test_a_start_of_noise_does_not_lead_far_away():
    """60 people of one row, eps = .05: a step is no longer than two spreads of the response."""
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"id": np.arange(60), "b": rng.uniform(-1, 1, 60),
                         "w": rng.uniform(-1, 1, 60), "y": rng.uniform(-1, 1, 60)})  # fmt: skip
    from dpmodels.scoring import units as expand_engine

    lengths = []
    plain = expand_engine.newton_step

    def watched(released, plan, state, expansion, turn):
        step = plain(released, plan, state, expansion, turn)
        if not plan.last:
            lengths.append(float(step.d @ step.d))
        return step

    expand_engine.newton_step = watched
    try:
        for seed in range(8):
            fitted(data, eps=0.05, y=(-1, 1), seed=seed)
    finally:
        expand_engine.newton_step = plain
    assert max(lengths) < 1e5 and len(lengths) == 16


def test_noise_is_that_of_the_radii_and_the_share():
    one = plan()
    own = sensitivity(Gram(NuclearBall(P)), "replace", "l2")
    parts = 0.3 * np.sqrt([0.15, 0.05, 0.74])
    for name, mu in zip(("information", "meat"), parts, strict=False):
        R2 = getattr(one, name) ** 2
        assert getattr(one.noise, name) == pytest.approx(own * R2 / mu)
    assert one.noise.score == pytest.approx(2.0 * one.clip / parts[-1])
    assert one.mu_joint == pytest.approx(0.3 * np.sqrt(0.94))


def test_the_scale_of_a_person_is_cut():
    """A person of many long rows counts as one whole unit of the scale."""
    counts = np.zeros(OCTAVES)
    counts[OCTAVE_ZERO + 1] = N
    early = unit_pass(
        Lengths(counts, 5.0), 0.3, N, P, "replace", float(P), last=False, scale=True, tail=N
    )
    rows = np.ones((P + 1, 40)) * 50.0
    block = BlockOfPeople(rows, np.array([0]), np.array([40]))
    assert sums_of(UnitPass(early, P), RegressionRows(centre(1)), [block]).scale == 2**20


@pytest.mark.parametrize("which", ["UNITS_BEAR", "BOUNDED_BEAR", "ROWS_BEAR"])
def test_intervals_stretch_continuously_with_the_noise_of_the_information(which):
    from dpmodels.scoring import intervals, rules

    limits = getattr(rules, which)
    quiet, lost = limits
    at = np.linspace(0.0, 2.0 * lost, 40001)
    factors = np.array([intervals.stretch(noise, limits, 100.0) for noise in at])
    assert (factors[at <= quiet] == 1.0).all() and (np.diff(factors) >= 0.0).all()
    assert factors[-1] == pytest.approx(100.0)
    assert intervals.stretch(lost, limits, 4.0) == pytest.approx(4.0)
    middle = at < lost - 0.05 * (lost - quiet)  # no jump: just beyond it is as wide as just below
    assert np.diff(factors)[middle[1:]].max() < 0.02 * factors[middle].max()


def test_what_is_not_determined_is_said_of_a_coefficient_by_its_own_interval():
    """Of two columns with the same interval one has a range a hundred times as wide."""
    import dpmodels as dp
    from dpmodels.formula.build import build_design
    from dpmodels.scoring.notes import too_wide
    from dpmodels.scoring.rules import MAX_RATIO

    schema = dp.Schema(y=dp.Real(0, 10), x=dp.Real(0, 1), v=dp.Real(0, 100))
    design = build_design("y ~ x + v", schema)
    half = np.array([9.0, 9.0, 9.0])
    assert too_wide(design, design.names, half, linear=True).tolist() == [False, False, True]
    limit = np.log(MAX_RATIO)
    just = np.array([limit - 0.1, limit + 0.1, limit / 100 - 0.01])
    assert too_wide(design, design.names, just, linear=False).tolist() == [False, True, False]
    assert not too_wide(design, ("other",), np.array([np.nan]), linear=False).any()


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")
def test_hazards_are_tested_where_they_are_known_and_cover_on_both_sides(quiet):
    """40 Cox fits by people, noise of the information .4 to 1.2 (all n/d before): 95 % intervals
    cover at least .88 of 80 coefficients (less with probability .007 where it is .95), most are
    tested, and p agrees with the interval."""
    import pandas as pd

    import dpmodels as dp

    rng = np.random.default_rng(8)
    hits, tested = [], []
    schema = dp.Schema(t=dp.Real(0, 10), e=dp.Binary(), x=dp.Real(-1, 1), b=dp.Binary())
    for seed in range(40):
        n = 1800
        d = pd.DataFrame({"x": rng.uniform(-1, 1, n), "b": rng.integers(0, 2, n)})
        t = rng.exponential(4, n) * np.exp(-0.8 * d["x"] - 0.5 * d["b"])
        c = rng.uniform(0, 10, n)
        d["t"], d["e"], d["pid"] = np.minimum(t, c), (t < c).astype(int), np.arange(n)
        fit = dp.dp_coxph("Surv(t, e) ~ x + b", d, eps=1, delta=1e-6, schema=schema, unit="pid",
                          seed=seed)  # fmt: skip
        ends = fit.conf_int().to_numpy()
        hits += list((ends[:, 0] <= [0.8, 0.5]) & (ends[:, 1] >= [0.8, 0.5]))
        known = fit.pvalues.notna().to_numpy()
        tested += list(known)
        zero = (ends[:, 0] > 0) | (ends[:, 1] < 0)
        assert ((fit.pvalues.to_numpy() < 0.05) == zero)[known].all()
    assert np.mean(hits) >= 0.88 and np.mean(tested) >= 0.7
