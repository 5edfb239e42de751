"""Formulas of the scoring passes, recomputed from the theory note: one line each, no shared code."""

import math
from dataclasses import replace

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.core.parallel import Released
from dpmodels.formula.schema import Schema
from dpmodels.privacy.run import Run
from dpmodels.proof.prove import MOST_COLUMNS, joint_sensitivity
from dpmodels.scoring import program as engine
from dpmodels.scoring.clip import missed_squares
from dpmodels.scoring.intervals import infer
from dpmodels.scoring.models import LeastSquares, Start, State
from dpmodels.scoring.pass_plan import Pilot
from dpmodels.scoring.passes import Centre
from dpmodels.scoring.rows import plan_scoring
from dpmodels.scoring.rules import AT_CLIP, BINS, LINEAR, TAME
from dpmodels.scoring.step import newton_step
from dpmodels.sums.ask import ALL, Ask
from dpmodels.sums.scaling import UnitScale
from dpmodels.variables import Real
from tests.one_pass import ScorePass

XY = Schema(a=Real(-1, 1), b=Real(-1, 1), y=Real(-1, 1))


def test_beyond_the_proved_columns_the_parts_own_sum_is_used():
    """theory 2.3: the lattice allowance is proved for p <= 4096."""
    assert MOST_COLUMNS == 4096
    own = math.sqrt(4.0 * 1.0 + 2.0 * 3.0)
    assert joint_sensitivity(3.0, 1.0, "replace", 4097) == pytest.approx(own, rel=1e-15)
    assert joint_sensitivity(3.0, 1.0, "replace", 4096) < 0.99 * own


def test_a_short_row_is_given_at_most_four_clips_a_unit():
    """|v| = .1 and a score at the clip: 4 C |v| = .4 C is what goes in."""
    plan = plan_scoring(LINEAR, 1.0, 400, 2, "replace").passes[0]
    C = plan.clip
    centre = Centre(
        UnitScale(np.ones(3), np.zeros(3), False), np.eye(2), np.zeros(2), np.eye(2), 1.0
    )
    row = np.array([[0.1], [0.0], [10.0 * C]])
    sums = ScorePass(plan, centre).sums([row])
    unit = plan.information / 2.0**20 * (4.0 * C / 2.0**20)
    assert float(sums.score[0]) * unit == pytest.approx(0.4 * C, rel=1e-4)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_start_is_told_its_noise(monkeypatch, relation):
    seen = {}
    real_ask, real_start = Ask.__call__, engine.Start.of

    def asked(self, step, query, read=ALL):
        if step == "start":
            seen["some rows"] = read.every > 1 or read.windows.every > 1
        return real_ask(self, step, query, read)

    def start(Q, s, n, coordinates):
        seen["s"], seen["n"] = s, n
        return real_start(Q, s, n, coordinates)

    monkeypatch.setattr(Ask, "__call__", asked)
    monkeypatch.setattr(engine.Start, "of", start)
    # passes before the last may read fewer rows than the start does
    monkeypatch.setattr(type(Pilot()), "early", lambda self, n: n // 2)
    from tests.replaying import replay_stage

    more = {"n_guess": 30} if relation == "add-remove" else {}
    plan = dp.plan(
        "y ~ a + b", XY, n=30, eps=4.0, delta=1e-4, scoring=True, relation=relation, **more
    )
    rng = np.random.default_rng(0)
    replay_stage(plan, {k: rng.uniform(-1, 1, 30) for k in "aby"}, 0)
    scoring = plan.detail.scoring(3, relation)
    reach = math.sqrt(2.0) if relation == "replace" else 1.0
    assert seen["s"] == pytest.approx(reach * scoring.radius**2 / scoring.start, rel=1e-12)
    count = seen["n"]  # where n is private as released, if that is clear of its noise
    assert count == 30 or (relation == "add-remove" and abs(count - 30) < 40)
    assert not seen["some rows"]  # it reads every row, whatever the guide


def passes(meat=True):
    return plan_scoring(LINEAR, 2.0, 5000, 2, "replace", meat=meat).passes


@pytest.mark.parametrize("n", [3000, 5000])
def test_shares_of_mu(n):
    """mu^2 of the passes .15, .20, .65; within them what the note says, rounded up never.
"""
    plan = plan_scoring(LINEAR, 2.0, n, 2, "replace")
    squares = [plan.start**2]
    for one in plan.passes:
        parts = (one.mu_joint, one.mu_scale, one.mu_histogram)
        squares.append(sum(part**2 for part in parts))
    assert np.array(squares) / 4.0 == pytest.approx([0.15, 0.20, 0.65], rel=1e-12)
    assert plan.passes[0].mu_scale ** 2 / 4.0 == pytest.approx(0.20 * 0.04, rel=1e-12)
    assert plan.passes[1].mu_histogram ** 2 / 4.0 == pytest.approx(0.65 * 0.07, rel=1e-12)


def state(theta=(0.0, 0.0), phi=1.0):
    return State(np.array(theta), np.eye(2), phi, np.eye(2))


def test_steps_before_the_last_are_short_and_small_eigenvalues_floored():
    first, last = passes()
    H = np.diag([1.0, 1e-6])
    score = np.array([50.0, 0.0]) * first.rows
    released = Released(H * first.rows, score, scale=1.0 * 2 * first.rows)
    step = newton_step(released, first, state(), LeastSquares())
    phi = 1.1  # 1.1 phi clip(q / (n p))
    assert step.state.phi == pytest.approx(phi)
    assert np.linalg.norm(step.d) == pytest.approx(math.sqrt(phi))
    released = Released(H * last.rows, np.array([0.0, 1.0]) * last.rows)
    step = newton_step(released, last, state(), LeastSquares())
    assert step.d == pytest.approx([0.0, 1.0 / step.floor], rel=1e-3)  # less what noise explains
    assert step.state.theta == pytest.approx(step.d)


def test_a_step_keeps_the_axes_of_its_information_and_the_last_looks_no_further():
    """What intervals read of H is what eigh says of it; no pass looks from where the last led."""
    first, last = passes()
    H = np.array([[1.0, 0.3], [0.3, 0.8]])
    for one in (first, last):
        released = Released(H * one.rows, np.array([0.1, 0.2]) * one.rows, scale=2.0 * one.rows)
        step = newton_step(released, one, state(), LeastSquares())
        for found, told in zip(step.axes, np.linalg.eigh((step.H + step.H.T) / 2.0), strict=True):
            assert np.array_equal(found, told)
    assert np.array_equal(step.state.W, state().W)


def test_the_start_is_floored_least_squares():
    from dpmodels.scoring.coordinates import Coordinates

    coordinates = Coordinates(
        UnitScale(np.ones(2), np.zeros(2), False), np.eye(1), np.ones(1, bool), np.zeros(1), 1.0
    )
    found = Start.of(np.array([[200.0, 60.0], [60.0, 50.0]]), 1.0, 100, coordinates)
    assert pytest.approx(np.array([[2.0]])) == found.M
    assert found.theta == pytest.approx([0.3])
    assert found.state().phi == pytest.approx(0.5 - 0.6 * 0.3)
    # least squares looks from less: without what two sds of h / M explain
    less = (2.0 * 0.01 / math.sqrt(2.0) / 2.0) ** 2 / 0.3
    heard = LeastSquares().start(found)
    assert heard.theta == pytest.approx([0.3 - less], rel=1e-12)
    assert heard.phi == pytest.approx(0.5 - 0.6 * 0.3 + 2.0 * less**2, rel=1e-12)
    lost = Start.of(np.array([[200.0, 1.3], [1.3, 50.0]]), 1.0, 100, coordinates)
    assert lost.state(above_noise=True).theta == pytest.approx([0.0], abs=1e-18)
    noisy = Start.of(np.array([[1.0, 60.0], [60.0, 50.0]]), 10.0, 100, coordinates)
    assert pytest.approx(np.array([[0.7 * 0.1 * math.sqrt(2.0)]])) == noisy.M


def test_covariances_of_the_last_step():
    last = replace(passes()[1], policy=TAME, uncut=True)  # with one clip
    n, part = last.rows, last.tail_rows
    J = 2.0 * np.eye(2)
    bins = np.zeros(BINS)
    bins[AT_CLIP - 2 : AT_CLIP + 1] = 400.0, 200.0, 100.0
    H = np.diag([1.0, 0.6])
    out = Released(H * n, np.zeros(2), meat=J * part, bins=bins)
    step = newton_step(out, last, state(phi=0.25), LeastSquares())
    step = replace(step, d=np.array([0.3, 0.4]))
    found = infer(out, last, state(phi=0.25), step, LeastSquares(), free=1.1)
    values = np.diag(step.H)  # shrunk towards their mean, less the second order of their noise
    assert np.abs(values - [1.0, 0.6]).max() < 0.01
    inverse = np.diag(1.0 / (values - step.nu**2 / 2 * (np.sum(1 / values) + 1 / values)))
    assert found.inverse == pytest.approx(inverse, rel=1e-12)
    # what the meat misses beyond its radius, by the histogram, is shared by all directions
    missed = missed_squares(out, last) * last.clip**2 / 2
    assert missed > 0.0
    wide = J + missed * np.eye(2)
    assert found.sampling == pytest.approx(0.25 * 1.1 / n * inverse @ wide @ inverse, rel=1e-9)
    sd = last.noise.score / n
    wanted = 0.25 * sd**2 * np.eye(2)
    wanted += step.nu**2 / 2 * (0.25 * np.eye(2) + np.outer(step.d, step.d))
    assert found.privacy == pytest.approx(inverse @ wanted @ inverse, rel=1e-9)
    # rows that are weighed lose no score: .6 noise sds
    row, length = np.array([[1.0, 0.0]]), inverse[0, 0] * 0.5
    allowed = replace(found.allowance, every=0.0)
    assert allowed.bias(row) == pytest.approx([length * 0.6 * sd], rel=1e-9)
    assert found.allowance.bias(row) - allowed.bias(row) == pytest.approx(found.allowance.every)
    people = infer(out, last, state(phi=0.25), step, LeastSquares(), free=1.1, tail=0.5)
    moved = replace(people.allowance, every=0.0)
    assert moved.bias(row) == pytest.approx([length * 0.5], rel=1e-9)


def test_an_unresolved_direction_counts_as_a_fifth_of_the_floor():
    last = passes()[1]
    out = Released(
        np.diag([1.0, 0.0]) * last.rows, np.zeros(2), meat=np.eye(2) * last.tail_rows,
        bins=np.zeros(BINS),
    )  # fmt: skip
    step = newton_step(out, last, state(), LeastSquares())
    found = infer(out, last, state(), step, LeastSquares(), free=1.0)
    assert step.axes[0][0] < 0.2 * step.floor
    assert found.inverse[1, 1] == pytest.approx(5.0 / step.floor)
    assert found.undetermined(np.eye(2)).tolist() == [False, True]


@pytest.mark.parametrize("bought", [False, True])
def test_the_price_of_ranges_is_taken_from_the_passes(bought):
    """Shares of the ledger sum to 1, whatever was bought."""
    schema = Schema(a=Real(), b=Real(-1, 1), y=Real(-1, 1)) if bought else XY
    plan = dp.plan("y ~ a + b", schema, n=20_000, eps=2.0, delta=1e-6)
    assert math.fsum(s.share for s in plan.steps) == pytest.approx(1.0, rel=1e-9)
    assert math.fsum(plan.shares.values()) == pytest.approx(1.0, rel=1e-9)
    # declared ranges are looked into, for a twentieth; the count of usable rows comes before
    left = 1.0 - plan.shares["usable rows"]
    assert plan.shares["last"] == pytest.approx(0.65 * left * (0.85 if bought else 0.95))


def test_windows_need_a_public_order_and_a_public_count():
    """Positions say nothing of a row only where it is replaced in its place."""
    for relation, ordered, windows in (
        ("replace", True, True), ("replace", False, False), ("add-remove", True, False),
    ):  # fmt: skip
        more = {"n_guess": 2_000_000} if relation == "add-remove" else {}
        plan = dp.plan(
            "y ~ a + b", XY, n=2_000_000, eps=8.0, delta=1e-6, public_order=ordered,
            relation=relation, **more,
        )  # fmt: skip
        assert (plan.detail.pilot.windows.every > 1) == windows


def test_a_bought_range_is_a_scale_not_a_claim():
    from dpmodels.ranges import widen_ranges

    schema = Schema(a=Real(), b=Real(-1, 1), y=Real(-1, 1))
    plan = dp.plan("y ~ a + b", schema, n=20_000, eps=2.0, delta=1e-6)
    design = plan.design.with_bounds({"a": (2.0, 4.0)})
    read = widen_ranges(design, plan.design)
    ranges = {c.name: c.interval for c in read.z}
    assert ranges["a"] == (3.0 - 64.0, 3.0 + 64.0)
    assert ranges["b"] == (-1, 1)


def test_what_the_design_does_not_determine_has_no_error(quiet):
    import pandas as pd

    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.uniform(-1, 1, 4000), "b": rng.uniform(-1, 1, 4000)})
    frame["y"] = np.clip(frame["a"], -1, 1)
    fit = dp.dp_ols("y ~ a + I(2*a) + b", frame, eps=8, delta=1e-5, schema=XY, scoring=True)
    V = fit.vcov().to_numpy()
    assert np.isnan(V[2]).all() and np.isnan(V[:, 2]).all()
    assert np.isfinite(V[np.ix_([0, 1, 3], [0, 1, 3])]).all()


def test_the_small_sample_factor(quiet, monkeypatch):
    """HC1: n / (n - p) reaches the intervals."""
    from dpmodels.scoring import fit as report

    seen = []
    real = report.infer
    monkeypatch.setattr(report, "infer", lambda *a, **k: seen.append(k["free"]) or real(*a, **k))
    import pandas as pd

    rng = np.random.default_rng(1)
    frame = pd.DataFrame({k: rng.uniform(-1, 1, 500) for k in "aby"})
    dp.dp_ols("y ~ a + b", frame, eps=8, delta=1e-5, schema=XY, scoring=True)
    assert seen == [pytest.approx(500 / 497)]


def test_a_pass_can_be_drawn_once():
    steps = plan_scoring(LINEAR, 1.0, 100, 2, "replace").ledger
    assert [s.name for s in steps] == [
        "start", "information and scores 1", "scale 1", "information and scores 2",
        "score lengths 2",
    ]  # fmt: skip
    assert Run(steps, None).undrawn == tuple(s.name for s in steps)


def test_a_score_of_length_zero_is_in_the_first_bin():
    """frexp(0) is (0, 0): next to the clip, if nobody looks."""
    from dpmodels.core.parallel import counted_lengths

    bins = counted_lengths(np.array([0.0, 1e-200, 0.99, 1.0, 1e9]))
    assert bins[0] == 2 and bins[AT_CLIP - 1] == 1 and bins[AT_CLIP] == 1 and bins[-1] == 1
