import numpy as np
import pandas as pd
import pytest


def logistic_table(n, seed=0, beta=(-0.3, 1.0, -2.0)):
    """Columns a in [-1, 1], b in [0, 10], y in {0, 1}: logit = b0 + b1 a + b2 (b - 5)/5."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, n), rng.uniform(0, 10, n)
    eta = beta[0] + beta[1] * a + beta[2] * (b - 5) / 5
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    return pd.DataFrame({"a": a, "b": b, "y": y})


@pytest.fixture
def logistic():
    return logistic_table


@pytest.fixture
def glm_schema():
    import dpmodels as dp

    return dp.Schema(a=dp.Real(-1, 1), b=dp.Real(0, 10), y=dp.Binary())
