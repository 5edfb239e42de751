"""Audits of the noised table, and of the audits: broken twins must be flagged."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise
from dpmodels.audit.kit import check_sensitivity, corner_neighbours
from dpmodels.errors import PrivacyBugError
from dpmodels.formula.build import build_design
from dpmodels.models.noised.calibration import plan_noise
from dpmodels.own.noised import layout_of, noised_rows
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.privacy.run import Run
from dpmodels.sources.rows import Rows
from dpmodels.sources.tasks import as_source
from dpmodels.sums.ask import Ask
from tests.privacy.cases.noised import CASE, MUTANTS


@pytest.mark.parametrize("check", CASE.release, ids=lambda c: c.name)
def test_rows_keep_their_promise(check):
    finding = check.run(20_000, 0)
    assert finding.passed, str(finding)


@pytest.mark.parametrize("check", MUTANTS, ids=lambda c: c.name)
def test_broken_twins_are_flagged(check):
    assert not check.run(20_000, 0).passed


def test_structure_and_sentinels():
    for check in (*CASE.structure, *CASE.sentinels):
        finding = check.run()
        assert finding.passed, str(finding)


def test_rows_move_by_no_more_than_the_diameter():
    """Deterministic: corner neighbours of one row, in units of the ranges, unclipped cells too."""
    from dpmodels.formula.build import build_design
    from dpmodels.sources.rows import Rows
    from dpmodels.sources.tasks import as_source

    schema = dp.Schema(a=dp.Real(-1, 5), b=dp.Real(0, 2))
    design = build_design(
        "~ a + b + I(a**2) + a:b", schema, na="impute-midpoint", one_sided_ok=True
    )
    lay = layout_of(design)
    ends = design.intervals()[list(lay.rows)]

    def rows(x):
        source = as_source({"a": x[:, 0], "b": x[:, 1]})
        block = np.concatenate([b.copy() for b in Rows(source, len(x)).blocks(design)], axis=1)
        z = (block[list(lay.rows)] - ends[:, :1]) / (ends[:, 1:] - ends[:, :1])
        return z.ravel()

    finding = check_sensitivity(rows, corner_neighbours([(-1, 5), (0, 2)]), lay.record[0] + 1e-9)
    assert finding.passed, str(finding)
    assert lay.record[0] == pytest.approx(2.0)
    broken = check_sensitivity(rows, corner_neighbours([(-1, 5), (0, 2)]), math.sqrt(2.0))
    assert not broken.passed


def test_a_record_far_outside_its_range_is_clipped_before_noise(quiet):
    """An outlier must not stand out: the released cell is the bound plus noise."""
    frame = {"a": [1e9] * 2000}
    rel = dp.dp_release(frame, eps=2, delta=0, schema=dp.Schema(a=dp.Real(0, 1)), seed=1)
    assert np.abs(rel.values).max() < 40
    assert rel.values.mean() == pytest.approx(1.0, abs=0.15)


def test_order_of_the_input_is_not_in_the_output(quiet):
    """A sorted file: Spearman correlation of position and value, 4000 rows, band 5 SE."""
    frame = {"a": np.linspace(0, 1, 4000)}
    rel = dp.dp_release(frame, eps=50, delta=0, schema=dp.Schema(a=dp.Real(0, 1)), seed=1)
    order = np.argsort(np.argsort(rel.values[0]))
    assert abs(np.corrcoef(order, np.arange(4000))[0, 1]) < 5 / math.sqrt(4000)


@pytest.mark.parametrize(
    "formula",
    ["y ~ x + C(z, levels=[0, 1])", "y ~ x:C(z, levels=[0, 1]) + g", "~ x - 1 + C(z, levels=[0, 1])",
     "y ~ cut(z, [1, 2]) * x", "y ~ g * x + poly(z, 2, raw=True)"],
)  # fmt: skip
def test_an_attribute_moves_its_own_columns_only(formula):
    """A level that is not listed marked its row in the response: another attribute's column."""
    schema = dp.Schema(y=dp.Real(0, 1), x=dp.Real(0, 1), z=dp.Real(0, 9), g=dp.Levels(["a", "b"]))
    design = build_design(formula, schema, na="impute-midpoint", one_sided_ok=True)
    layout = layout_of(design)
    d, step = layout.d, "noised table"
    noiseless = SimpleNamespace(
        shapes=[1.0] * d, unit="record", stages=((step, tuple(range(d)), 1e3),)
    )

    def row(**cells):
        frame = pd.DataFrame([{"y": 0.9, "x": 0.8, "z": 0.0, "g": "a", **cells}])
        rows = Rows(as_source(frame), 1)
        run = Run([Step(step, Gaussian(1.0))], ZeroNoise())
        made = noised_rows(design, noiseless, (), Ask(rows, run), keep_order=True)
        return made.values[:, 0]

    first = row()
    for name, cells in {
        "x": [0.0, np.nan, "odd"], "y": [np.nan, 7.0], "z": [1.0, 5.0, np.nan, np.inf],
        "g": ["b", "other", None],
    }.items():  # fmt: skip
        own = {j for group in layout.groups if name in group.variables for j in group.columns}
        for cell in cells:
            moved = np.flatnonzero(row(**{name: cell}) != first).tolist()
            assert set(moved) <= own, (name, cell, [layout.names[j] for j in moved])


@pytest.mark.parametrize(
    "change",
    [{"sensitivities": (0.9,)}, {"unit": "record"}, {"shapes": (0.5,) * 3}, {"blocks": ((0, 1),)}],
)
def test_a_plan_of_less_noise_than_a_unit_needs_is_refused(change):
    """Of an attribute: its reach, the whole record, narrower shapes, a column without noise."""
    schema = dp.Schema(a=dp.Real(0, 1), g=dp.Levels(["u", "v", "w"]))
    design = build_design("~ a + g", schema, na="impute-midpoint", one_sided_ok=True)
    plan = plan_noise(layout_of(design), 1.0, 0.1, unit="attribute", noise="sl")
    rows = Rows(as_source(pd.DataFrame({"a": [0.5] * 3, "g": ["u"] * 3})), 3)

    def made(plan):
        ask = Ask(rows, Run(plan.steps, ZeroNoise()))
        return noised_rows(design, plan, (), ask, keep_order=True)

    assert made(plan).values.shape == (3, 3)
    with pytest.raises(PrivacyBugError, match=r"moves its columns|to each column"):
        made(dataclasses.replace(plan, **change))
