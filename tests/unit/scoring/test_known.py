"""Entries of an information that are known whatever the rows: which they are, and what goes."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.formula.build import build_design
from dpmodels.formula.describe import public_points
from dpmodels.scoring.coordinates import public_coordinates
from dpmodels.scoring.known import known_entries

SCHEMA = dp.Schema(
    x=dp.Real(-1, 3), z=dp.Real(0, 1), b=dp.Binary(), g=dp.Levels(list("abcd")),
    h=dp.Levels(list("uvw")), y=dp.Real(0, 1),
)  # fmt: skip
FORMULAS = [
    "y ~ x + g", "y ~ g * h + x", "y ~ x * g + I(x**2)", "y ~ b * g + x + z", "y ~ 0 + g + x",
    "y ~ C(g, Sum) * x", "y ~ g : h", "y ~ b : x + b",
]  # fmt: skip


def rows_of(design):
    X = np.asarray(design.matrix(public_points(design, 3000)), dtype=float)
    return X[np.isfinite(X).all(axis=1)]


@pytest.mark.parametrize("formula", FORMULAS)
def test_what_is_known_holds_of_every_weighted_sum_of_rows(formula):
    design = build_design(formula, SCHEMA)
    coordinates = public_coordinates(design)
    known, X = known_entries(design, coordinates), rows_of(design)
    assert known is not None
    weight = np.random.default_rng(0).exponential(size=len(X))
    G = X.T @ (weight[:, None] * X)
    assert all(G[one] == 0.0 for one in known.zero)
    assert all(G[a] == pytest.approx(G[b], rel=1e-9, abs=1e-9) for a, b in known.equal)
    unit, p = coordinates.unit, design.p
    U = (X * unit.scale[:p] + unit.shift[:p]) @ coordinates.W0.T
    assert pytest.approx(X, abs=1e-9) == U @ known.back.T
    W = np.random.default_rng(1).normal(size=(p, p)) / 3.0 + np.eye(p)
    V = U @ W.T
    projection = known.projection(W)
    M = V.T @ (weight[:, None] * V)
    assert projection.of(M) == pytest.approx(M, rel=1e-7, abs=1e-9 * np.abs(M).max())


def test_a_projection_takes_away_as_much_noise_as_it_says():
    """Seed 2: mean squared noise of 200 draws within a tenth of the part that stays."""
    design = build_design("y ~ g * h + x", SCHEMA)
    projection = known_entries(design, public_coordinates(design)).projection(np.eye(design.p))
    rng, part = np.random.default_rng(2), []
    r = design.p
    for _ in range(200):
        noise = rng.normal(size=(r, r))
        noise = (noise + noise.T) / 2.0
        left = projection.of(noise)
        assert projection.of(left) == pytest.approx(left, abs=1e-9)
        part.append(np.sum(left**2) / np.sum(noise**2))
    stays = 1.0 - len(projection.forms) / (r * (r + 1) / 2)
    assert np.mean(part) == pytest.approx(stays, rel=0.1)


def test_nothing_is_known_where_coordinates_hold_no_row_whole():
    excluded = build_design("y ~ g + x", SCHEMA, subset="g != 'b'")
    assert known_entries(excluded, public_coordinates(excluded)) is None
    numbers = build_design("y ~ x + z", SCHEMA)
    assert known_entries(numbers, public_coordinates(numbers)) is None
