"""``dp_moments`` with public data against a few lines of numpy, truncation included."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.oracle

CALL = dict(eps=1.0, delta=1e-6)


def tables():
    rng = np.random.default_rng(8)
    A = np.array([[1.0, 0.6], [0.0, 0.5]])

    def draw(n):
        return pd.DataFrame(rng.standard_t(4, size=(n, 2)) @ A + [2.0, -5.0], columns=["a", "b"])

    return draw(400), draw(60)


def scaled_moments(Z, root, radius):
    """``(1/n) sum c^2 zz'`` with ``c = min(1, R/|root z|)``, row by row."""
    total = np.zeros((3, 3))
    for z in Z:
        c = min(1.0, radius / np.linalg.norm(root @ z))
        total += c * c * np.outer(z, z)
    return total / len(Z)


def last(C):
    """Constant first -> constant last."""
    order = [1, 2, 0]
    return C[np.ix_(order, order)]


@pytest.mark.parametrize("radius", [1.1, 1.5, 2.5])
def test_one_stage(noiseless, radius):
    private, public = tables()
    fit = dp.dp_moments(["a", "b"], private, public=public, stages=1, radius=radius, **CALL)
    U = np.column_stack([np.ones(60), public])
    Z = np.column_stack([np.ones(400), private])
    root = np.linalg.inv(np.linalg.cholesky(U.T @ U / 60))
    C = last(scaled_moments(Z, root, radius))
    assert C[2, 2] < 0.98  # rows are cut
    assert fit.arrays["moments_per_row"] == pytest.approx(C, abs=2e-4)
    assert fit.arrays["moments"] == pytest.approx(C / C[2, 2], abs=2e-4)
    assert fit.params["row weights"] == pytest.approx(C[2, 2], abs=2e-5)


def test_two_stages(noiseless):
    """The second whitened by the first, whose scaled rows it does not average."""
    private, public = tables()
    fit = dp.dp_moments(["a", "b"], private, public=public, stages=2, radius=1.4, **CALL)
    U = np.column_stack([np.ones(60), public])
    Z = np.column_stack([np.ones(400), private])
    root = np.linalg.inv(np.linalg.cholesky(U.T @ U / 60))
    plan = dp.plan(
        "a + b ~ 1", dp.Schema(a=dp.Real(), b=dp.Real()), n=400, verb="dp_moments", public=public,
        stages=2, radius=1.4, **CALL,
    )  # fmt: skip
    first = scaled_moments(Z, root, plan.detail.radius)
    # eigenvalues of the first stage are floored from its public noise; redo it in numpy
    s = np.sqrt(2) * plan.detail.radius**2 / plan.detail.first.mu
    values, vectors = np.linalg.eigh(root @ first @ root.T)
    floor = max(2 * s * np.sqrt(6) / 400, 1e-3)
    if values[0] < floor:
        values = np.maximum(values, floor)
    K = np.linalg.cholesky((vectors * values) @ vectors.T)
    C = last(scaled_moments(Z, np.linalg.inv(K) @ root, 1.4))
    assert fit.arrays["moments_per_row"] == pytest.approx(C, abs=3e-4)


def test_published(noiseless):
    """Symmetric root; a large eta makes the radius small enough to cut rows."""
    private, public = tables()
    fit = dp.dp_moments(["a", "b"], private, public=public, method="pmt_paper", eta=500.0, **CALL)
    U = np.column_stack([np.ones(60), public])
    Z = np.column_stack([np.ones(400), private])
    values, vectors = np.linalg.eigh(U.T @ U / 60)
    radius = np.sqrt(3 * (1 + np.log(2 * 400 / 500.0)))
    C = last(scaled_moments(Z, (vectors / np.sqrt(values)) @ vectors.T, radius))
    assert C[2, 2] < 0.999
    assert fit.arrays["moments"] == pytest.approx(C, abs=3e-4)
