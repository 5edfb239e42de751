"""Test statistics of noisy sums: the specification's numbers."""

import numpy as np
import pytest

from dpmodels.models.table import nulls


def test_oracle_of_fit():
    p0 = np.array([0.2, 0.3, 0.5])
    found = nulls.fit(np.array([26.5, 24.0, 52.0]), 100.0, p0, 9.0 * np.eye(3))
    assert (found.statistic, found.p_value) == pytest.approx((2.333875, 0.311319), abs=5e-7)
    assert found.df == 2


def test_oracle_of_independence():
    X = np.array([[30.5, 18, 12], [20, 33, 41]])
    X = X - (X.sum() - 155.0) / 6.0
    C = 16.0 * (np.eye(6) - 1.0 / 6.0)
    found = nulls.independence(X, 155.0, C)
    assert (found.statistic, found.p_value) == pytest.approx((9.455664, 0.008846), abs=5e-7)
    assert found.df == 2


Q = np.array([[100.0, 20, 30, 150], [20, 90, 25, 110], [30, 25, 80, 60], [150, 110, 60, 420]])


def test_oracle_of_a_correlation():
    index = np.ix_([0, 1, 3], [0, 1, 3])
    rho, se = nulls.correlation(Q[index], 2.0, 100.0)
    assert rho == pytest.approx(0.617513511269, abs=1e-11)
    assert se == pytest.approx(0.066035524124, abs=1e-11)


def test_contrasts_are_orthonormal():
    for w in ([1.0, 1, 1], [0.0, 2, 1], [-1.0, 0.5]):
        H = nulls.contrasts(np.array(w))
        assert pytest.approx(np.eye(len(w) - 1), abs=1e-12) == H @ H.T
        assert H @ np.array(w) == pytest.approx(np.zeros(len(w) - 1), abs=1e-12)


def test_without_noise_the_group_test_is_welch_under_the_null_mean():
    """Two groups: u^2 / Var u with variances about the common mean."""
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-1, 0.8, 300), rng.uniform(-0.7, 0.9, 200)
    N = np.array([300.0, 200.0])
    T, P = np.array([a.sum(), b.sum()]), np.array([(a**2).sum(), (b**2).sum()])
    found = nulls.groups(N, T, P, 0.0, np.zeros((2, 2)))
    m = (a.sum() + b.sum()) / 500
    variance = ((a - m) ** 2).mean() / 300 + ((b - m) ** 2).mean() / 200
    assert found.statistic == pytest.approx((a.mean() - b.mean()) ** 2 / variance)


def test_one_mean_without_noise():
    x = np.array([0.1, -0.2, 0.5, 0.9])
    found = nulls.one_mean(4.0, x.sum(), (x**2).sum(), 0.1, (0.0, 0.0))
    assert found.statistic == pytest.approx(((x - 0.1).sum()) ** 2 / ((x - 0.1) ** 2).sum())


def test_equal_means_are_tested_by_the_covariance_of_the_sums():
    """Welch's covariance by hand, with noise, values beyond what a cell can hold cut, and copies."""
    from dpmodels.models.table.nulls import groups

    N, T, tau2 = np.array([50.0, 80.0, 30.0]), np.array([10.0, 30.0, -6.0]), 4.0
    C, n = np.diag([2.0, 3.0, 4.0]) + 0.5, 160.0
    for P, alike in (([9.0, 40.0, 12.0], 1.0), ([9.0, 400.0, -50.0], 1.0), ([9.0, 40.0, 12.0], 3.0)):
        m = T.sum() / n
        D = [
            min(max(p - 2 * m * t + m * m * c, 0.0), c * (1 + abs(m)) ** 2)
            for p, t, c in zip(P, T, N, strict=True)
        ]
        Pm = np.eye(3) - np.outer(N / n, np.ones(3))
        V = Pm @ (alike * np.diag(D) + tau2 * np.eye(3) + m * m * C) @ Pm.T
        u = Pm @ T
        found = groups(N, T, np.array(P), tau2, C, alike)
        assert found.df == 2
        assert found.statistic == pytest.approx(u @ np.linalg.pinv(V) @ u, rel=1e-9)
