"""Cox fits of few events, whose scores are long: a short clip of early passes lost them alone.

Times are declared up to 10 and end at .4, so that the first pass sees a level far from the fit.
"""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

SLOPES = np.array([0.3, -0.2])
SCHEMA = dp.Schema(x0=dp.Real(-4, 4), x1=dp.Real(-4, 4), t=dp.Real(0, 10), e=dp.Binary())


def follow_up(n, seed):
    """Return n people of whom a tenth have an event before .4."""
    rng = np.random.default_rng([61, seed])
    x = rng.normal(size=(n, 2)).clip(-4, 4)
    time = -np.log(rng.random(n)) / (0.25 * np.exp(x @ SLOPES))
    return pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "t": np.minimum(time, 0.4), "e": time < 0.4})


@pytest.mark.statistical
@pytest.mark.usefixtures("quiet")
def test_few_events_keep_their_length_in_early_passes():
    """6 000 people, 550 events, eps 1: error of a slope below .35 (found .14; before 1.5).

    Twelve fits of two slopes, seeds fixed: 24 numbers of sd .14 have a mean square above twice
    that with probability 1e-3, and .35 is 2.5 times it.
    """
    moved = []
    for seed in range(12):
        fit = dp.dp_coxph(
            "Surv(t, e) ~ x0 + x1", follow_up(6_000, seed), eps=1, delta=1e-6, schema=SCHEMA,
            seed=seed,
        )  # fmt: skip
        moved.append(fit.params.to_numpy() - SLOPES)
    assert np.sqrt(np.mean(np.square(moved))) < 0.35


def test_an_event_is_as_long_as_its_rate_says():
    """sqrt(r / rate), whatever W has become."""
    from dpmodels.models.survival.hazard import Hazard
    from dpmodels.scoring.models import State

    model = Hazard(None, None, None, 0.04, people=False)
    for scale in (0.1, 10.0):
        state = State(np.zeros(4), scale * np.eye(4), 1.0, np.eye(4))
        assert model.typical_long(state) == pytest.approx(10.0)
