"""The front end agrees with plain formulaic, and a design pickles small."""

import pickle

import numpy as np
import pandas as pd
import pytest

from dpmodels.formula import build_design, coerce
from dpmodels.schema import Levels, Real, Schema

formulaic = pytest.importorskip("formulaic")

SCHEMA = Schema(
    y=Real(0, 10),
    x=Real(1, 5),
    z=Real(-2, 2),
    u=Real(),
    g=Levels(["a", "b", "c"]),
    h=Levels(["p", "q"]),
)


def frame(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "y": rng.uniform(0, 10, n),
            "x": rng.uniform(1, 5, n),
            "z": rng.uniform(-2, 2, n),
            "u": rng.normal(size=n),
            "g": pd.Categorical(rng.choice(list("abc"), n), categories=list("abc")),
            "h": pd.Categorical(rng.choice(list("pq"), n), categories=list("pq")),
        }
    )


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x*z + log(x) + I(x**2)",
        "y ~ x*g",
        "y ~ 0 + g + x:g",
        "log(y+1) ~ g*h*x + C(g):z",
        "y ~ z*u + exp(x) - 1",
        "y ~ .",
    ],
)
def test_same_as_formulaic(formula):
    df = frame()
    design = build_design(formula, SCHEMA)
    out = np.empty((design.q, len(df)))
    design.fill({v: coerce(df[v], design.schema[v]) for v in design.variables}, out)
    plain = formulaic.model_matrix(formula, df, context={})
    assert design.names == tuple(plain.rhs.columns)
    assert np.allclose(out[:-1].T, np.asarray(plain.rhs, dtype=float), rtol=0, atol=1e-12)
    assert np.allclose(out[-1], np.asarray(plain.lhs, dtype=float)[:, 0], rtol=0, atol=1e-12)


def test_pickle_is_small_and_compiles_the_same_design():
    design = build_design("y ~ x*g + u", SCHEMA).with_bounds({"u": (-3, 3)})
    data = pickle.dumps(design)
    assert len(data) < 2000
    again = pickle.loads(data)
    assert again == design
    assert again.fingerprint == design.fingerprint
    assert again.unknown == ()
