"""A schema, rows inside and far outside it, and a grammar of random formulas."""

import random
import warnings

import numpy as np
import pandas as pd
import pytest

from dpmodels.formula import coerce
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.variables import Binary, Count, Levels, Ordered, Real

SCHEMA = Schema(
    y=Real(0, 10),
    x=Real(1, 5),
    z=Real(-2, 2),
    v=Real(0.5, 30),
    b=Binary(),
    c=Count(upper=20),
    u=Real(),
    **{"odd name": Real(-1, 4)},
    g=Levels(["a", "b", "c"]),
    h=Levels(["p", "q"]),
    k=Ordered(["k1", "k2", "k3", "k4", "k5"]),
)
NUMBERS = [n for n, v in SCHEMA.items() if v.numeric]
FACTORS = [n for n, v in SCHEMA.items() if not v.numeric]

NUMERIC = [
    "x", "z", "v", "b", "c", "`odd name`", "u", "I(x**2)", "I(z**3)", "I(x*z - 1)", "{v / (z + 4)}",
    "log(x)", "np.log(v)", "exp(z)", "sqrt(v)", "abs(z)", "np.sin(x)", "cos(v)", "log1p(c)",
    "I(-x + 2*z)", "I(x > 3)", "{z <= 0.5}", "np.tanh(z)", "np.arctan(v)", "log10(v)", "log2(x)",
    "expm1(z)", "I(v**0.5)", "I(x**-1)", "np.minimum(x, 3)", "np.maximum(z, b)", "I(z**0)",
    "logistic(z)", "clip(z, -1, 1)", "unit(x)", "scale(z, center=0.5, scale=2)", "I(u*z)",
    "sin(u)",
]  # fmt: skip
BASES = [
    "bs(x, knots=[2, 3.5], lower_bound=1, upper_bound=5, extrapolation='clip')",
    "bs(v, degree=2, knots=[10], lower_bound=0.5, upper_bound=30, extrapolation='clip')",
    "poly(z, 3, raw=True)",
    "legendre(z, 3)",
]
CATEGORIES = [
    "g", "h", "k", "C(g)", "C(g, contr.sum)", "C(k, contr.helmert)", "C(k, contr.poly)",
    "C(k, contr.diff)", "C(g, contr.treatment('b'))", "C(g, levels=['c', 'a', 'b'])",
    "C(h, contr.sum)", "C(g, Treatment(reference='c'))", "C(k, contr.SAS)",
]  # fmt: skip


def logistic(x):
    return 1 / (1 + np.exp(-np.asarray(x)))


def legendre(x, k):
    t = np.asarray(x) / 2
    values = np.polynomial.legendre.legvander(t, k)[:, 1:]
    from formulaic.materializers.types import FactorValues

    return FactorValues(
        {i + 1: values[:, i] for i in range(k)}, kind="numerical", format="{name}[{field}]"
    )


PLAIN = {
    "np": np, "log1p": np.log1p, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs, "sin": np.sin,
    "cos": np.cos, "expm1": np.expm1, "clip": np.clip, "logistic": logistic,
    "unit": lambda x: (x - 3) / 2, "legendre": legendre,
}  # fmt: skip


def random_formula(rng):
    """One formula of the grammar."""

    def factor():
        pool = rng.choices([NUMERIC, CATEGORIES, BASES], [6, 4, 1])[0]
        return rng.choice(pool)

    def term():
        count = rng.choices([1, 2, 3], [5, 3, 1])[0]
        parts = [factor() for _ in range(count)]
        if sum(p in BASES for p in parts) > 1:
            parts = parts[:1]
        return rng.choice([":", ":", "*", "/"]).join(parts)

    terms = [term() for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.1:
        terms.append(f"({rng.choice(NUMERIC)} + {rng.choice(CATEGORIES)} + x)**2")
    right = " + ".join(terms)
    right = rng.choice(["", "", "", "0 + ", "1 + "]) + right + rng.choice(["", "", "", " - 1"])
    return f"{rng.choice(['y', 'y', 'log(y + 1)', 'I(y/2)'])} ~ {right}"


def make_frame(n=30, seed=0, far=False):
    """Rows inside the declared ranges, or far outside them."""
    rng = np.random.default_rng(seed)
    data = {}
    for name, v in SCHEMA.items():
        if v.kind == "binary":
            data[name] = rng.integers(0, 2, n).astype(float)
        elif v.numeric:
            lo, hi = v.interval or (-3, 3)
            data[name] = rng.uniform(lo, hi, n)
            if far and v.interval is not None:
                corner = rng.choice([lo, hi], n)
                wild = rng.choice([-1e300, -1e9, -7.0, 0.0, 7.0, 1e9, 1e300, np.inf, -np.inf], n)
                pick = rng.random(n)
                data[name] = np.where(pick < 0.4, corner, np.where(pick < 0.8, wild, data[name]))
        else:
            data[name] = pd.Categorical(rng.choice(v.levels, n), categories=list(v.levels))
    return pd.DataFrame(data)


def design_matrix(design, df, rows=None):
    """Fill in chunks of ``rows`` rows: (q, n)."""
    columns = {v: coerce(df[v], design.schema[v]) for v in design.variables}
    n = len(df)
    out = np.full((design.q, n), np.inf)
    step = rows or max(n, 1)
    for start in range(0, n, step):
        stop = min(n, start + step)
        buffer = np.full((design.q, stop - start), -7.0)
        design.fill({k: a[start:stop] for k, a in columns.items()}, buffer)
        out[:, start:stop] = buffer
    return out


def plain_matrix(formula, df):
    """What formulaic gives: (names, X, y)."""
    import formulaic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mm = formulaic.Formula(formula).get_model_matrix(df, context=PLAIN, na_action="ignore")
    return (
        tuple(mm.rhs.columns),
        np.asarray(mm.rhs, dtype=float),
        np.asarray(mm.lhs, dtype=float)[:, 0],
    )


@pytest.fixture(scope="session")
def family():
    """At least 200 random formulas with their designs."""
    rng = random.Random(20)
    out = {}
    while len(out) < 210:
        text = random_formula(rng)
        if text in out:
            continue
        design = build_design(text, SCHEMA)
        if design.p <= 150:
            out[text] = design
    return out


@pytest.fixture(scope="session")
def tools():
    """Helpers shared by the tests of this folder."""
    import types

    return types.SimpleNamespace(
        schema=SCHEMA,
        frame=make_frame,
        fill=design_matrix,
        plain=plain_matrix,
        random_formula=random_formula,
        numbers=NUMBERS,
        factors=FACTORS,
    )
