"""Public coordinates: whitened over the declared box, the same in every basis of a space."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.formula.build import build_design
from dpmodels.scoring.coordinates import public_coordinates

SCHEMA = dp.Schema(
    x=dp.Real(0, 60), g=dp.Levels(["a", "b", "c", "d"]), b=dp.Binary(), k=dp.Count(9),
    y=dp.Real(-1, 1),
)  # fmt: skip


def box(n=40_000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": rng.uniform(0, 60, n), "g": rng.choice(list("abcd"), n),
            "b": rng.integers(0, 2, n), "k": rng.uniform(0, 9, n), "y": 0.0,
        }
    )  # fmt: skip


def whitened(formula, frame):
    design = build_design(formula, SCHEMA)
    co = public_coordinates(design)
    X = np.asarray(design.matrix(frame))
    return (X * co.unit.scale[:-1] + co.unit.shift[:-1]) @ co.W0.T, co


@pytest.mark.statistical
@pytest.mark.parametrize(
    "formula", ["y ~ x", "y ~ x + g + b + k", "y ~ x * g", "y ~ bs(x, knots=[20, 40])", "y ~ x - 1"]
)
def test_rows_uniform_over_the_box_are_white(formula):
    """Seed 0: 40 000 rows, tolerance ten standard errors of a second moment."""
    u, co = whitened(formula, box())
    M = u.T @ u / len(u)
    sd = np.sqrt((u**2 * (u**2)).mean() / len(u))
    assert np.abs(M - np.eye(co.rank)).max() < max(10 * sd, 0.05)
    assert co.identified.all()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y ~ x + I(x**2) + I(x**3)", "y ~ legendre(x, 3)"),
        ("y ~ x * g", "y ~ g + x:g"),
        ("y ~ g", "y ~ g - 1"),
    ],
)
def test_another_basis_only_rotates(one, other):
    u, _ = whitened(one, box(500))
    v, _ = whitened(other, box(500))
    assert u @ u.T == pytest.approx(v @ v.T, abs=1e-5)


def test_a_column_that_is_a_combination_of_those_before_it_is_left_out():
    schema = dp.Schema(x=dp.Real(0, 1), y=dp.Real(0, 1))
    co = public_coordinates(build_design("y ~ x + I(2 * x)", schema))
    assert co.rank == 2
    assert co.identified.tolist() == [True, True, False]


def test_bought_ranges_stand_for_themselves():
    schema = dp.Schema(x=dp.Real(), y=dp.Real())
    design = build_design("y ~ x", schema).with_bounds({"x": (0, 60), "y": (-1, 1)})
    declared = public_coordinates(build_design("y ~ x", SCHEMA)).W0
    bought = public_coordinates(design).W0
    assert bought == pytest.approx(declared, abs=1e-3)
