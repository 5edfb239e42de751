"""``Surv()`` and ``strata()``: which rows count, and as what."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import FormulaError
from dpmodels.formula.schema import Schema
from dpmodels.formula.survival import build_survival_cells, build_survival_design, design_from

SCHEMA = Schema(
    start=dp.Real(0, 60),
    time=dp.Real(0, 60),
    dead=dp.Binary(),
    fate=dp.Levels(["alive", "dead"]),
    status=dp.Real(0, 1),
    g=dp.Levels(["a", "b"]),
    s=dp.Levels([1, 2, 3]),
    x=dp.Real(-1, 1),
)


def filled(design, **cells):
    """The buffer of rows; cells that are not given are all alike."""
    m = len(next(iter(cells.values())))
    plain = {"start": 0.0, "time": 5.0, "dead": 1.0, "fate": 1, "status": 1.0, "g": 0, "s": 0,
             "x": 0.5}  # fmt: skip
    chunk = {}
    for name in design.variables:
        given = np.array(cells.get(name, [plain[name]] * m), dtype=float)
        chunk[name] = given.astype(np.int32) if name in ("fate", "g", "s") else given
    out = np.empty((design.q, m))
    design.fill(chunk, out)
    return out


BUILD = [build_survival_cells, build_survival_design]


@pytest.mark.parametrize("build", BUILD)
def test_times_that_make_no_sense_count_as_nothing(build):
    design = build("Surv(time, dead) ~ g", SCHEMA)
    times = [5.0, 0.0, -3.0, np.nan, 1e-9, 60.0, 75.0, np.inf, -np.inf]
    got = filled(design, time=times)[design.survival.time]
    np.testing.assert_array_equal(
        got, [5.0, 0.0, np.nan, np.nan, 1e-9, 60.0, 60.0, 60.0, np.nan]  # 0 is a time, as in R
    )


@pytest.mark.parametrize("build", BUILD)
def test_an_event_after_the_declared_range_is_not_seen(build):
    design = build("Surv(time, dead) ~ g", SCHEMA)
    out = filled(design, time=[59.0, 60.0, 60.1, np.inf])
    np.testing.assert_array_equal(out[design.survival.event], [1, 1, 0, 0])
    np.testing.assert_array_equal(out[design.survival.time], [59, 60, 60, 60])


@pytest.mark.parametrize("build", BUILD)
def test_start_at_or_after_the_end_counts_as_nothing(build):
    design = build("Surv(start, time, dead) ~ g", SCHEMA)
    where = design.survival
    out = filled(design, start=[0, 2, 5, 7, -1, np.nan, 61, 0], time=[5, 5, 5, 5, 5, 5, 70, 61])
    stop, start = out[where.time], out[where.start]
    np.testing.assert_array_equal(stop, [5, 5, *[np.nan] * 5, 60])
    np.testing.assert_array_equal(start[[0, 1, 7]], [0, 2, 0])


@pytest.mark.parametrize("build", BUILD)
@pytest.mark.parametrize(
    ("event", "cells", "wanted"),
    [
        ("status", [0.0, 1.0, 2.0, 0.5, -1.0, np.nan], [0, 1, None, None, None, None]),
        ("dead", [0.0, 1.0, np.nan], [0, 1, None]),
        ("fate", [0, 1, -1], [0, 1, None]),
        ("status == 2", [0.0, 1.0, 2.0, np.nan], [0, 0, 1, None]),
        ("fate == 'alive'", [0, 1, -1], [1, 0, None]),
    ],
)
def test_event_codes(build, event, cells, wanted):
    design = build(f"Surv(time, {event}) ~ g", SCHEMA)
    where = design.survival
    out = filled(design, **{event.split(" ")[0]: cells})
    counts = np.isfinite(out[where.time])
    np.testing.assert_array_equal(counts, [w is not None for w in wanted])
    np.testing.assert_array_equal(out[where.event][counts], [w for w in wanted if w is not None])


def test_an_event_with_another_range_is_refused():
    schema = Schema(**{**SCHEMA, "status": dp.Real(1, 2)})
    with pytest.raises(FormulaError, match=r"status == 2"):
        build_survival_cells("Surv(time, status) ~ g", schema)


def test_groups_and_strata_are_crossed_and_labelled():
    design = build_survival_cells("Surv(time, dead) ~ g + x > 0 + strata(s)".replace(
        "x > 0", "I(x > 0)"), SCHEMA)  # fmt: skip
    where = design.survival
    assert where.groups == (
        "g=a, I(x > 0)=False", "g=a, I(x > 0)=True", "g=b, I(x > 0)=False", "g=b, I(x > 0)=True",
    )  # fmt: skip
    assert where.stratas == ("s=1", "s=2", "s=3")
    out = filled(design, g=[0, 1, -1, 1], x=[0.5, -0.5, 0.5, np.nan], s=[2, 0, 1, -1])
    np.testing.assert_array_equal(out[where.group], [1, 2, 4, 4])
    np.testing.assert_array_equal(out[where.strata], [2, 0, 1, 3])


def test_a_regression_has_its_follow_up_aside():
    design = build_survival_design("Surv(start, time, dead) ~ x + g + strata(s)", SCHEMA)
    where = design.survival
    assert [c.name for c in design.z] == [
        "Intercept", "x", "g[T.b]", "(start)", "(event)", "(strata)", "time",
    ]  # fmt: skip
    assert (where.start, where.event, where.strata, where.time) == (3, 4, 5, 6)
    assert design.auxiliary_place("event") == where.event
    out = filled(design, x=[0.5, np.nan, 0.5], g=[1, 0, -1], s=[2, 0, 0])
    np.testing.assert_array_equal(out[:, 0], [1, 0.5, 1, 0, 1, 2, 5])
    assert np.isnan(out[where.time, 1:]).all()  # a missing cell makes a zero row


def test_one_row_is_one_row_whatever_the_others_are():
    rng = np.random.default_rng(1)
    for build in BUILD:
        design = build("Surv(start, time, status) ~ g + strata(s)", SCHEMA)
        cells = {
            "start": rng.choice([0.0, 3.0, -1.0, np.nan], 40),
            "time": rng.choice([0.0, 2.0, 5.0, np.inf, np.nan], 40),
            "status": rng.choice([0.0, 1.0, 2.0, np.nan], 40),
            "g": rng.integers(-1, 2, 40),
            "s": rng.integers(-1, 3, 40),
        }
        whole = filled(design, **cells)
        one = np.column_stack(
            [filled(design, **{k: v[i : i + 1] for k, v in cells.items()}) for i in range(40)]
        )
        np.testing.assert_array_equal(whole, one)


def test_a_design_is_compiled_again_from_its_text():
    for build in BUILD:
        design = build("Surv(time, dead) ~ g + strata(s)", SCHEMA, subset="x > 0")
        again = design_from(design.to_dict())
        assert again.fingerprint == design.fingerprint
        assert again.survival == pickle.loads(pickle.dumps(design)).survival == design.survival
        out = filled(again, x=[0.5, -0.5])
        assert np.isfinite(out[again.survival.time]).tolist() == [True, False]


def test_everybody_has_the_event_without_one():
    design = build_survival_cells("Surv(time) ~ 1", SCHEMA)
    out = filled(design, time=[3.0, np.nan])
    np.testing.assert_array_equal(out, [[3.0, np.nan], [1.0, 2.0]])


@pytest.mark.parametrize("build", BUILD)
@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("time ~ g", "Surv"),
        ("Surv(time, s) ~ g", r"s == 3"),
        ("Surv(time, dead) ~ g:strata(s)", "separate term"),
        ("Surv(time, dead) ~ strata(x)", "number"),
        ("Surv(start, time, dead, x) ~ g", "one to three"),
        ("Surv(time, dead, type='left') ~ g", "type="),
        ("Surv(dead, time) ~ g", "0 .censored. or 1"),
        ("Surv(x, dead) ~ g", "negative"),
        ("Surv(time, dead) + x ~ g", "by itself"),
        ("Surv(time, dead) ~ Surv(time, dead)", "left"),
    ],
)
def test_bad_formulas(build, formula, said):
    with pytest.raises(FormulaError, match=said):
        build(formula, SCHEMA)


def test_nothing_is_filled_in():
    with pytest.raises(FormulaError, match="midpoint"):
        build_survival_cells("Surv(time, dead) ~ g", SCHEMA, na="impute-midpoint")
    schema = Schema(**{**SCHEMA, "time": dp.Real(0, 60, na=9.0)})
    design = build_survival_cells("Surv(time, dead) ~ g", schema, na="declared")
    assert np.isnan(filled(design, time=[np.nan])[0, 0])


def test_the_words_stand_nowhere_else():
    with pytest.raises(FormulaError, match="Surv"):
        dp.formula.build_design("x ~ Surv(time, dead)", SCHEMA)
    with pytest.raises(FormulaError, match="strata"):
        dp.formula.build_design("x ~ strata(g)", SCHEMA)
