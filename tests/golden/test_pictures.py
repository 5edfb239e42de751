"""Pictures against stored ones, looked at when they were stored.

Compared in grey at 60 dots an inch, blurred: letters of another font move the mean difference by a
few thousandths, a bar that is missing or elsewhere by more. ``DPMODELS_UPDATE_GOLDEN=1`` stores.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import dpmodels as dp

matplotlib = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")
image = pytest.importorskip("matplotlib.image")
FILES = Path(__file__).parent / "files"
#: Largest mean difference of the blurred greys, of 1.
MOST = 0.02
#: The matplotlib that drew the stored ones: another lays out in another way (fonts come with it).
DRAWN_BY = "3.11"


def two(make_fit):
    return [make_fit(), make_fit(estimate={"params": np.array([2.4, 0.30, -1.1, 0.8, -0.2])})]


PICTURES = {
    "coefficients": lambda f: f().plot(),
    "standardised": lambda f: f().plot(scale="standardised"),
    "panels": lambda f: f().plot(groups="terms")[0],
    "groups": lambda f: f().plot(groups={"acid": ["volatile_acidity", "pH"], "other": ["alcohol"]})[0],
    "curve": lambda f: f().plot(term="pH"),
    "several": lambda f: dp.coef_plot(two(f)),
    "side_by_side": lambda f: dp.etable(two(f)).plot(),
    "contrasts": lambda f: f().contrast({"a": {"alcohol": 2.0}, "b": {"pH": 1.0, "alcohol": -1}}).plot(),
    "joint_test": lambda f: f().wald_test("alcohol, pH").plot(),
    "anova": lambda f: dp.anova(f()).plot(),
    "slopes": lambda f: f().avg_slopes().plot(),
}


def grey(path):
    cells = image.imread(path)[..., :3].mean(axis=2)
    return cells


def blurred(cells, k=6):
    """Means over squares of k by k."""
    h, w = (n // k * k for n in cells.shape)
    return cells[:h, :w].reshape(h // k, k, w // k, k).mean(axis=(1, 3))


def drawn(name, make_fit, folder):
    plt.close("all")
    with plt.rc_context({"font.family": "DejaVu Sans", "figure.dpi": 60, "savefig.dpi": 60}):
        ax = PICTURES[name](make_fit)
        path = folder / f"{name}.png"
        ax.figure.savefig(path, facecolor="white", metadata={"Software": None})
    plt.close("all")
    return path


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_the_one_that_was_looked_at(make_fit, tmp_path, name):
    stored = FILES / f"{name}.png"
    if os.environ.get("DPMODELS_UPDATE_GOLDEN"):
        stored.write_bytes(drawn(name, make_fit, tmp_path).read_bytes())
    new, old = grey(drawn(name, make_fit, tmp_path)), grey(stored)
    if not matplotlib.__version__.startswith(f"{DRAWN_BY}."):
        assert blurred(new).std() > 0.01  # an empty page has 0
        return
    if new.shape != old.shape:  # another matplotlib lays out a little differently
        assert np.allclose(new.shape, old.shape, rtol=0.1)
        h, w = (min(a, b) for a, b in zip(new.shape, old.shape, strict=True))
        new, old = new[:h, :w], old[:h, :w]
    assert np.abs(blurred(new) - blurred(old)).mean() < MOST


def test_a_picture_that_lacks_a_bar_is_found(make_fit, tmp_path):
    """The check can fail: one interval of five moved away is more than the letters of a font."""
    old = grey(FILES / "coefficients.png")
    other = make_fit(estimate={"params": np.array([2.6, 2.0, -1.2, -2.6, 1.9])})
    with plt.rc_context({"font.family": "DejaVu Sans", "figure.dpi": 60, "savefig.dpi": 60}):
        path = tmp_path / "other.png"
        other.plot().figure.savefig(path, facecolor="white")
    plt.close("all")
    new = grey(path)
    h, w = (min(a, b) for a, b in zip(new.shape, old.shape, strict=True))
    assert np.abs(blurred(new[:h, :w]) - blurred(old[:h, :w])).mean() > MOST / 2
