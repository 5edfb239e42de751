from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import chdtrc, erf, ndtr

from dpmodels.errors import PrivacyBugError
from dpmodels.privacy import run as run_module
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure, Step
from dpmodels.privacy.noise import (
    ExactNoise,
    SeededNoise,
    _one_gaussian,
    _one_laplace,
    make_noise,
)
from dpmodels.privacy.run import ROUND_UP, Run, tail_margin


class Scripted(SeededNoise):
    """Records the scales a run asks for; draws are zero."""

    def __init__(self):
        super().__init__(0)
        self.asked = []

    def discrete_gaussian(self, sigma2, size):
        self.asked.append((sigma2, size))
        return [0] * size

    def discrete_laplace(self, scale, size):
        self.asked.append((scale, size))
        return [0] * size


def _chi_square(draws, probability, limit):
    """p-value of a chi-square test on the cells |k| <= limit and the rest."""
    n = len(draws)
    cells = list(range(-limit, limit + 1))
    weights = np.array([probability(k) for k in cells])
    expected = np.append(weights, max(1e-12, 1 - weights.sum())) * n
    counts = np.array([draws.count(k) for k in cells])
    observed = np.append(counts, n - counts.sum())
    return float(chdtrc(len(cells), ((observed - expected) ** 2 / expected).sum()))


def _ks(draws, sd):
    """p-value of Kolmogorov-Smirnov against the normal (asymptotic series)."""
    x = np.sort(np.asarray(draws, dtype=float)) / sd
    n = len(x)
    F = ndtr(x)
    d = max((np.arange(1, n + 1) / n - F).max(), (F - np.arange(n) / n).max())
    t = (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * d
    return 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * t * t) for k in range(1, 60))


@pytest.mark.statistical
@pytest.mark.parametrize("sigma2", [Fraction(4), Fraction(1, 2), Fraction(29, 7)])
def test_discrete_gaussian_chi_square(sigma2):
    """Unseeded (OS entropy); false-alarm probability 1e-6 a case."""
    s2 = float(sigma2)
    total = sum(math.exp(-k * k / (2 * s2)) for k in range(-80, 81))
    draws = ExactNoise().discrete_gaussian(sigma2, 10_000)
    limit = max(2, int(2.5 * math.sqrt(s2)))
    assert _chi_square(draws, lambda k: math.exp(-k * k / (2 * s2)) / total, limit) > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("source", [ExactNoise(), SeededNoise(3)])
@pytest.mark.parametrize("scale", [Fraction(2), Fraction(5, 3), Fraction(1, 2)])
def test_discrete_laplace_chi_square(source, scale):
    """OS entropy or seed 3; false-alarm probability 1e-6 a case."""
    if isinstance(source, SeededNoise) and scale != 2:
        pytest.skip("the seeded sampler is approximate at small scales by design")
    q = math.exp(-1 / float(scale))
    draws = source.discrete_laplace(scale, 10_000)
    assert _chi_square(draws, lambda k: (1 - q) / (1 + q) * q ** abs(k), 4) > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("sd", [1, 2, 3])
def test_draws_one_by_one_have_the_law(sd):
    """OS entropy; false-alarm probability 1e-6 each of six. Draws for numbers beyond 64 bits.

    At sd 2 (Gaussian) and scale 3 (Laplace) the integers of OpenDP 0.14.1 give 2e-26 and 4e-22.
    """
    n = 6_000
    total = sum(math.exp(-k * k / (2 * sd * sd)) for k in range(-80, 81))
    draws = [_one_gaussian(Fraction(sd * sd)) for _ in range(n)]
    limit = max(2, int(2.5 * sd))
    assert _chi_square(draws, lambda k: math.exp(-k * k / (2 * sd * sd)) / total, limit) > 1e-6
    q = math.exp(-1 / sd)
    draws = [_one_laplace(sd, 1) for _ in range(n)]
    assert _chi_square(draws, lambda k: (1 - q) / (1 + q) * q ** abs(k), 6) > 1e-6


@pytest.mark.statistical
def test_ks_at_two_to_the_thirty():
    """OS entropy; false-alarm probability 1e-6 (lattice effect 2^-30)."""
    assert _ks(ExactNoise().discrete_gaussian(Fraction(2**60), 10_000), 2.0**30) > 1e-6


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("sigma", [2, 2**30])
def test_variance_and_ks_at_1e5(sigma):
    """OS entropy; variance to 1.6 % = 3.6 se twice over: false alarm below 1e-3 at 1 %, 4e-4."""
    start = time.process_time()
    draws = ExactNoise().discrete_gaussian(Fraction(sigma**2), 100_000)
    print(f"sigma {sigma}: {(time.process_time() - start) * 10:.1f} us a draw")
    variance = np.mean(np.square(np.asarray(draws, dtype=float)))
    assert abs(variance / sigma**2 - 1) < 0.016
    if sigma > 100:
        assert _ks(draws, float(sigma)) > 1e-6


@pytest.mark.parametrize(
    "sigma", [Fraction(1, 1000), Fraction(2), Fraction(2**60), Fraction(1.2345e9)]
)
def test_ten_thousand_draws_in_a_second(sigma):
    noise = ExactNoise()
    start = time.process_time()
    assert len(noise.discrete_gaussian(sigma**2, 2_000)) == 2000
    assert time.process_time() - start < 0.4  # twice the promise, for a loaded machine


@pytest.mark.statistical
@pytest.mark.parametrize("noise", [ExactNoise(), SeededNoise(1)])
def test_other_draws(noise):
    """OS entropy or seed 1; each comparison at 6 standard errors: false alarm below 1e-8."""
    u, z, e = noise.uniforms(20000), noise.normals(20000), noise.exponentials(20000)
    assert u.min() > 0 and u.max() < 1 and abs(u.mean() - 0.5) < 6 * 0.2887 / 141.4
    assert abs(z.mean()) < 6 / 141.4 and abs(z.std() - 1) < 6 / 200
    assert abs(e.mean() - 1) < 6 / 141.4
    assert sorted(noise.permutation(50).tolist()) == list(range(50))
    below = noise.integers_below(5, 5000)
    assert set(below) == set(range(5)) and noise.integers_below(1, 3) == [0, 0, 0]
    hits = sum(noise.bernoulli(0.3) for _ in range(5000))
    assert abs(hits - 1500) < 6 * 32.5
    assert not any(noise.bernoulli(1e-300) for _ in range(50))
    assert noise.bernoulli(1.0) and not noise.bernoulli(0.0)


def test_bad_parameters():
    with pytest.raises(ValueError, match="probability"):
        ExactNoise().bernoulli(math.nan)
    with pytest.raises(ValueError, match="variance"):
        ExactNoise().discrete_gaussian(Fraction(0), 1)
    with pytest.raises(ValueError, match="scale"):
        ExactNoise().discrete_laplace(Fraction(-1), 1)
    assert make_noise(None).private and not make_noise(3).private
    assert SeededNoise(3).discrete_gaussian(Fraction(2**80), 3) == SeededNoise(3).discrete_gaussian(
        Fraction(2**80), 3
    )


def test_each_step_once_and_as_planned():
    run = Run(
        [Step("a", Gaussian(0.5)), Step("b", Pure(0.5)), Step("c", Approximate(0.1, 1e-6))],
        Scripted(),
    )
    with pytest.raises(PrivacyBugError, match="planned as"):
        run.laplace("a", [1], 1.0)
    run = Run([Step("a", Gaussian(0.5)), Step("b", Pure(0.5))], Scripted())
    run.gaussian("a", [1], 1.0)
    with pytest.raises(PrivacyBugError, match="drawn already"):
        run.gaussian("a", [1], 1.0)
    with pytest.raises(PrivacyBugError, match="not in the plan"):
        run.gaussian("z", [1], 1.0)
    assert run.undrawn == ("b",)
    with pytest.raises(PrivacyBugError, match="same name"):
        Run([Step("a", Pure(1.0)), Step("a", Pure(1.0))], Scripted())


def test_a_step_that_pays_for_others_never_pays_more_than_it_has():
    """Sizes may follow outputs; their squares add up to at most that of the step in the ledger."""
    half = [Step(name, Gaussian(math.sqrt(0.5) * 0.3)) for name in ("x", "y")]

    def paying():
        return Run([Step("a", Gaussian(0.5)), Step("rest", Gaussian(0.3))], Scripted())

    run = paying()
    assert run.untouched
    run.pay("rest", half[:1])
    assert run.untouched and run.undrawn == ("a", "rest")  # its part is open
    run.gaussian("x", [1], 1.0)
    assert not run.untouched
    run.pay("rest", half[1:])
    run.gaussian("y", [1], 1.0)
    assert run.undrawn == ("a",)
    with pytest.raises(PrivacyBugError, match="has less left than that"):
        run.pay("rest", [Step("z", Gaussian(1e-3))])
    for name, steps, told in (
        ("rest", [Step("x", Gaussian(0.300001))], "has less left than that"),
        ("rest", [half[0], half[0]], "cannot be paid for"),
        ("rest", [Step("a", Gaussian(0.1))], "cannot be paid for"),
        ("rest", [Step("rest", Gaussian(0.1))], "cannot be paid for"),
        ("rest", [Step("x", Pure(0.1))], "cannot be paid for"),
        ("rest", [Step("x", Gaussian(0.1), failure=1e-9)], "cannot be paid for"),
        ("no", half, "cannot pay"),
    ):
        run = paying()
        with pytest.raises(PrivacyBugError, match=told):
            run.pay(name, steps)
        with pytest.raises(PrivacyBugError):
            run.gaussian("x", [1], 1.0)  # nothing was opened
    run = paying()
    run.gaussian("rest", [1], 1.0)
    with pytest.raises(PrivacyBugError, match="cannot pay"):  # drawn as it is
        run.pay("rest", half)
    run = paying()
    run.pay("rest", half[:1])
    with pytest.raises(PrivacyBugError, match="drawn already"):  # it pays: no draw of its own
        run.gaussian("rest", [1], 1.0)
    for bad in (Step("rest", Pure(0.3)), Step("rest", Gaussian(0.3), failure=1e-9)):
        with pytest.raises(PrivacyBugError, match="cannot pay"):
            Run([bad], Scripted()).pay("rest", half)


@pytest.mark.parametrize("sensitivity", [1e-6, 1.0, 2.0**20, math.sqrt(2) * 2.0**40, 2.0**90])
def test_gaussian_scale_and_grid(sensitivity):
    noise = Scripted()
    value = [2**70 + 1, -(2**70), 0]
    weights = [1.0, math.sqrt(2), 1.0]
    out = Run([Step("a", Gaussian(0.25))], noise).gaussian("a", value, sensitivity, weights=weights)
    assert out.tolist() == [float(v) for v in value]
    assert sorted(size for _, size in noise.asked) == [1, 2]
    for sigma2, size in noise.asked:
        sd = sensitivity / 0.25 / (1.0 if size == 2 else math.sqrt(2))
        ratio = math.sqrt(sigma2) / sd
        fine = round(math.log2(ratio))
        assert fine >= 0 and math.sqrt(sigma2) >= 2**20
        assert 1 + 0.9e-9 < ratio / 2.0**fine < 1 + 1.1e-9


def test_laplace_scale():
    noise = Scripted()
    run = Run([Step("a", Pure(0.5)), Step("b", Pure(0.5))], noise)
    assert run.laplace("a", [3, -4], 7.0, unit=0.5).tolist() == [1.5, -2.0]
    scale = float(noise.asked[0][0])
    fine = round(math.log2(scale / 14))
    assert scale / 2**fine == pytest.approx(14 * ROUND_UP, rel=1e-15)
    out = run.laplace_real("b", [0.1, math.nan, -3.0], 2.0)
    assert out == pytest.approx([0.1, 0.0, -3.0], abs=2.0 * 2**-30)


def test_real_values_go_to_a_public_grid_without_exceptions():
    run = Run(
        [Step("a", Gaussian(0.5)), Step("f", Gaussian(0.5)), Step("c", Pure(0.1))], Scripted()
    )
    out = run.gaussian_real("a", [0.1234567, math.inf, math.nan], 3.0)
    assert out == pytest.approx([0.1234567, 0.0, 0.0], abs=3 * 2.0**-31)
    assert out[0] / (3 * 2.0**-30) == round(out[0] / (3 * 2.0**-30))
    assert run.float_note is False
    noisy = run.float_normals("f", np.zeros((2, 2)), 1.0)
    assert run.float_note and noisy.shape == (2, 2)
    assert run.coin("c", 1.0) is True


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_bad_sensitivity(bad):
    run = Run([Step("a", Gaussian(0.5)), Step("b", Gaussian(0.5))], Scripted())
    with pytest.raises(PrivacyBugError, match="positive and finite"):
        run.gaussian("a", [1], bad)
    with pytest.raises(PrivacyBugError, match="weights"):
        run.gaussian("b", [1], 1.0, weights=[bad])


def test_tail_margin_bounds_the_lattice_tail():
    """Exact sums: on the grid h of the noise, P(noise > z sd + h) <= p."""
    for p in (0.1, 1e-3, 1e-7):
        for h in (2.0**-4, 2.0**-6):
            t = -math.sqrt(2) * _erfinv(2 * p - 1) + h
            k = np.arange(-int(40 / h), int(40 / h) + 1)
            w = np.exp(-0.5 * (k * h) ** 2)
            assert w[k * h > t].sum() / w.sum() <= p
    assert tail_margin(2.0, 1e-6) > 2 * 4.7534
    assert tail_margin(2.0, 1e-6) == pytest.approx(2 * 4.753424, rel=1e-5)


def _erfinv(x):
    lo, hi = -10.0, 10.0
    for _ in range(200):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if erf(mid) < x else (lo, mid)
    return lo


@pytest.mark.oracle
@pytest.mark.parametrize(("mu", "eps"), [(0.5, 1.0), (1.0, 1.0), (0.5, 0.3), (2.0, 1.0)])
def test_discrete_gaussian_meets_the_curve_up_to_the_lattice_term(mu, eps):
    """Exact sums: excess over dG within mu phi(x) h^2 [-1/12, 1/24], and both ends are attained."""
    from dpmodels.privacy.mechanisms import delta_gdp

    for ratio in (16, 64):  # sigma / grid
        shift = round(mu * ratio)
        m = shift / ratio
        k = np.arange(-60 * ratio, 60 * ratio + 1, dtype=float)
        p, q = np.exp(-0.5 * (k / ratio) ** 2), np.exp(-0.5 * ((k - shift) / ratio) ** 2)
        p, q = p / p.sum(), q / q.sum()
        scaled = []
        for e in np.linspace(eps, eps + m / ratio, 41):  # the kink sweeps one cell
            x = e / m - m / 2
            phi = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
            excess = np.maximum(q - math.exp(e) * p, 0).sum() - delta_gdp(float(e), m)
            scaled.append(excess * ratio**2 / (m * phi))
        assert max(scaled) == pytest.approx(1 / 24, rel=0.05)
        assert min(scaled) == pytest.approx(-1 / 12, rel=0.05)


@pytest.mark.oracle
def test_rounding_up_pays_for_the_lattice():
    """1e-9 of mu against the lattice term at sigma/grid = 2^20, with a factor 1000 to spare."""
    h = 2.0**-20
    assert h**2 / 24 < 1e-12 < 1 - 1 / ROUND_UP


@pytest.mark.parametrize("delta", [1e-6, 1e-20, 1e-100])
def test_coins_near_one_draw_their_complement(delta, monkeypatch):
    """1 - p was a multiple of 1.1e-16: a coin that fails with 1e-20 never failed."""
    import pickle

    from dpmodels.privacy import noise as generic

    eps = 1.0
    m = generic.split_midpoint(eps, delta)
    far = math.ceil(2 * m)
    coins = {
        "logistic": [generic.reply_probability(float(k), eps, m) for k in range(far + 2)],
        "integer": [generic.integer_coin(k, eps, delta) for k in range(far + 2)],
        "laplace": [
            generic.laplace_test_probability(k, eps, 2 * delta) for k in range(far + 2)
        ],
    }
    for name, ps in coins.items():
        assert ps[0] == pytest.approx(delta, rel=1e-12), name
        assert 0 < ps[-1].complement < 10 * delta, name
        for a, b in itertools.pairwise(ps):
            # neighbours: both outcomes within e^eps, both ways, to a relative 1e-12
            for x, y in ((float(a), float(b)), (a.complement, b.complement)):
                assert abs(math.log(x / y)) <= eps * (1 + 1e-12), name
            assert a + a.complement == pytest.approx(1.0, abs=1e-15)
        rare = ps[-1]
        asked = []
        monkeypatch.setattr(generic.secrets, "randbelow", lambda n, asked=asked: asked.append(n) or 0)
        assert ExactNoise().bernoulli(rare) is False  # the rare draw came up: no reply
        num, den = rare.complement.as_integer_ratio()
        assert asked == [den] and num / den == rare.complement
        again = pickle.loads(pickle.dumps(rare))
        assert (float(again), again.complement) == (float(rare), rare.complement)


@pytest.mark.parametrize("wide", [1.0, 1e3, 1e5])
def test_behind_a_coin_rounding_is_paid_by_the_noise(wide):
    """The grid was 2^-30 of the noise: at noise of 1e5 sensitivities it exceeded the allowance."""

    class Silent(ExactNoise):
        def discrete_gaussian(self, sigma2, size):
            self.sigma2 = sigma2
            return [0] * size

    noise, k, sensitivity = Silent(), 1000, 1.0
    sd = wide * sensitivity
    rng = np.random.default_rng(5)
    x = rng.normal(size=k)
    y = x + sensitivity / math.sqrt(k)
    out = []
    for value in (x, y):
        run = Run([Step("c", Approximate(1.0, 1e-6))], noise)
        out.append(run.coin_gaussian("c", 1.0, value, sd))
    moved = float(np.linalg.norm(out[1] - out[0]))
    grid = sd * (1.0 + 2.0**-20) * 2.0**-50
    real_sd = math.sqrt(noise.sigma2) * grid
    assert moved + math.sqrt(k) * grid <= sensitivity * real_sd / sd / ROUND_UP


@pytest.mark.parametrize("private", [False, True])
def test_sums_of_64_bits_are_those_of_python_integers(private, monkeypatch):
    """The same draws in the same order, and sums rounded once, whichever way they are added."""
    rng = np.random.default_rng(5)
    values = np.array(rng.integers(-(1 << 60), 1 << 60, 200), dtype=object)
    weights = rng.choice([0.5, 1.0, 2.0**0.5], 200)
    source = ExactNoise()
    drawn = []

    class Kept:
        """Hands out the draws of the first run again."""

        private = True

        def discrete_gaussians(self, variances, sizes):
            if not drawn:
                drawn.append(source.discrete_gaussians(variances, sizes))
            return drawn[0]

    def released():
        noise = Kept() if private else SeededNoise(3)
        run = Run((Step("a", Gaussian(1.0)),), noise)
        return run.gaussian("a", values, 2.0**31 / 3.0, weights=weights, unit=0.7)

    fast = released()
    monkeypatch.setattr(run_module, "_FITS", 0)  # none fits
    assert np.array_equal(fast, released())


def test_draws_that_are_no_integers_are_not_cut():
    """Sources of audits give fractions, to see what noise a step has."""

    class Halves:
        private = True

        def discrete_gaussian(self, sigma2, size):
            return [Fraction(1, 2)] * size

    found = Run((Step("a", Gaussian(1.0)),), Halves()).gaussian("a", np.array([3, -3]), 2.0**30)
    assert found.tolist() == [3.5, -2.5]


def test_large_sums_are_added_as_python_integers():
    """Beyond 2^61 nothing is added in 64 bits."""
    values = np.array([1 << 62, -(1 << 200), 0], dtype=object)
    run = Run((Step("a", Gaussian(1.0)),), SeededNoise(3))
    found = run.gaussian("a", values, 2.0**30)
    assert np.allclose(found, [2.0**62, -(2.0**200), 0.0], atol=2.0**34)


@pytest.mark.parametrize(
    "values",
    [
        [], [0], [True, False], [(1 << 61) - 1, 1 - (1 << 61)], [1 << 61], [-(1 << 61)], [1 << 63, -1],
        [1 << 70], [np.uint64((1 << 63) + 5)], [Fraction(-7, 2)], [1.9, -2.7], [1e300, -1.0],
    ],
)  # fmt: skip
def test_integers_are_those_of_python_in_64_bits_or_not(values):
    """No value is changed by the way it is kept, and 64 bits hold what is added in them."""
    found = run_module._in_64_bits(np.array(values, dtype=object))
    assert found.tolist() == [int(v) for v in values]
    assert found.dtype == object or all(abs(v) < 1 << 61 for v in found.tolist())


@pytest.mark.parametrize("sds", [[], [2.0], [3.0] * 5, [2.0, 1.0, 2.0, 4.0, 1.0]])
def test_draws_of_one_scale_come_in_the_order_of_their_places(sds):
    scales, order, sizes = run_module._groups(np.array(sds))
    assert scales == sorted(set(sds))
    assert sizes == [sds.count(sd) for sd in sorted(set(sds))]
    assert order.tolist() == sorted(range(len(sds)), key=lambda i: (sds[i], i))
