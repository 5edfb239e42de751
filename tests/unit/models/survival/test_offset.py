"""The offset of a released table: time at risk by cell, and straight lines of hazards."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpmodels.models.survival.cox import _exposure, in_halves


def test_who_dies_in_a_cell_is_at_risk_for_half_of_it():
    curve = SimpleNamespace(
        Y=np.array([100.0, 60.0, 1.0]), d=np.array([20.0, 6.0, 4.0]),
        layout=SimpleNamespace(edges=[0.0, 2.0, 5.0, 6.0]),
    )  # fmt: skip
    assert _exposure(curve) == pytest.approx([180.0, 171.0, 0.0])  # never below nothing


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
