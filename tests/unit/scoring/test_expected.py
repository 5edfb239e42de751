"""Expected inference of a plan: the assumed score lengths, and the errors that fits print."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.forecasts import _coefficient_error
from dpmodels.scoring.expected import Expectation, ScoreLengths, spread_of_tail
from dpmodels.scoring.rules import MAX_SPREAD, ROW_SPREAD

SCHEMA = dp.Schema(x=dp.Real(-4, 4), z=dp.Real(-4, 4), y=dp.Real(-40, 40), e=dp.Binary())


def lengths(law, n, rng):
    """Draw score lengths of rows as a law describes them."""
    w = np.exp(ROW_SPREAD * rng.normal(size=n) - ROW_SPREAD**2)
    if law.events is not None:
        m, happened = law.events, rng.random(n) < law.events
        return w * np.where(happened, np.sqrt((1 - m) / m), np.sqrt(m / (1 - m)))
    tail = np.exp(law.spread * rng.normal(size=n) - law.spread**2)
    return w * tail * np.abs(rng.normal(size=n))


@pytest.mark.parametrize("law", [ScoreLengths(), ScoreLengths(0.6), ScoreLengths(events=0.05)])
def test_shares_beyond_a_length_are_those_of_draws(law):
    """200 000 draws with a fixed seed; six sds of a share, and .002 for the grid of the integral."""
    drawn = lengths(law, 200_000, np.random.default_rng(3))
    assert np.mean(drawn**2) == pytest.approx(1.0, rel=0.05)
    for x in (0.3, 1.0, 2.5, 5.0):
        share, planned = np.mean(drawn > x), float(law.beyond(np.array([x]), 4)[0])
        assert abs(share - planned) < 6 * np.sqrt(share / 200_000) + 0.002


def test_a_tail_is_read_off_its_share():
    shares = [0.0, 1e-4, 0.001, 0.005, 0.009]
    spreads = [spread_of_tail(share, 4.0) for share in shares]
    assert spreads[0] == 0.0 and (np.diff(spreads) > 0.0).all()
    assert spread_of_tail(0.05, 4.0) == MAX_SPREAD
    residuals = np.exp(0.5 * np.random.default_rng(5).normal(size=10**6) - 0.25)
    residuals *= np.random.default_rng(6).normal(size=10**6)
    assert spread_of_tail(float(np.mean(np.abs(residuals) > 4)), 4.0) == pytest.approx(0.5, abs=0.03)


def test_rows_of_a_person_have_shorter_tails():
    one, six = (
        float(ScoreLengths(0.6, rows).beyond(np.array([4.0]), 4)[0]) for rows in (1.0, 6.0)
    )
    assert six < one / 3.0


def test_a_fit_by_moments_has_no_allowance():
    plain = Expectation()
    assert plain.bias.tolist() == [0.0] and plain.sampling == plain.privacy == 1.0


@pytest.mark.statistical
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("noise", "tail"), [("normal", 0.0), ("standard_exponential", 0.0067)]
)
def test_allowances_are_those_of_fits(noise, tail):
    """12 fits a tail, seeds fixed: median allowance and privacy error within a factor of 1.6.

    The allowance of one fit varies by a factor of 1.7, its median of 12 by 1.2.
    """
    plan = dp.plan("y ~ x + z", SCHEMA, n=10_000, eps=1, delta=1e-6, tail=tail,
                   sd={"x": 1.0, "z": 1.0, "y": 1.0})  # fmt: skip
    error, tables = _coefficient_error(plan, "x"), []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        d = pd.DataFrame(rng.normal(size=(10_000, 2)).clip(-4, 4), columns=["x", "z"])
        d["y"] = 0.3 * d["x"] + getattr(rng, noise)(size=10_000)
        fit = dp.dp_ols("y ~ x + z", d, schema=SCHEMA, eps=1, delta=1e-6, seed=seed)
        tables.append(fit.tidy().set_index("term").loc["x"])
    found = pd.DataFrame(tables).median(numeric_only=True)
    printed = error.privacy * np.sqrt(np.median(error.expected.printed_privacy))
    assert 1 / 1.6 < found["std_error_privacy"] / printed < 1.6
    allowance = error.privacy * np.median(error.expected.bias)
    assert 1 / 1.6 < found["bias_bound"] / allowance < 1.6


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("verb", ["dp_ols", "dp_glm", "dp_quantreg"])
@pytest.mark.parametrize(("n", "p"), [(5_000, 3), (20_000, 3), (20_000, 8)])
def test_expected_privacy_errors_are_those_that_fits_print(verb, n, p):
    """8 fits a design, seeds fixed: the mean printed error within 15 % of the expected one.

    True facts are given. The mean of 8 varies by 2 to 4 %, so a false alarm needs four sds in the
    designs nearest to a limit (logits, .89): below 1 in 1 000.
    """
    events, slopes = verb == "dp_glm", [f"x{j}" for j in range(p)]
    schema = {x: dp.Real(-1, 1) for x in slopes}
    schema = dp.Schema(**schema, y=dp.Binary() if events else dp.Real(-6, 6))
    call = {"schema": schema, "eps": 1, "delta": 1e-6}
    formula, printed = "y ~ " + " + ".join(slopes), []
    for seed in range(8):
        rng = np.random.default_rng(1000 + seed)
        d = pd.DataFrame(rng.normal(0, 0.25, (n, p)).clip(-1, 1), columns=slopes)
        eta = d.sum(axis=1) / 2
        happens = rng.random(n) < 1 / (1 + np.exp(1 - eta))
        d["y"] = happens.astype(int) if events else (eta + rng.normal(size=n)).clip(-6, 6)
        tidy = getattr(dp, verb)(formula, d, seed=seed, **call).tidy().set_index("term")
        printed.append(tidy.loc[slopes, "std_error_privacy"].mean())
    facts = {"sd": dict.fromkeys(slopes, 0.25)}
    facts |= {"events": 0.28} if events else {"sd": facts["sd"] | {"y": 1.0}}
    plan = dp.plan(formula, n=n, verb=verb, **call, **facts)
    expected = np.mean([plan.expected_se[x] for x in slopes])
    assert 0.85 < expected / np.mean(printed) < 1.15
