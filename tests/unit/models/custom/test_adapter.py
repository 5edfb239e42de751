"""A user's own estimator: the three tests, the checker, and what happens when functions fail."""

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.own.least_squares import smallest_eigenvalue, solve_projected
from dpmodels.proof.sets import ls_bound


def table(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.normal(5, 0.3, n)})


B = {"x": (0, 10)}
CALL = dict(eps=2.0, delta=1e-6, bounds=B)

# Interquartile mid-point: moves by at most one gap of the sorted sample. A worked example: the
# median lies within w of its neighbours while m + 1 points lie within w on either side of it.
W = 0.2


def median(x):
    return [float(np.sort(x[:, 0])[len(x) // 2])]


def crowd(x):
    """Points within W of the median on the sparser side, less one: replacing a row moves it by 1."""
    v = np.sort(x[:, 0])
    m = v[len(v) // 2]
    return max(0.0, min(np.sum((v >= m - W) & (v < m)), np.sum((v <= m + W) & (v > m))) - 2.0)


def test_estimator_of_a_user(quiet):
    def mean(x):
        return [x.mean()]

    fit = dp.dp_eptr(mean, lambda x: 1e6, 10 / 2000, "x ~ 1", table(), seed=1, **CALL)
    assert fit.released
    assert fit.params.iloc[0] == pytest.approx(5.0, abs=0.1)
    assert fit.bse_privacy.notna().all()
    assert "prove them" in str(fit.summary())


@pytest.mark.parametrize("method", ["coin", "ptr"])
def test_a_zero_bound_is_silent(quiet, method):
    fit = dp.dp_eptr(
        lambda x: [x.mean()], lambda x: 0.0, 1.0, "x ~ 1", table(), method=method, **CALL
    )
    assert not fit.released


def test_lower_bound_form(quiet):
    def h(lower):
        return 20 / lower if lower > 0 else math.inf

    fit = dp.dp_eptr(
        lambda x: [x.mean()], lambda x: len(x), h, "x ~ 1", table(), method="bound", seed=1, **CALL
    )
    assert fit.released
    silent = dp.dp_eptr(
        lambda x: [x.mean()], lambda x: 1.0, h, "x ~ 1", table(), method="bound", **CALL
    )
    assert not silent.released


def test_failing_functions_give_zero_and_say_nothing(quiet):
    def quoting(x):
        raise RuntimeError(f"secret {x[0, 0]}")

    fit = dp.dp_eptr(quoting, lambda x: 1e6, 0.01, "x ~ 1", table(), seed=1, **CALL)
    assert abs(fit.params.iloc[0]) < 1.0
    for bad in (quoting, lambda x: math.nan, lambda x: "many", lambda x: -5.0):
        assert not dp.dp_eptr(lambda x: [0.0], bad, 0.01, "x ~ 1", table(), **CALL).released


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": -1.0}, "alpha= must be a positive"),
        ({"alpha": "wide"}, "alpha="),
        ({"estimator": 3}, "estimator="),
        ({"safety": None}, "safety="),
        ({"size": 0}, "size"),
        ({"names": ["a", "b"]}, "names="),
        ({"method": "bound"}, "decreasing function"),
        ({"coin": "fair"}, "coin"),
    ],
)
def test_refused(changes, words):
    arguments = {
        "estimator": lambda x: [0.0], "safety": lambda x: 1.0, "alpha": 1.0,
        "formula": "x ~ 1", "data": table(), **CALL, **changes,
    }  # fmt: skip
    with pytest.raises(ValueError, match=words):
        dp.dp_eptr(**arguments)


# -- the checker -----------------------------------------------------------------------------

BOX = [(0.0, 1.0)]


WRONG = {
    # gamma counts twice: one row moves it by 2
    "lipschitz": (lambda x: [x[:, 0].mean()], lambda x: 2.0 * np.sum(x[:, 0] > 0.5), 1.0),
    # alpha of an add/remove mean under replace-one, n small
    "alpha": (lambda x: [x[:, 0].sum()], lambda x: 1.0, 0.5),
    # the variance near 0: claims safety without looking at the denominator
    "level set": (
        lambda x: [1.0 / max(x[:, 0].var(), 1e-3)], lambda x: 1.0, 5.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(WRONG))
def test_planted_violations_are_found(name):
    report = dp.check_safety(*WRONG[name], bounds=BOX, trials=1500)
    assert not report.ok
    assert "VIOLATION" in str(report)
    assert report.counterexample["table"].shape[1] == 1
    condition = "(i)" if name == "lipschitz" else "(ii)"
    assert report.counterexample["condition"] == condition


def ols_pair(n):
    """Least squares on (1, t, y) rows with |x|^2 <= 2 and its safety bound at c0 n = 1."""
    c0n = 1.0

    def moments(x):
        X = np.column_stack([np.ones(len(x)), x[:, 0]])
        return X.T @ X, X.T @ x[:, 1]

    def estimator(x):
        S, b = moments(x)
        return solve_projected(S, b, 2.0)

    def safety(x):
        lam = smallest_eigenvalue(moments(x)[0])
        return math.ceil(max(0.0, lam - c0n - 2.0) / 2.0 / (1 + 2.0**-20))

    return estimator, safety, ls_bound(math.sqrt(2), 1.0, 2.0) / c0n


def test_shipped_bounds_pass():
    report = dp.check_safety(
        *ols_pair(12), bounds=[(-1.0, 1.0), (-1.0, 1.0)], n=(8, 12, 20), size=2, trials=3000
    )
    assert report.ok, str(report)
    assert report.positive > 300
    assert report.worst_lipschitz <= 1.0

    def kernel_mass(x):
        return max(0.0, np.exp(-0.5 * (x[:, 0] / 0.5) ** 2).sum() - 1.0)

    def kernel_mean(x):
        k = np.exp(-0.5 * (x[:, 0] / 0.5) ** 2)
        return [float(k @ x[:, 1] / k.sum())]

    report = dp.check_safety(
        kernel_mean, kernel_mass, 2.0 / 1.0, bounds=[(-1.0, 1.0), (-1.0, 1.0)], trials=3000
    )
    assert report.ok, str(report)
    assert report.positive > 1000


def test_a_bound_that_is_never_positive_is_said():
    report = dp.check_safety(lambda x: [0.0], lambda x: 0.0, 1.0, bounds=BOX, trials=50)
    assert report.ok
    assert "never positive" in str(report)


def test_user_median_with_its_crowd_bound_passes():
    report = dp.check_safety(median, crowd, 2 * W, bounds=[(4.0, 6.0)], n=(9, 15, 31), trials=3000)
    assert report.worst_ratio <= 1.0


def test_the_zero_row_of_a_missing_cell_is_tried():
    """A mean over (4, 6) moves by 2/n inside the box, by 6/n where a cell is missing."""

    def mean(x):
        return [float(x[:, 0].mean())]

    inside = (mean, lambda x: 1.0, 2.0 / 10)
    report = dp.check_safety(*inside, bounds=[(4.0, 6.0)], n=10, trials=300)
    assert not report.ok and report.counterexample["condition"] == "(ii)"
    found = report.counterexample
    assert min(abs(found["new_row"]), abs(found["table"][found["row"]])) == 0.0
    wide = dp.check_safety(mean, lambda x: 1.0, 6.0 / 10, bounds=[(4.0, 6.0)], n=10, trials=2000)
    assert wide.ok and 0.9 < wide.worst_ratio <= 1.0 + 1e-9
    own = dp.check_safety(
        *inside, bounds=[(4.0, 6.0)], n=10, trials=300, tables=lambda rng, n: np.full((n, 1), 6.0)
    )
    assert not own.ok
