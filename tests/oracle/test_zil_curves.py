"""Reference values of the privacy curves of SL and ZIL noise (closed forms and quadrature)."""

import math

import numpy as np
import pytest

from dpmodels.models.noised.curves import beta_inf, beta_one, c_inf, c_one, calibrate, tradeoff
from dpmodels.models.noised.solve import asymptotic_variance
from dpmodels.own.radial import (
    delta_exact,
    delta_hull,
    delta_inf,
    delta_one,
    eps_inf,
    exact_eps,
    with_clear,
)

pytestmark = pytest.mark.oracle

EPS = (0.0, 0.5, 1.0, 2.0, 5.0)


@pytest.mark.parametrize(
    ("c", "values"),
    [
        (0.5, (0.2978114987, 0.1672424219, 0.1062886545, 0.0588569876, 0.0245693709)),
        (1.0, (0.5069313086, 0.3934693403, 0.3065148162, 0.2012800309, 0.0934201906)),
        (2.0, (0.7568832656, 0.6946023746, 0.6321205588, 0.5190782998, 0.3108396616)),
    ],
)
def test_limit_profile(c, values):
    assert [delta_inf(e, c) for e in EPS] == pytest.approx(values, abs=1e-10)


def test_zil_profile_and_its_calibration():
    assert c_inf(0.8, 0.17, 0.05) == pytest.approx(0.5025213, abs=1e-7)
    assert with_clear(delta_inf(0.8, 0.5), 0.05) == pytest.approx(0.1690181, abs=1e-7)
    found = [with_clear(delta_inf(e, 0.5), 0.05) for e in (0.5, 0.7, 0.9, 1.2, 1.6, 2.1, 2.8)]
    assert found == pytest.approx(
        [0.2089, 0.1803, 0.1593, 0.1373, 0.1183, 0.1035, 0.0909], abs=5e-5
    )


@pytest.mark.parametrize(
    ("c", "values"),
    [
        (0.5, (0.87908146, 0.76344551, 0.66802387, 0.40421402, 0.21735684)),
        (1.0, (0.72483092, 0.55780718, 0.44409363, 0.19749219, 0.07284550)),
        (2.0, (0.41067601, 0.23257535, 0.14562145, 0.02851262, 0.00351443)),
    ],
)
def test_limit_tradeoff(c, values):
    assert [beta_inf(a, c) for a in (0.01, 0.05, 0.1, 0.3, 0.5)] == pytest.approx(values, abs=6e-9)


def test_one_dimension():
    values = (0.97971885, 0.89859425, 0.79718850, 0.41089058, 0.24653435)
    assert [beta_one(a, 0.5) for a in (0.01, 0.05, 0.1, 0.3, 0.5)] == pytest.approx(
        values, abs=6e-9
    )
    # p = delta' is the pure bound
    assert c_one(1.5, 0.1, 0.1) == pytest.approx(1.5 / math.sqrt(2))
    assert 1 / c_one(1.5, 0.1, 0.1) == pytest.approx(0.942809, abs=1e-6)
    assert 1 / c_one(1.0, 0.05, 0.05) == pytest.approx(1.414214, abs=1e-6)
    assert with_clear(delta_one(1.5, 1 / 0.94), 0.1) == pytest.approx(0.102015, abs=1e-6)
    assert with_clear(delta_one(1.0, 1 / 1.4), 0.05) == pytest.approx(0.054810, abs=1e-6)
    assert math.sqrt(2) / 0.94 == pytest.approx(1.50448, abs=1e-5)


@pytest.mark.parametrize(
    ("d", "c", "values"),
    [
        (2, 0.5, (0.29781150, 0.12522283, 0.01500423, 0.00002037)),
        (3, 0.5, (0.29781150, 0.13696345, 0.04073706, 0.00509096)),
        (6, 0.5, (0.29781150, 0.15061405, 0.07287980, 0.02645540)),
        (6, 1.0, (0.50693131, 0.38416513, 0.27183028, 0.12193091)),
        (6, 2.0, (0.75688327, 0.69147732, 0.61763021, 0.45408995)),
    ],
)
def test_finite_dimension(d, c, values):
    found = [delta_exact(e, c, d) for e in (0.0, 0.5, 1.0, 2.0)]
    assert found == pytest.approx(values, abs=6e-9)
    # the same for every d at eps = 0
    assert found[0] == pytest.approx(-math.expm1(-c / math.sqrt(2)), abs=1e-13)


def test_small_deltas():
    assert delta_exact(1.0, 0.05, 2) == pytest.approx(9.1029e-8, rel=1e-4)
    assert delta_exact(5.0, 2.0, 2) == pytest.approx(1.08147e-6, rel=1e-4)
    assert delta_exact(1.0, 0.05, 3) == pytest.approx(1.469159e-4, rel=1e-5)


@pytest.mark.parametrize(
    ("eps", "delta", "values"),
    [
        (1, 0.05, (0.779646, 0.633092, 0.534864, 0.418868, 0.328403)),
        (1, 0.1, (0.856109, 0.745060, 0.675644, 0.581336, 0.482621)),
        (1, 1e-6, (0.707108, 0.0780959, 0.0043553, 0.00197289, 0.00141421)),
        (5, 1e-6, (3.53554, 1.99623, 0.195447, 0.00819107, 0.00316228)),
        (10, 1e-6, (7.07107, 5.20855, 2.06422, 0.0297369, 0.00447214)),
    ],
)
def test_calibration(eps, delta, values):
    found = [calibrate(eps, delta, d) for d in (1, 2, 3, 6)] + [c_inf(eps, delta)]
    assert found == pytest.approx(values, rel=5e-6)
    # calibrated noise never falls short of its target
    for d, c in zip((1, 2, 3, 6), found, strict=False):
        assert delta_exact(eps, c, d) <= delta


def test_eps_inverts_the_profile():
    for d, c, p in ((1, 0.7, 0.0), (2, 0.6, 0.0), (4, 1.0, 0.01), (0, 0.8, 0.02)):
        eps = exact_eps(c, 0.05, d, p)
        assert with_clear(delta_exact(eps, c, d), p) == pytest.approx(0.05, rel=1e-5)
    assert eps_inf(0.5, 0.05, 0.06) == math.inf


def test_hull_is_an_upper_bound_exact_at_its_knot():
    for eps in (0.0, 0.3, 1.0, 1.7, 5.0, 30.0):
        exact = delta_exact(eps, 0.6, 3)
        assert exact <= delta_hull(eps, 0.6, 3, 1.0) <= delta_inf(eps, 0.6) + 1e-15
    assert delta_hull(1.0, 0.6, 3, 1.0) == delta_exact(1.0, 0.6, 3)


def test_tradeoff_lies_between_one_and_infinitely_many_columns():
    for a in (0.05, 0.8):
        one, six, many = (tradeoff(a, 0.7, d) for d in (1, 6, 0))
        assert one >= six >= many
        assert tradeoff(a, 0.7, 6, 0.05) == pytest.approx(
            0.95 * tradeoff(a / 0.95, 0.7, 6), abs=1e-7
        )
    # symmetric: T(T(a)) = a
    for d in (1, 3, 0):
        assert tradeoff(tradeoff(0.2, 0.9, d), 0.9, d) == pytest.approx(0.2, abs=1e-6)


def test_monte_carlo_of_the_hockey_stick():
    """Seed 0, 4e5 draws; the band is 4.5 standard errors: false alarm below 1e-5 a case."""
    rng = np.random.default_rng(0)
    n, d, c, eps = 400_000, 3, 0.8, 0.7
    x = np.sqrt(rng.exponential(size=n))[:, None] * rng.standard_normal((n, d))

    def log_density(z):  # SL_3(I): exp(-sqrt2 r) / (2 pi r)
        r = np.linalg.norm(z, axis=1)
        return -math.sqrt(2) * r - np.log(r)

    shift = np.zeros(d)
    shift[0] = c
    loss = log_density(x) - log_density(x - shift)
    gain = np.maximum(0.0, -np.expm1(eps - loss))
    assert gain.mean() == pytest.approx(delta_exact(eps, c, d), abs=4.5 * gain.std() / math.sqrt(n))


def test_asymptotic_variances_of_the_linear_model():
    theta, M, D = np.array([1, -0.5, 0.5]), np.eye(3) / 12, 0.49 * np.eye(3)
    table = {
        (0.0, "sl"): (1.6452, 1.1050),
        (0.0, "drcl"): (1.3587, 0.8977),
        (0.0, "paper"): (5.942, 4.2133),
        (0.49, "sl"): (2.1662, 1.6260),
        (0.49, "drcl"): (1.7756, 1.3146),
        (0.49, "paper"): (8.0261, 6.2974),
    }
    for (noise, kind), (first, second) in table.items():
        A, _ = asymptotic_variance(theta, M, D, 0.25, lambda_y2=noise, p=0.2, kind=kind)
        assert np.diag(A) == pytest.approx([first, second, second], abs=6e-5)
