"""The coefficient plot: two nested bars, from released numbers."""

from __future__ import annotations

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def bars(ax):
    """Half widths of the error bars, one array a container."""
    return [
        np.array([(seg[1, 0] - seg[0, 0]) / 2 for seg in c.lines[2][0].get_segments()])
        for c in ax.containers
    ]


def test_two_nested_bars(fit):
    ax = fit.plot()
    total, sampling = bars(ax)
    z = 1.959963984540054
    np.testing.assert_allclose(total, z * fit.bse[1:])
    np.testing.assert_allclose(sampling, z * fit.bse_sampling[1:])
    assert [t.get_text() for t in ax.get_yticklabels()] == list(fit.params.index[1:])


def test_options(fit):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert fit.coefplot(ax, level=0.5, intercept=True, color="black") is ax
    assert len(bars(ax)[0]) == 5 and bars(ax)[0][0] < fit.bse["Intercept"]


@pytest.mark.parametrize("kwargs", [{"inference": False}, {"reply": False}, {"seeded": True}])
def test_fits_without_all_numbers_still_plot(make_fit, kwargs):
    ax = make_fit(**kwargs).plot()
    ax.figure.canvas.draw()
    assert ("NOT PRIVATE" in ax.get_title()) == bool(kwargs.get("seeded"))
