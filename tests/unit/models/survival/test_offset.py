"""The offset of a released table: time at risk by cell, and straight lines of hazards."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpmodels.models.survival.cox import _Table, in_halves


def test_who_dies_in_a_cell_is_at_risk_for_half_of_it():
    """Who dies at the beginning is at risk of it whole, in a cell as wide as the others."""
    layout = SimpleNamespace(edges=[0.0, 2.0, 5.0, 6.0], opening=False, K=3)
    weights = (np.eye(3), np.eye(3), np.eye(3))
    curve = SimpleNamespace(
        Y=np.array([100.0, 60.0, 1.0]), d=np.array([20.0, 6.0, 4.0]), layout=layout,
        weights=weights,
    )  # fmt: skip
    found = _Table.of(curve, apart=False).exposure
    assert found == pytest.approx([180.0, 171.0, 0.0])  # never below nothing
    layout.edges, layout.opening = [0.0, 0.0, 5.0, 6.0], True
    opened, left_out = _Table.of(curve, apart=True), _Table.of(curve, apart=False)
    assert opened.edges == pytest.approx([-3.0, 0.0, 5.0, 6.0])
    assert opened.exposure == pytest.approx([300.0, 285.0, 0.0])
    assert left_out.edges == pytest.approx([0.0, 5.0, 6.0]) and left_out.K == 2


@pytest.mark.parametrize("edges", [[0, 1, 2, 3, 4], [0, 1, 3, 6, 10], [0, 2]])
def test_a_hazard_on_a_straight_line_stays_on_it(edges):
    """Both halves of every cell, the first and the last too, whatever the widths of cells."""
    edges = np.array(edges, dtype=float)
    middle = (edges[1:] + edges[:-1]) / 2
    line = in_halves(edges, (1.0 + 0.1 * middle)[None], np.full((1, len(middle)), 6.0))
    if len(middle) == 1:
        assert line.edges == pytest.approx(edges)
        return
    at = (line.edges[1:] + line.edges[:-1]) / 2
    assert line.edges == pytest.approx(np.sort(np.append(edges, middle)))
    assert line.rates[0] == pytest.approx(1.0 + 0.1 * at)
    assert line.events[0] == pytest.approx(np.full(2 * len(middle), 3.0))


def test_a_bent_hazard_is_on_the_lines_through_its_middles():
    line = in_halves(np.arange(4.0), np.array([[1.0, 3.0, 2.0]]), np.ones((1, 3)))
    assert line.rates[0] == pytest.approx([0.5, 1.5, 2.5, 2.75, 2.25, 1.75])
