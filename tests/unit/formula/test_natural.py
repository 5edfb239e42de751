"""Natural splines with public knots: their values, their bounds, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import FormulaError, FormulaPrivacyError
from dpmodels.formula.build import build_design

SCHEMA = dp.Schema(y=dp.Real(-5, 5), x=dp.Real(0, 10), u=dp.Real(), z=dp.Real(-1, 1))
KNOTS = [2, 3.5, 7]


def columns(text, x):
    """The columns of a term at x, without the intercept."""
    design = build_design(f"y ~ 0 + {text}", SCHEMA)
    return np.asarray(design.matrix(pd.DataFrame({"x": x, "z": 0.0, "y": 0.0})), dtype=float), design


@pytest.mark.parametrize("knots", [[], [5], KNOTS, [0.1, 0.2, 9.9], list(np.linspace(0.5, 9.5, 12))])
def test_a_column_is_one_at_its_knot_and_zero_at_the_others(knots):
    every = np.array([0.0, *knots, 10.0])
    full, _ = columns(f"cr(x, knots={[float(k) for k in knots]})", every)
    assert full == pytest.approx(np.eye(len(every)), abs=1e-9)
    less, _ = columns(f"ns(x, knots={[float(k) for k in knots]})", every)
    assert less == pytest.approx(np.eye(len(every))[:, 1:], abs=1e-9)


def test_they_span_what_patsy_and_r_span():
    patsy = pytest.importorskip("patsy")
    x = np.linspace(0, 10, 400)
    theirs = np.asarray(
        patsy.dmatrix("cr(x, knots=[2, 3.5, 7], lower_bound=0, upper_bound=10) - 1", {"x": x})
    )
    ours, _ = columns(f"cr(x, knots={KNOTS})", x)
    assert ours == pytest.approx(theirs, abs=1e-9)  # patsy has the same cardinal basis
    less, _ = columns(f"ns(x, knots={KNOTS})", x)
    assert less == pytest.approx(theirs[:, 1:], abs=1e-9)


def test_they_are_straight_at_the_ends():
    x = np.array([0.0, 1e-3, 2e-3, 10 - 2e-3, 10 - 1e-3, 10.0])
    found, _ = columns(f"ns(x, knots={KNOTS})", x)
    for k in (0, 3):
        bent = found[k] - 2 * found[k + 1] + found[k + 2]
        assert np.abs(bent).max() < 1e-8  # a parabola of curvature 1 would have 1e-6


@pytest.mark.parametrize("text", [f"ns(x, knots={KNOTS})", f"cr(x, knots={KNOTS})", "ns(x, knots=[5]):z",
                                  "cr(x, knots=[0.1, 0.2, 9.9])", "ns(log(x + 1), knots=[1])"])  # fmt: skip
def test_no_row_leaves_its_bounds(text):
    """Entries and norms, on a fine grid, at the ends, beyond them, and for odd cells."""
    x = np.concatenate([np.linspace(0, 10, 20_001), [-1e9, 1e300, np.inf, -np.inf]])
    design = build_design(f"y ~ 0 + {text}", SCHEMA)
    for z in (-1.0, 1.0):
        X = np.asarray(design.matrix(pd.DataFrame({"x": x, "z": z, "y": 0.0})), dtype=float)
        low, high = np.array([c.interval for c in design.columns]).T
        assert (low <= X).all() and (high >= X).all()
        assert np.sqrt(np.sum(X**2, axis=1)).max() <= design.row_norm() * (1 + 1e-12)
        if ":" not in text:
            assert X.max() > 0.9 and design.row_norm() < 3 * np.sqrt(np.sum(X**2, axis=1)).max()


def test_a_row_does_not_depend_on_the_others():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 1001)
    whole, design = columns(f"ns(x, knots={KNOTS})", x)
    for k in (0, 17, 1000):
        one = np.asarray(design.matrix(pd.DataFrame({"x": x[k : k + 1], "z": 0.0, "y": 0.0})))
        assert (one[0] == whole[k]).all()
    back, _ = columns(f"ns(x, knots={KNOTS})", x[::-1])
    assert (back[::-1] == whole).all()


def test_with_an_intercept_cr_leaves_one_out():
    names = [c.name for c in build_design(f"y ~ cr(x, knots={KNOTS})", SCHEMA).columns]
    assert len(names) == 5 and names[0] == "Intercept"
    names = [c.name for c in build_design(f"y ~ 0 + cr(x, knots={KNOTS})", SCHEMA).columns]
    assert len(names) == 5


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("ns(x, df=4)", FormulaPrivacyError, r"ns\(x, knots=\[2.5, 5, 7.5\]\)"),
        ("cr(x, df=4)", FormulaPrivacyError, r"cr\(x, knots=\[3.333, 6.667\]\)"),
        ("ns(u, df=4)", FormulaPrivacyError, "u = dp.Real"),
        ("ns(u, knots=[1])", FormulaPrivacyError, "u = dp.Real"),
        ("ns(x, knots=[11])", FormulaError, "strictly inside"),
        ("ns(x, knots=[3, 2])", FormulaError, "increasing order"),
        ("ns(x, knot=[3])", FormulaError, "Did you mean 'knots'"),
        ("ns(x, knots=[3], extrapolation='linear')", FormulaError, "always clipped"),
        ("cr(x, knots=[3], constraints='center')", FormulaError, "has no argument"),
        ("ns(x, knots=dp.private(eps=0.1))", FormulaPrivacyError, "public constant"),
    ],
)
def test_what_is_refused_says_what_to_type(text, error, says):
    with pytest.raises(error, match=says):
        build_design(f"y ~ {text}", SCHEMA)


@pytest.mark.usefixtures("noiseless")
def test_a_fit_is_that_of_least_squares_on_the_same_columns():
    rng = np.random.default_rng(1)
    d = pd.DataFrame({"x": rng.uniform(0, 10, 5000)})
    d["y"] = np.sin(d["x"]) + rng.normal(0, 0.3, 5000)
    fit = dp.dp_ols(f"y ~ ns(x, knots={KNOTS})", d, eps=1e9, delta=1e-6, schema=SCHEMA)
    X = np.asarray(fit.design.matrix(d))
    exact = np.linalg.lstsq(X, d["y"], rcond=None)[0]
    assert fit.params.to_numpy() == pytest.approx(exact, abs=0.02)
    new = pd.DataFrame({"x": [0.0, 10.0]})
    ends = fit.predict(new).to_numpy()
    own = fit.shrunk.iloc[0]  # what predictions are made of
    assert ends == pytest.approx([own, own + fit.shrunk.iloc[-1]])
