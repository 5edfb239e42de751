"""Reference numbers of the theory note of ePTR (compared at 1e-9 unless printed with fewer digits)."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpmodels._testing import ZeroNoise
from dpmodels.errors import PrivacyBugError
from dpmodels.own.least_squares import (
    OlsDetail,
    auto_noise,
    safety,
    smallest_eigenvalue,
    solve_projected,
)
from dpmodels.privacy.mechanisms import Approximate, agm, delta_gdp, mu_gdp, upper_quantile
from dpmodels.privacy.noise import (
    integer_coin,
    paper_midpoint,
    paper_sigma,
    reply_probability,
    split_midpoint,
)
from dpmodels.proof.sets import ls_bound
from dpmodels.sums.cells import gram
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import UnitScale

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize(
    ("eps", "delta", "mu", "ratio"),
    [
        (0.5, 1e-6, 0.124106149031, 8.05761848),
        (0.75, 1e-6, 0.181161492802, 5.51993685),
        (1, 1e-6, 0.236704380663, 4.22467889),
        (1, 1e-5, 0.268051123211, 3.73063163),
        (2, 1e-6, 0.448334740395, 2.23047627),
        (4, 1e-6, 0.837858757090, 1.19351859),
        (1, 0.01, 0.532516648503, 1.87787556),
        (8, 0.01, 2.448801710396, 0.40836299),
        (0.1, 1e-5, 0.032520784056, 30.74956613),
    ],
)
def test_calibration(eps, delta, mu, ratio):
    assert mu_gdp(eps, delta) == pytest.approx(mu, rel=1e-11)
    assert agm(eps, delta) == pytest.approx(ratio, abs=6e-9, rel=1e-9)
    assert delta_gdp(eps, mu_gdp(eps, delta)) == pytest.approx(delta, rel=1e-10)


def test_classical_constant_fails_where_the_note_says():
    # sd of the classical mechanism at (8, .01) has a true delta of .01782, above .01
    sd = math.sqrt(2 * math.log(1.25 / 0.01)) / 8
    assert sd == pytest.approx(0.38843893, rel=1e-7)
    assert delta_gdp(8, 1 / sd) == pytest.approx(0.01782, abs=1e-5)


@pytest.mark.parametrize(
    ("rx", "ry", "rho", "value"),
    [
        (1, 1, 1, 2.598076211353),
        (2, 1, 1, 7.040690372184),
        (math.sqrt(3), 1, 1, 5.656854249492),
        (math.sqrt(12), 1, 1, 17.125781758705),
        (4, 4, 1, 41.569219381653),
        (1, 1, 10, 11.438359621266),
        (1, 0.1, 1, 1.143835962127),
    ],
)
def test_bound_of_least_squares(rx, ry, rho, value):
    assert ls_bound(rx, ry, rho) == pytest.approx(value, rel=1e-12)
    t = np.linspace(-math.pi, math.pi, 200_001)
    grid = np.max(2 * rx * ry * np.cos(t) + rx**2 * rho * np.sin(2 * t))
    assert ls_bound(rx, ry, rho) == pytest.approx(grid, rel=1e-8)


def test_bound_without_coefficients():
    assert ls_bound(2.0, 3.0, 0.0) == 12.0
    assert ls_bound(2.0, 3.0, 1e-12) == pytest.approx(12.0, rel=1e-9)


@pytest.mark.parametrize(
    ("eps", "delta", "gamma", "midpoint", "probability"),
    [
        (1, 1e-6, 0, 28.631021115929, 6.065302918e-7),
        (2, 0.01, 10, 5.605170185988, 0.987809462772),
        (0.5, 1e-5, 60, 47.051701859881, 0.962205866536),
        (1, 0.01, 0, 10.210340371976, 0.006028740438),
        (1, 1e-6, 50, 28.631021115929, 0.999977103176),
    ],
)
def test_paper_coin(eps, delta, gamma, midpoint, probability):
    m = paper_midpoint(eps, delta)
    assert m == pytest.approx(midpoint, rel=1e-12)
    assert reply_probability(gamma, eps / 2, m) == pytest.approx(probability, rel=1e-9)


def test_paper_midpoint_small_eps():
    assert paper_midpoint(0.1, 1e-6) == pytest.approx(277.310211159285, rel=1e-12)


def test_general_split():
    m = split_midpoint(0.25, 1e-6)
    assert m == pytest.approx(55.262038231855, rel=1e-12)
    assert reply_probability(0, 0.25, m) == pytest.approx(1e-6, rel=1e-9)
    assert reply_probability(60, 0.25, m) == pytest.approx(0.765754236398, rel=1e-9)
    m = split_midpoint(0.5, 0.01)
    assert m == pytest.approx(9.190239700269, rel=1e-12)
    assert reply_probability(10, 0.5, m) == pytest.approx(
        1 / (1 + math.exp(-0.5 * (10 - m))), rel=1e-12
    )
    assert reply_probability(10, 0.5, m) == pytest.approx(0.599859601813, rel=1e-9)


def test_sharper_coin():
    assert integer_coin(60, 0.25, 1e-6) == pytest.approx(0.92454, abs=5e-6)
    assert integer_coin(10, 0.5, 0.01) == pytest.approx(0.83298, abs=5e-6)
    assert integer_coin(0, 0.25, 1e-6) == 1e-6


def data():
    i = np.arange(1, 101)
    t = (2 * i - 101) / 99
    y = 0.5 * t + 0.25 * np.where(i % 2 == 0, 1.0, -1.0)
    return np.vstack([np.ones(100), t, y])


def moments(ry=1.0):
    rx = math.sqrt(2)
    unit = UnitScale(np.ones(3), np.zeros(3), False)
    rowmap = RowMap(unit, np.array([rx, rx, ry]), ball=2, radius=rx)
    G = gram([data()], rowmap).real(rowmap.units)
    return G[:2, :2], G[:2, 2]


def detail(**changes):
    base = dict(
        form="auto", raw=True, rx=math.sqrt(2), ry=1.0, rtheta=1.0, project=False,
    )  # fmt: skip
    return OlsDetail(**{**base, **changes})


def test_design_of_the_worked_example():
    S, b = moments()
    # lattice of 2^20 steps: rounding shows at 1e-6
    assert smallest_eigenvalue(S) == pytest.approx(34.006734006734, abs=2e-4)
    assert solve_projected(S, b, 1.0) == pytest.approx([0, 0.507425742574], abs=2e-5)
    x = data()[:2]
    assert np.linalg.eigvalsh(x @ x.T)[0] == pytest.approx(34.006734006734, rel=1e-12)


LAM = 34.006734006734


def test_paper_constants():
    d = detail(form="paper", c0=0.2, eps_t=0.5, ry=math.sqrt(2))
    gamma, p, sigma = safety(d, Approximate(1.0, 0.01), LAM, 100, 0.0)
    assert gamma == pytest.approx(2.501683501684, rel=1e-11)
    assert p == pytest.approx(0.020748217872, rel=1e-9)
    assert sigma == pytest.approx(2.486009168074, rel=1e-10)
    with pytest.raises(PrivacyBugError, match="published constants"):
        safety(replace(d, ry=1.5), Approximate(1.0, 0.01), LAM, 100, 0.0)
    # alpha = 0.4
    assert paper_sigma(0.4, 1.0, 0.01) == pytest.approx(2.486009168074, rel=1e-10)


def test_tight_constants():
    d = detail(form="fixed", c0=0.2, eps_t=0.25)
    gamma, p, sigma = safety(d, Approximate(1.0, 0.01), LAM, 100, 0.0)
    assert gamma == 7.0
    assert split_midpoint(0.25, 0.01) == pytest.approx(18.380479400538, rel=1e-12)
    assert p == pytest.approx(0.054934127275, rel=1e-9)
    assert ls_bound(math.sqrt(2), 1.0, 1.0) == pytest.approx(4.199595153635, rel=1e-12)
    assert agm(0.75, 0.01) == pytest.approx(2.329430926030, rel=1e-11)
    assert sigma == pytest.approx(0.489133341384, rel=1e-10)


@pytest.mark.parametrize(
    ("eps", "mu", "sd", "lower", "sigma"),
    [
        (1, 0.523040823719, 9.872991859840, 3.496895602925, 5.817961769966),
        (2, 0.883101474020, 5.847547475417, 15.936453886352, 0.370113623422),
    ],
)
def test_auto_form_without_noise(eps, mu, sd, lower, sigma):
    total = mu_gdp(eps, 0.9 * 0.01)
    assert total == pytest.approx(mu, rel=1e-11)
    mu_t, mu_r = math.sqrt(0.15) * total, math.sqrt(0.85) * total
    s = 2.0  # R_x^2
    assert s / mu_t == pytest.approx(sd, rel=1e-11)
    z = upper_quantile(0.1 * 0.01)
    assert z == pytest.approx(3.090232306168, rel=1e-12)
    lb = LAM - s / mu_t * z
    assert lb == pytest.approx(lower, rel=1e-10)
    rho, rtheta, h = auto_noise(lb, False, math.sqrt(2), 1.0, 1.0, 100, 0.0)
    assert rho == 0.0
    assert rtheta == 1.0
    assert h / mu_r == pytest.approx(sigma, rel=1e-10)


def test_margins_of_the_auto_form():
    for eps, delta, mu, sd, margin, multiplier in [
        (0.5, 1e-6, 0.12342172, 20.9201, 108.770, 8.78818),
        (1, 1e-6, 0.23550145, 10.9638, 57.0045, 4.60571),
        (1, 1e-5, 0.26636463, 9.69344, 46.0770, 4.07206),
        (2, 1e-6, 0.44626060, 5.78583, 30.0825, 2.43054),
        (4, 1e-6, 0.83440782, 3.09440, 16.0888, 1.29991),
    ]:
        total = mu_gdp(eps, 0.9 * delta)
        assert total == pytest.approx(mu, rel=1e-7)
        unit = 1 / (math.sqrt(0.15) * total)
        assert unit == pytest.approx(sd, rel=1e-5)
        assert unit * upper_quantile(0.1 * delta) == pytest.approx(margin, rel=1e-5)
        assert 1 / (math.sqrt(0.85) * total) == pytest.approx(multiplier, rel=1e-5)


def test_zero_noise_source_draws_nothing():
    noise = ZeroNoise()
    assert noise.discrete_gaussian(4, 3) == [0, 0, 0]
    assert noise.bernoulli(1e-300)
    assert not noise.bernoulli(0.0)
