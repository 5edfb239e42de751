"""What an attacker gains: against closed forms, monotone, the same for a budget and its fits."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import dpmodels as dp
from dpmodels.attacker import delta_of_pair, missed, of_guarantee, percent_at_most
from dpmodels.errors import DPModelsWarning, RequestError
from dpmodels.privacy.account import joint
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure, Step

pytestmark = pytest.mark.usefixtures("quiet")
ALPHAS = (0.0, 1e-4, 0.01, 0.05, 0.3, 0.5, 0.9, 1.0)


@pytest.mark.parametrize("mu", [0.05, 0.25, 1.0, 3.0, 8.0])
def test_gaussian_noise_has_its_closed_form(mu):
    """``Phi(mu / 2)`` for a guess, ``Phi(Phi^-1(a) + mu)`` at false alarm a."""
    e = dp.explain(mu=mu, delta=1e-6)
    assert e.right == pytest.approx(norm.cdf(mu / 2), abs=1e-9)
    for a in ALPHAS[1:-1]:
        assert e.power(a) == pytest.approx(norm.cdf(norm.ppf(a) + mu), abs=1e-7), a
    assert e.power(1.0) == 1.0 and e.power(0.0) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_a_pair_has_its_closed_form(eps, delta):
    """``e^eps / (1 + e^eps)`` without delta; Kairouz, Oh and Viswanath's region at any alarm."""
    e = dp.explain(eps=eps, delta=delta)
    odds = math.exp(eps)
    assert e.right == pytest.approx(delta / 2 + (2 * odds - delta * (odds - 1)) / (1 + odds) / 2
                                    if delta else odds / (1 + odds), abs=2e-3 * bool(delta) + 1e-12)  # fmt: skip
    for a in ALPHAS:
        least = max(0.0, 1 - delta - odds * a, (1 - delta - a) / odds)
        assert e.power(a) == pytest.approx(1 - least, abs=1e-9), a
    assert math.isfinite(e.pure) is (delta == 0.0)
    assert ("Whatever the release shows" in e.statement()) is (delta == 0.0)


def test_the_numbers_of_the_specification():
    """mu = .25: 55 % right; 82 of 1000 found where 50 are accused; 1.62 of 100 accused have it."""
    e = dp.explain(mu=0.25, delta=1e-6)
    text = e.statement()
    assert "at most 55 % (50 % without the release)" in text
    assert "wrongly accuse 50, of 1000 who have it find at most 82" in text
    assert e.power(0.05) == pytest.approx(0.08153, abs=1e-5)
    assert e.precision(0.05, 0.01) == pytest.approx(0.0162, abs=1e-4)
    assert "at most 1.7 in 100 have it" in text, "a bound is rounded up"
    largest = dp.explain(eps=1.0)
    assert (
        f"{math.ceil(1000 * math.e * 0.01 / (0.99 + 0.01 * math.e)) / 10:.1f} in 100 afterwards"
        in str(largest.statement())
    )


def test_a_mixture_is_that_of_a_dense_grid():
    """Composition of Gaussian, pure and failing steps: never below the grid, hardly above it."""
    steps = (Step("a", Gaussian(0.4)), Step("b", Pure(0.5)), Step("c", Approximate(0.2, 1e-5)))
    g = Guarantee(steps, 4.0, 0.01)
    e = of_guarantee(g)
    x = np.linspace(0, 6, 4001)
    delta = np.array([g.delta_at(v) for v in x])
    for a in (0.01, 0.05, 0.4):
        grid = max((1 - delta - np.exp(x) * a).max(), (np.exp(-x) * (1 - delta - a)).max())
        assert missed(g.delta_at, a, 4.0) == pytest.approx(grid, abs=1e-5)
        assert missed(g.delta_at, a, 0.1) == pytest.approx(grid, abs=1e-5), "from any start"
        assert 1 - e.power(a) >= g.tradeoff(a) - 1e-12
    assert e.right == pytest.approx((1 + g.delta_at(0.0)) / 2)


def test_more_eps_is_more_gain():
    eps = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0)
    for delta in (0.0, 1e-6):
        every = [dp.explain(eps=v, delta=delta) for v in eps]
        for of in (lambda e: e.right, lambda e: e.power(0.05), lambda e: e.precision(0.01, 0.1)):
            values = [of(e) for e in every]
            assert values == sorted(values) and values[0] < values[-1]
    none = dp.explain(eps=0.0)
    assert none.right == 0.5 and none.power(0.05) == pytest.approx(0.05)
    assert none.precision(0.05, 0.01) == pytest.approx(0.01)


@pytest.fixture(scope="module")
def spent():
    rng = np.random.default_rng(2)
    d = pd.DataFrame({"x": rng.uniform(0, 1, 800), "y": rng.uniform(0, 1, 800)})
    schema = dp.Schema(x=dp.Real(0, 1), y=dp.Real(0, 1))
    budget = dp.Budget(3, 1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        how = {"delta": 1e-6, "schema": schema, "budget": budget}
        fits = [dp.dp_ols("y ~ x", d, eps=0.5, **how), dp.dp_mean("x ~ 1", d, eps=0.3, **how)]
    return budget, fits


def test_a_budget_is_its_composed_fits(spent):
    budget, fits = spent
    whole, together = budget.explain(), of_guarantee(joint([c.ran for c in budget.charges]))
    for a in (0.01, 0.05):
        assert whole.power(a) == pytest.approx(together.power(a), abs=1e-12)
    assert whole.right == pytest.approx(together.right, abs=1e-12)
    assert (
        max(f.privacy.explain().right for f in fits)
        < whole.right
        < dp.explain(eps=3, delta=1e-5).right
    )
    assert "chosen after earlier results" in str(whole)
    empty = dp.Budget(3, 1e-5).explain()
    assert "Nothing is charged" in str(empty)
    assert empty.right == pytest.approx(dp.explain(eps=3, delta=1e-5).right)


def test_a_fit_explains_no_more_than_its_pair(spent):
    for fit in spent[1]:
        own, pair = fit.privacy.explain(), dp.explain(eps=fit.privacy.eps, delta=fit.privacy.delta)
        assert own.right < pair.right and own.power(0.05) < pair.power(0.05)


def test_the_unit_and_the_neighbours_are_named():
    person = dp.explain(eps=1, delta=1e-6, unit="pid")
    assert "a person with all rows (column pid)" in str(person)
    assert "which of two values a person has" in person.statement()
    row = dp.explain(eps=1, delta=1e-6, relation="add-remove")
    assert "whether a row is in the table" in row.statement()
    assert "several rows is not protected as a whole" in str(row)
    assert "add or remove one row" in row.statement()
    pair = Guarantee(
        (Step("a", Gaussian(0.2)),), 1.0, 1e-3, unit="attribute", record_pair=(3.0, 1e-3)
    )
    assert "A whole row is protected by (eps = 3" in str(of_guarantee(pair))


def test_seeded_noise_promises_nothing(spent):
    seeded = spent[1][0].privacy.not_private().explain()
    assert "Nothing is promised" in seeded.statement() and "at most" not in str(seeded)


def test_numbers_are_a_frame_and_a_picture(spent):
    e = dp.explain(mu=0.5, delta=1e-6)
    frame = e.tidy()
    assert frame["power"].tolist()[0] == e.power(0.05) and len(frame) == 4
    for text in (e.to_html(), e.to_markdown(), e.to_latex()):
        assert "attacker" in text
    pytest.importorskip("matplotlib")
    ax = e.plot()
    line, diagonal = ax.lines[:2]
    x, y = line.get_data()
    assert y == pytest.approx(norm.cdf(norm.ppf(x) + 0.5), abs=1e-6)
    assert (y >= x).all() and list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]


def test_what_is_no_guarantee_is_refused():
    for wrong, says in (
        ({}, "eps= or mu="), ({"eps": 1, "mu": 1}, "eps= or mu="), ({"eps": -1}, "eps"),
        ({"eps": "a"}, "eps"), ({"eps": 1, "delta": 1}, "below 1"), ({"mu": 1}, "above 0 with mu="),
        ({"eps": 1, "relation": "other"}, "relation"), ({"eps": math.inf}, "finite"),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=says):
            dp.explain(**wrong)
    e = dp.explain(eps=1)
    for bad in (-0.1, 1.1, math.nan, "a"):
        with pytest.raises(RequestError, match="share"):
            e.power(bad)
    for bad in (0, 1, math.nan, "a"):
        with pytest.raises(RequestError, match="prior"):
            e.precision(0.05, bad)


@pytest.mark.parametrize(
    ("share", "text"), [(0.5, "50"), (0.54974, "55"), (0.5501, "55.1"), (0.73106, "73.2")]
)
def test_a_bound_is_rounded_up(share, text):
    assert percent_at_most(share) == text


@pytest.mark.parametrize(("eps", "delta"), [(0.1, 0.0), (1.0, 1e-6), (3.0, 0.01), (30.0, 0.0)])
def test_the_curve_of_a_pair_is_that_of_its_mechanism(eps, delta):
    ours, theirs = delta_of_pair(eps, delta), Approximate(eps, delta)
    for other in (0.0, 0.05, 0.5, 1.0, 2.9, 3.0, 40.0):
        assert ours(other) == pytest.approx(theirs.delta_at(other), abs=1e-12)
