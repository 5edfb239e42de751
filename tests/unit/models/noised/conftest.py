import numpy as np
import pandas as pd
import pytest

import dpmodels as dp


def make_people(n=4000, seed=1, sd=0.3):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.uniform(-1, 1, n),
            "b": rng.uniform(0, 1, n),
            "g": rng.choice(["u", "v", "w"], n),
            "year": rng.integers(2000, 2010, n),
        }
    )
    frame["y"] = 1 + frame.a - 0.5 * frame.b + (frame.g == "v") + rng.normal(0, sd, n)
    return frame


@pytest.fixture
def people():
    return make_people


@pytest.fixture
def facts():
    return dp.Schema(
        y=dp.Real(-3, 5), a=dp.Real(-1, 1), b=dp.Real(0, 1), g=dp.Levels(["u", "v", "w"])
    )
