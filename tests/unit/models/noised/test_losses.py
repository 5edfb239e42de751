"""Corrected losses: filters, derivatives, degenerate limits, unbiasedness."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from dpmodels.models.noised import calibration as filters
from dpmodels.models.noised.losses import IndexLoss, Logistic, Poisson, Squared, check, hinge, huber
from dpmodels.models.noised.model import Model, second_model
from dpmodels.models.noised.objective import objective_of

SMOOTH = [Squared(), Logistic(), Logistic(geometric=True), Poisson()]
KINKED = [check(0.3), hinge(), huber(1.0)]


def logistic_density(x):
    e = math.exp(-abs(x))
    return e / (1 + e) ** 2


@pytest.mark.parametrize("b", [0.05, 0.099, 0.101, 0.5, 2.0, 6.0])
@pytest.mark.parametrize("eta", [-3.0, 0.4, 7.0])
def test_filters_of_the_logistic_density_by_quadrature(b, eta):
    found = filters.logistic_filter(np.array([eta]), b)
    cuts = sorted({0.0, -eta / b if abs(eta / b) < 55 else 0.0})

    def exact(density):
        return quad(
            lambda z: density(abs(z)) * logistic_density(eta + b * z),
            -60,
            60,
            points=cuts,
            limit=400,
        )[0]

    assert found.one[0] == pytest.approx(exact(lambda z: math.exp(-z) / 2), abs=1e-8)
    assert found.two[0] == pytest.approx(exact(lambda z: (1 + z) * math.exp(-z) / 4), abs=1e-8)
    third = exact(lambda z: (z * z + 3 * z + 3) * math.exp(-z) / 16)
    assert found.three[0] == pytest.approx(third, abs=1e-8)


def differences(function, eta, q, second):
    """Compare derivatives of Terms with central differences; return the largest gap."""
    terms, h = function(eta, q), 1e-5
    gaps = []
    for k in range(-1, len(q)):
        d_eta = h if k < 0 else 0.0
        d_q = np.zeros(len(q))
        if k >= 0:
            d_q[k] = h
        up, down = function(eta + d_eta, q + d_q), function(eta - d_eta, q - d_q)
        want = terms.e if k < 0 else terms.q[k]
        gaps.append(np.abs((up.c - down.c) / (2 * h) - want).max())
        if second:
            want = terms.ee if k < 0 else terms.eq[k]
            gaps.append(np.abs((up.e - down.e) / (2 * h) - want).max())
            if k >= 0:
                gaps += [
                    np.abs((up.q[j] - down.q[j]) / (2 * h) - terms.qq[j, k]).max()
                    for j in range(len(q))
                ]
    return max(gaps)


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    return np.array([0.0, 1, 1, 0, 1, 0]), rng.normal(0, 1, 6)


@pytest.mark.parametrize("p", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("loss", SMOOTH, ids=lambda l: l.name)
def test_derivatives_of_smooth_losses(points, loss, p):
    y, eta = points
    q = np.array([0.3])
    assert differences(lambda e, q: loss.corrected(y, e, q, p, 0.7, 0.0, True), eta, q, True) < 2e-7
    assert differences(lambda e, q: loss.laplacian(y, e, q, p, 0.7, 0.0, True), eta, q, True) < 1e-8


@pytest.mark.parametrize("loss", SMOOTH, ids=lambda l: l.name)
def test_derivatives_of_the_product_operator(points, loss):
    y, eta = points
    q = np.array([0.3, 0.1, 0.2])
    assert differences(lambda e, q: loss.product(y, e, q, 0.7, True), eta, q, True) < 1e-8


@pytest.mark.parametrize(("p", "h"), [(0.0, 0.5), (0.2, 0.0), (0.2, 0.1), (0.2, math.sqrt(0.03))])
@pytest.mark.parametrize("loss", KINKED, ids=lambda l: l.name)
def test_derivatives_of_kinked_losses(points, loss, p, h):
    """sqrt(.03) is b itself: the degenerate case of the partial fractions."""
    y, eta = points
    y = 2 * y - 1
    q = np.array([0.3])
    assert differences(lambda e, q: loss.corrected(y, e, q, p, 0.7, h, False), eta, q, False) < 1e-7


def test_closed_form_of_the_check_loss():
    u, p, q, h = np.linspace(-2, 2, 9), 0.2, 0.5, 0.3
    b = math.sqrt(p * q / 2)
    plain = check(0.5).corrected(u, np.zeros(9), np.array([q]), p, 1.0, 0.0, False).c
    assert plain == pytest.approx(0.5 * (np.abs(u) - (1 - p) / p * b * np.exp(-np.abs(u) / b)))
    smooth = check(0.5).corrected(u, np.zeros(9), np.array([q]), p, 1.0, h, False).c
    e = np.exp(-np.abs(u) / h), np.exp(-np.abs(u) / b)
    want = np.abs(u) + h * e[0] - (1 - p) * q / 2 * (h * e[0] - b * e[1]) / (h * h - b * b)
    assert smooth == pytest.approx(0.5 * want)


def test_poisson_closed_form():
    y, eta, p, q = np.array([2.0]), np.array([0.4]), 0.3, 0.4
    found = Poisson().corrected(y, eta, np.array([q]), p, 1.0, 0.0, False).c
    want = np.exp(eta) * (1 - q / 2) / (1 - p * q / 2) - y * eta
    assert found == pytest.approx(want)
    assert not Poisson().admissible(0.5)


@pytest.mark.parametrize("loss", [*SMOOTH, *KINKED], ids=lambda l: l.name)
def test_without_noise_every_form_is_the_plain_loss(points, loss):
    y, eta = points
    y = 2 * y - 1 if loss.name == "hinge" else y
    plain = loss.plain(y, eta, 0.0, False)
    for q, p in ((1e-14, 0.2), (0.3, 1.0)):
        found = loss.corrected(y, eta, np.array([q]), p, 1.0, 0.0, False)
        assert found.c == pytest.approx(plain.c, abs=1e-6)
        assert found.e == pytest.approx(plain.e, abs=1e-6)


def noised(n, p, lam, lam_y, seed, laplace=False):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, 2))])
    y = (rng.random(n) < 0.4) * 1.0
    shape = (n, 3) if laplace else (n, 1)
    S = np.sqrt(rng.exponential(size=shape)) * rng.standard_normal((n, 3))
    S[rng.random(n) < p] = 0.0
    K = np.diag([0.0, lam**2, lam**2, lam_y**2])
    blocks = np.array([K])
    if laplace:
        blocks = np.array([np.diag(np.eye(4)[j] * np.diag(K)) for j in (1, 2, 3)])
    X1 = X.copy()
    X1[:, 1:] += lam * S[:, :2]
    noisy = Model(
        X1, y + lam_y * S[:, 2], blocks, p, "laplace" if laplace else "sl", ("i", "a", "b")
    )
    clean = Model(X, y, np.zeros((0, 4, 4)), 0.0, "sl", ("i", "a", "b"))
    return clean, noisy


@pytest.mark.parametrize(
    ("loss", "kind", "p", "lam_y"),
    [
        (Logistic(), "drcl", 0.2, 0.3),
        (Logistic(), "drcl", 0.0, 0.3),
        (Logistic(), "sl", 0.2, 0.0),
        (Logistic(), "sdrcl", 0.2, 0.0),
        (Logistic(), "paper", 0.2, 0.0),
        (Logistic(geometric=True), "drcl", 0.2, 0.3),
        (Poisson(), "drcl", 0.2, 0.3),
        (check(0.3), "drcl", 0.2, 0.3),
        (check(0.3), "drcl", 0.0, 0.3),
        (huber(0.5), "drcl", 0.2, 0.3),
        (hinge(), "drcl", 0.2, 0.0),
        (Logistic(), "laplace", 0.0, 0.3),
        (Logistic(geometric=True), "laplace", 0.0, 0.0),
    ],
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_corrected_losses_are_unbiased(loss, kind, p, lam_y):
    """Mean corrected loss and score against those of the clean rows, 1e5 records.

    Seed 3; band 4.5 SE in 4 numbers a case, 13 cases: false alarm about 4e-4.
    """
    n, theta = 100_000, np.array([-0.3, 0.8, -0.6])
    laplace = kind == "laplace"
    clean, noisy = noised(n, p, 0.5, lam_y, 3, laplace)
    if loss.name == "hinge":
        from dataclasses import replace

        clean, noisy = (replace(m, y=2 * m.y - 1) for m in (clean, noisy))
    second = second_model(noisy, 5) if kind in ("sl", "sdrcl", "paper") else None
    h = 0.4 if loss.kinked else 0.0
    noisy_o = objective_of(loss, noisy, "drcl" if laplace else kind, second, h)
    clean_o = objective_of(loss, clean, "naive", None, h)

    def rows(o):
        dq = o.noise(theta)[1]
        score = np.concatenate(
            [o._scores(theta, dq, slice(s, min(n, s + 20_000))) for s in range(0, n, 20_000)]
        )
        return score

    a, b = rows(noisy_o), rows(clean_o)
    gap = (a - b).mean(axis=0)
    assert np.abs(gap / ((a - b).std(axis=0) / math.sqrt(n))).max() < 4.5
    value = noisy_o.value(theta) - clean_o.value(theta)
    assert abs(value) < 0.1  # the band of the mean loss follows from the scores' path
    assert noisy_o.gradient(theta)[1] == pytest.approx(a.mean(axis=0), abs=1e-12)


@pytest.mark.parametrize("kind", ["drcl", "laplace"])
def test_hessian_is_the_derivative_of_the_gradient(kind):
    _, noisy = noised(3000, 0.0 if kind == "laplace" else 0.2, 0.5, 0.3, 1, kind == "laplace")
    o = objective_of(Logistic(), noisy, "drcl")
    theta = np.array([0.2, 0.7, -0.5])
    H = o.hessian(theta)[2]
    for j in range(3):
        d = np.eye(3)[j] * 1e-5
        slope = (o.gradient(theta + d)[1] - o.gradient(theta - d)[1]) / 2e-5
        assert H[j] == pytest.approx(slope, abs=1e-7)


def test_a_user_loss_equals_the_built_in_one():
    _, noisy = noised(2000, 0.2, 0.5, 0.0, 2)
    from scipy.special import expit

    mine = IndexLoss(
        lambda y, e: np.logaddexp(0, e) - y * e,
        lambda y, e: expit(e) - y,
        lambda y, e: expit(e) * (1 - expit(e)),
    )
    theta = np.array([0.1, 0.5, -0.4])
    one = objective_of(mine, noisy, "drcl").gradient(theta)
    two = objective_of(Logistic(), noisy, "drcl").gradient(theta)
    assert one[0] == pytest.approx(two[0], abs=1e-6)
    assert one[1] == pytest.approx(two[1], abs=1e-5)


def test_integrated_scores_are_never_more_variable():
    """A_IDR <= A_DR, A_SDR, A_SL in the matrix order (5 % slack for sampling, n = 1e5)."""
    _, noisy = noised(100_000, 0.2, 0.7, 0.0, 4)
    second = second_model(noisy, 6)
    theta = np.array([-0.3, 0.8, -0.6])
    A = {
        k: objective_of(Logistic(), noisy, k, second).score_moment(theta)
        for k in ("drcl", "sdrcl", "sl", "paper")
    }
    for k in ("sdrcl", "sl", "paper"):
        assert np.linalg.eigvalsh(A[k] * 1.05 - A["drcl"])[0] > 0
    assert np.trace(A["paper"]) > 2 * np.trace(A["drcl"])
