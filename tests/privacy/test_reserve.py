"""Passes from a reserve: sizes that follow outputs cost no more than the step in the ledger."""

import math

import numpy as np
import pytest

from dpmodels.privacy.mechanisms import Gaussian, Step, delta_gdp
from dpmodels.privacy.noise import make_noise
from dpmodels.privacy.run import Run
from dpmodels.scoring.pass_plan import longer
from dpmodels.scoring.rules import EXTRA_PASS_SHARE, MAX_EARLY_PASSES

MU, EPS, RUNS = 1.2, 1.0, 3000


def losses(neighbour, noise, part):
    """Log likelihood ratios of runs in which a pass is added while outputs look like neighbour 1.

    ``part``: share of mu^2 of each of up to four draws, of what is left.
    """
    out = np.zeros(RUNS)
    for i in range(RUNS):
        run, left, total = Run([Step("rest", Gaussian(MU))], noise), MU**2, 0.0
        for k in range(4):
            last = k == 3 or total < -0.2
            mu = math.sqrt(left if last else part(left))
            if part is less:
                run.pay("rest", [Step(f"{k}", Gaussian(mu))])
            else:  # whoever pays out of nothing
                run._open[f"{k}"] = Step(f"{k}", Gaussian(mu))
            step = 1 << 20
            x = float(run.gaussian(f"{k}", [neighbour * step], float(step))[0]) / step
            total += mu * (mu * x) - mu * mu / 2.0  # x = neighbour + N(0, 1/mu^2)
            left = left - mu * mu if part is less else left
            if last:
                break
        out[i] = total
    return out


def less(left):
    """Return a part of what is left."""
    return 0.4 * left


def same(left):
    """Return all of it, and forget that it was spent."""
    return left


@pytest.mark.parametrize("part", [less, same])
def test_the_best_test_of_an_adaptive_reserve_has_no_more_than_its_curve(part):
    """``P(L > eps) - e^eps Q(L > eps)`` within 4.5 sds of sampling; a reserve that is not counted
    down is seen. False alarm below 1e-5."""
    noise = make_noise(44)
    here, there = (losses(v, noise, part) for v in (1, 0))
    p, q = np.mean(here > EPS), np.mean(there > EPS)
    sd = math.sqrt(p * (1 - p) + math.exp(2 * EPS) * q * (1 - q)) / math.sqrt(RUNS)
    over = p - math.exp(EPS) * q - delta_gdp(EPS, MU)
    if part is less:
        assert over < 4.5 * sd
        assert over > -0.1  # the attacker comes close
    else:
        assert over > 4.5 * sd


@pytest.mark.parametrize("shares", [(0.18, 0.06, 0.09, 0.15, 0.52), (0.15, 0.07, 0.13, 0.65)])
def test_a_reserve_is_split_and_never_grows(shares):
    """.18 of what is left each time, at most six passes before the last."""
    listed = list(longer(shares))
    for before, after in zip([shares, *listed], listed, strict=False):
        assert math.fsum(after) == pytest.approx(1.0, rel=1e-12)
        assert after[:-2] == before[:-1]
        assert after[-2] == pytest.approx(EXTRA_PASS_SHARE * before[-1])
    assert len(listed[-1]) - 2 == MAX_EARLY_PASSES
