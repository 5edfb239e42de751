"""The printed error of the angle of principal components, against angles that are known."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

SCHEMA = dp.Schema(**{name: dp.Real(-5, 5) for name in "abcd"})
LOADINGS = np.array([[0.9, 0.8, 0.7, 0.1], [0.1, -0.3, 0.2, 0.9]])


def table(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) @ LOADINGS + 0.4 * rng.normal(size=(n, 4))
    return x / np.sqrt((LOADINGS**2).sum(0) + 0.16)


def true_axes(k):
    """Axes of long tables in sd, with rows of more than the norm bound sqrt(4) cut to it."""
    x = table(400_000, 99)
    x = x * np.minimum(1.0, 2.0 / np.linalg.norm(x, axis=1))[:, None]
    return np.linalg.eigh(x.T @ x)[1][:, -k:]


@pytest.mark.parametrize(("k", "n", "eps"), [(1, 20_000, 1), (1, 20_000, 100), (2, 8000, 1)])
def test_the_angle_is_as_large_as_printed(quiet, k, n, eps):
    """False alarm: below 1e-4. A mean of 40 squares of at most k (4 - k) normal numbers.

    They are below the square of the printed sine, which is a bound: 1.9 times it is 4 sd above.
    """
    axes, squares, printed = true_axes(k), [], []
    for seed in range(40):
        frame = pd.DataFrame(table(n, seed), columns=list("abcd"))
        fit = dp.dp_pca("~ a + b + c + d", frame, k=k, eps=eps, delta=1e-6, schema=SCHEMA, seed=seed)
        found = fit.params.to_numpy().reshape(k, 4).T
        squares.append(np.sum((found - axes @ (axes.T @ found)) ** 2))
        printed.append(np.sin(np.radians(fit.glance()["angle_error"][0])) ** 2)
        assert f"to about {fit.glance()['angle_error'][0]:.2g} degrees" in str(fit.summary())
    assert np.mean(squares) < 1.9 * np.mean(printed)
    assert np.mean(printed) < 25 * np.mean(squares)  # and is no idle bound


def test_both_parts_are_there(quiet):
    frame = pd.DataFrame(table(8000, 1), columns=list("abcd"))
    line = dp.dp_pca("~ a + b + c + d", frame, eps=1, delta=1e-6, schema=SCHEMA, seed=1).glance()
    both = np.hypot(*(np.sin(np.radians(line[f"angle_{part}"][0])) for part in ("privacy", "sampling")))
    assert np.sin(np.radians(line["angle_error"][0])) == pytest.approx(both)


def test_rows_of_a_person_widen_the_bound(quiet):
    frame = pd.DataFrame(table(9000, 1), columns=list("abcd")).assign(id=np.arange(9000) // 3)
    call = {"eps": 50, "delta": 1e-6, "schema": SCHEMA, "seed": 1}
    single, three = (
        np.sin(np.radians(dp.dp_pca("~ a + b + c + d", frame, **call, **person).glance()["angle_sampling"][0]))
        for person in ({}, {"unit": "id", "max_rows": 3})
    )
    assert three / single == pytest.approx(3**0.5, rel=0.1)
