"""The offset of a released table: time at risk by cell, ties, and hazards."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpmodels.models.survival.cox import _Table, hazards_of
from dpmodels.models.survival.table import CellNoise, Layout


def test_who_dies_in_a_cell_is_at_risk_for_about_half_of_it():
    """So is who dies at the beginning, in a cell as wide as the others."""
    layout = SimpleNamespace(edges=[0.0, 2.0, 5.0, 6.0], opening=False, K=3)
    weights = (np.eye(3), np.eye(3), np.eye(3))
    curve = SimpleNamespace(
        Y=np.array([100.0, 60.0, 1.0]), d=np.array([20.0, 6.0, 4.0]), layout=layout,
        weights=weights,
    )  # fmt: skip
    found = _Table.of(curve, apart=False).exposure
    assert found[:2] == pytest.approx([180.0, 171.0], rel=5e-3)
    assert 0.0 <= found[2] < 0.9  # never below nothing, where more die than are at risk
    layout.edges, layout.opening = [0.0, 0.0, 5.0, 6.0], True
    opened, left_out = _Table.of(curve, apart=True), _Table.of(curve, apart=False)
    assert opened.edges == pytest.approx([-3.0, 0.0, 5.0, 6.0])
    assert opened.exposure[:2] == pytest.approx([270.0, 285.0], rel=5e-3)
    assert left_out.edges == pytest.approx([0.0, 5.0, 6.0]) and left_out.K == 2


def test_a_tie_is_at_risk_as_efron_has_it():
    """The mean share of the others' hazard that a unit with an event in the cell is at risk of."""
    d, Y = np.array([1e-9, 20.0, 60.0, 99.0]), np.array([100.0, 100.0, 100.0, 100.0])
    layout = SimpleNamespace(edges=np.arange(5.0), opening=False, K=4)
    curve = SimpleNamespace(Y=Y, d=d, layout=layout, weights=(np.eye(4),) * 3)
    found = _Table.of(curve, apart=False)
    for share, part in zip(d / Y, found.parts, strict=True):
        left = (np.arange(100_000) + 0.5) / 100_000  # of the events of the cell, those before
        mass = 1.0 / (1.0 - left * share)
        assert part == pytest.approx((mass * (1.0 - left)).sum() / mass.sum(), abs=1e-4)
    # the hazard of a cell is that of its survivors: - log(1 - d/Y)
    assert d[1:] / found.exposure[1:] == pytest.approx(-np.log1p(-d[1:] / Y[1:]))


def test_a_hazard_stands_alone_where_it_is_clear_of_its_errors():
    """Ties in every third cell stay there; cells that differ by chance are smoothed."""
    layout = Layout(tuple(np.arange(13.0)), ("",), ("",), False)
    noise = CellNoise(layout, 1.0)
    tied = np.tile([0.0, 0.0, 900.0], 4)
    rng = np.random.default_rng(1)
    for d, sharp in ((tied, True), (rng.poisson(100.0, 12) * 1.0, False)):
        Y = 20_000.0 - np.cumsum(d) + d
        half = np.full(12, 0.5)
        weights = np.zeros((12, layout.M))
        weights[np.arange(12), np.arange(12)] = 1.0
        table = _Table(np.arange(13.0), d, Y - d / 2, half, weights, weights)
        (rates,), (events,) = hazards_of([table], noise)
        assert events is not None and (rates > 0.0).all()
        if sharp:
            assert rates[2::3] == pytest.approx((d / (Y - d / 2))[2::3], rel=0.02)
            assert rates[[0, 1, 3, 4]].max() < 0.05 * rates.max()
        else:
            assert np.ptp(rates) < np.ptp(d / (Y - d / 2))
