"""Exact draws in bulk: every decision that of the real numbers, and the law of the integers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpmodels.privacy import noise as bulk
from dpmodels.privacy.noise import ExactNoise


def gaussian_law(sigma2, k):
    weights = np.exp(-(np.arange(-200, 201) ** 2) / (2.0 * float(sigma2)))
    return np.exp(-(np.asarray(k) ** 2) / (2.0 * float(sigma2))) / weights.sum()


def laplace_law(scale, k):
    weights = np.exp(-np.abs(np.arange(-800, 801)) / float(scale))
    return np.exp(-np.abs(np.asarray(k)) / float(scale)) / weights.sum()


def chi2_of(draws, law):
    """Pearson's statistic of the cells with at least 30 expected, and its degrees of freedom."""
    n = len(draws)
    cells = [k for k in range(-60, 61) if n * law(k) >= 30]
    seen = np.array([np.sum(draws == k) for k in cells], dtype=float)
    expected = np.array([n * law(k) for k in cells])
    rest = n - expected.sum()
    statistic = ((seen - expected) ** 2 / expected).sum()
    if rest >= 30:
        statistic += (n - seen.sum() - rest) ** 2 / rest
    return statistic, len(cells)


@pytest.mark.statistical
@pytest.mark.parametrize("sigma2", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(4), Fraction(9), Fraction(50)])
def test_the_law_of_the_gaussian(sigma2):
    """Fresh entropy; each fails with probability below 1e-6."""
    from scipy.stats import chi2

    draws = np.array(bulk.gaussians([sigma2], [60_000]))
    statistic, df = chi2_of(draws, lambda k: gaussian_law(sigma2, k))
    assert chi2.sf(statistic, df) > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("at_once", [1 << 14, 7])
def test_the_law_of_groups_that_are_drawn_at_once(at_once, monkeypatch):
    """Few of each a call, so that many proposals are made at once. Each fails below 1e-6.

    Or their proposals are worked on in parts that end inside a group.
    """
    from scipy.stats import chi2

    monkeypatch.setattr(bulk, "_PROPOSALS_AT_ONCE", at_once)
    variances = [Fraction(1, 3), Fraction(50), Fraction(2)]
    draws = np.array([bulk.gaussians(variances, [3, 7, 2]) for _ in range(2500)])
    for sigma2, part in zip(variances, np.split(draws, [3, 10], axis=1), strict=True):
        statistic, df = chi2_of(part.ravel(), lambda k, v=sigma2: gaussian_law(v, k))
        assert chi2.sf(statistic, df) > 1e-6


def test_groups_of_no_draws():
    assert len(bulk.gaussians([Fraction(2), Fraction(3)], [0, 0])) == 0
    assert len(bulk.gaussians([Fraction(2), Fraction(3)], [0, 4])) == 4


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(5, 4), Fraction(3), Fraction(6)])
def test_the_law_of_the_laplace(scale):
    """Fresh entropy; each fails with probability below 1e-6."""
    from scipy.stats import chi2

    draws = np.array(bulk.laplaces(scale, 60_000))
    statistic, df = chi2_of(draws, lambda k: laplace_law(scale, k))
    assert chi2.sf(statistic, df) > 1e-6


@pytest.mark.statistical
def test_the_law_is_the_same_if_nothing_is_decided_by_floats(monkeypatch):
    """A margin of 1/2 leaves most events open: all go the exact way. Fails below 1e-6."""
    from scipy.stats import chi2

    monkeypatch.setattr(bulk, "MARGIN", 0.5)
    sigma2 = Fraction(2)
    draws = np.array(bulk.gaussians([sigma2], [3000]))
    statistic, df = chi2_of(draws, lambda k: gaussian_law(sigma2, k))
    assert chi2.sf(statistic, df) > 1e-6


@pytest.mark.statistical
def test_large_scales():
    """sd of 1e5 draws within six of its errors (1 in 1e9)."""
    sigma2 = Fraction(3 << 100, 7)
    draws = np.array(bulk.gaussians([sigma2], [100_000]), dtype=float) / math.sqrt(sigma2)
    assert abs(np.mean(draws)) < 6 / math.sqrt(1e5)
    assert abs(np.mean(draws**2) - 1) < 6 * math.sqrt(2 / 1e5)
    assert abs(np.mean(draws**4) - 3) < 6 * math.sqrt(96 / 1e5)


def test_decisions_are_those_of_the_real_numbers(monkeypatch):
    """Words next to exp(-x) 2^64, where no float can tell: against 80 digits."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 80
        # with the cases in which OpenDP before 0.14.2 divided wrongly
        for num, den in ((1, 3), (2, 3), (4, 6), (3, 4), (12, 35), (1, 8), (32_768, 65_537), (12_345, 1_000_003), (5, 7), (1, 10**12), (44, 1), (1, 1), (123456789, 10**7)):
            target = int((-(Decimal(num) / Decimal(den))).exp() * 2**64)
            p = np.array([math.exp(-num / den)])
            for shift in (-3, -1, 1, 3):
                if target + shift < 0:
                    continue
                word = np.array([target + shift], dtype=np.uint64)
                got = bulk._decided(word, p, lambda _, num=num, den=den: (num, den))
                assert got[0] == (shift < 0)
                monkeypatch.setattr(bulk.secrets, "randbits", lambda k, w=target + shift: w)
                assert bulk._happens(num, den) == (shift < 0)


def test_more_bits_are_drawn_where_a_word_straddles():
    asked = []

    def more(k, fill):
        asked.append(k)
        return fill

    # exp(-1) = .3678794..., its word: the next bits decide
    word = int(bulk._POWERS[-1])
    assert bulk.exact_below_exp(word, 1, 1, lambda k: more(k, 0))
    assert not bulk.exact_below_exp(word, 1, 1, lambda k: more(k, 2**64 - 1))
    assert asked and set(asked) == {64}


@pytest.mark.parametrize(("fill", "below"), [(0, True), (2**64 - 1, False)])
def test_a_word_of_one_straddles_what_is_a_word_and_a_half(monkeypatch, fill, below):
    """exp(-44) is 1.43 of 2^-64."""
    monkeypatch.setattr(bulk.secrets, "randbits", lambda k: fill)
    one = np.ones(1, dtype=np.uint64)
    assert bulk._decided(one, np.array([math.exp(-44)]), lambda _: (44, 1))[0] == below


def test_whole_parts_of_logarithms(monkeypatch):
    """At every power of 1/e: the word before it, the word behind it, and both ways at it."""
    words = [int(bulk._POWERS[-k]) for k in range(1, 45)]
    assert words[0] == 6786177901268885274 and words == sorted(words, reverse=True)

    def of(word, fill=None):
        monkeypatch.setattr(bulk, "_words", lambda size: np.full(size, word, dtype=np.uint64))
        monkeypatch.setattr(bulk.secrets, "randbits", lambda k: fill)
        return bulk._geometric(3).tolist()

    for k, word in enumerate(words, 1):
        if word > 1:
            assert of(word - 1) == [k] * 3
        assert of(word + 1) == [k - 1] * 3
        assert of(word, 0) == [k] * 3
        assert of(word, 2**64 - 1) == [k - 1] * 3
    assert of(2**64 - 1) == [0] * 3
    # below 2^-64: the later bits are one number, the same in every comparison
    assert of(0, 2**64 - 1) == [44] * 3 and of(0, 2**63) == [45] * 3
    with pytest.raises(OverflowError):
        of(0, 0)


def test_a_float_that_underflows_decides_nothing_at_word_zero():
    word = np.zeros(1, dtype=np.uint64)
    seen = []

    def exact(i):
        seen.append(i)
        return 3000, 1

    assert not bulk._decided(word, np.array([0.0]), exact)[0] and seen == [0]


def test_the_source_draws_in_words_and_beyond_them():
    """Both ways are taken; the value of a release is on the lattice either way."""
    noise = ExactNoise()
    assert len(noise.discrete_gaussian(Fraction(10), 5)) == 5
    assert len(noise.discrete_gaussian(Fraction(10), 500)) == 500
    huge = noise.discrete_gaussian(Fraction(10) ** 700, 20)  # no float holds the variance
    assert 10**349 < max(map(abs, huge)) < 10**351
    assert len(noise.discrete_laplace(Fraction(10**20, 3), 40)) == 40  # beyond 64 bits
    assert all(isinstance(k, int) for k in noise.discrete_laplace(Fraction(7, 3), 40))
