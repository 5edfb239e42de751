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


def _marks(ax):
    """Name -> x of the dots of each fit, by the tick nearest to their row."""
    names = [t.get_text() for t in ax.get_yticklabels()]
    lines = [line for line in ax.lines if line.get_marker() == "o"]
    return [
        {names[int(np.floor(y + 1e-9))]: x for x, y in zip(*line.get_data(), strict=True)}
        for line in lines
    ]


@pytest.mark.usefixtures("quiet")
def test_two_fits_share_axes():
    """The second call drew the first one's coefficients on its own labels, upside down."""
    import matplotlib.pyplot as plt

    import dpmodels as dp

    _, ax = plt.subplots()
    data = dp.datasets.rand_hie()
    call = {"eps": 2, "delta": 1e-6, "seed": 1}
    bounds = {"mdvis": (0, 80), "lncoins": (0, 5), "lpi": (0, 8)}
    one = dp.dp_ols("mdvis ~ lncoins + lpi", data, bounds=bounds, **call)
    two = dp.dp_ols("mdvis ~ idp + lncoins", data, bounds=bounds, **call)
    one.plot(ax=ax, labels=None)
    two.plot(ax=ax, labels=None)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["lncoins", "lpi", "idp"]
    for fit, marks in zip((one, two), _marks(ax), strict=True):
        assert marks == pytest.approx(fit.params.drop("Intercept").to_dict())
    assert ax.yaxis_inverted()
    colours = [line.get_markeredgecolor() for line in ax.lines if line.get_marker() == "o"]
    assert len(set(colours)) == 2
    assert one.formula in ax.get_title() and two.formula in ax.get_title()


def test_several_fits_leave_the_bars_free_and_ratios_have_plain_ticks(make_fit):
    """The legend lay over the bars, and the axis of ratios had one mark, 10^0."""
    import dpmodels as dp

    ax = dp.coef_plot([make_fit(), make_fit(), make_fit()], keep="alcohol", exponentiate=True)
    ax.figure.canvas.draw()
    (legend,) = ax.figure.legends
    assert ax.get_legend() is None
    assert not legend.get_window_extent().overlaps(ax.get_window_extent())
    assert ax.get_window_extent().height > 40  # three marks in one row
    low, high = ax.get_xlim()
    ticks = [t.get_text() for t in ax.get_xticklabels() if low <= t.get_position()[0] <= high]
    assert len(ticks) > 1 and all(float(t) > 0 for t in ticks)
