"""The scikit-learn estimator: the conformance suite, and that it is the fit of dp_ols."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from dpmodels.errors import NoReplyError, NotPrivateWarning, RequestError
from dpmodels.sklearn import DPLinearRegression, DPLogisticRegression

#: Checks of scikit-learn that a private fit must not pass, each with its reason. (The suite sets
#: random_state itself; a large eps and declared bounds make the others pass.)
EXPECTED_FAILED_CHECKS = {
    "check_dtype_object": "wants an error that depends on a cell (not a number); it counts as missing",
    "check_supervised_y_no_nan": "wants an error that depends on a cell (not finite)",
}

PAIR = {"eps": 1.0, "delta": 1e-6}

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")


@pytest.fixture
def data():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (20_000, 2))
    return X, np.clip(0.3 + X @ [0.5, -0.2] + 0.1 * rng.standard_normal(20_000), -2, 2)


@pytest.mark.slow
def test_the_conformance_suite():
    from sklearn.utils.estimator_checks import check_estimator

    estimator = DPLinearRegression(eps=100.0, delta=1e-2, x_bounds=(-4, 4), y_bounds=(-4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            estimator, on_fail=None, on_skip=None, expected_failed_checks=EXPECTED_FAILED_CHECKS
        )
    failed = [r["check_name"] for r in results if r["status"] == "failed"]
    missed = [r["check_name"] for r in results if r["status"] == "xfail"]
    assert failed == [] and len(results) > 40
    assert sorted(missed) == sorted(EXPECTED_FAILED_CHECKS)


def test_fit_is_dp_ols_and_predict_is_linear(data):
    X, y = data
    model = DPLinearRegression(
        eps=1.0, delta=1e-6, x_bounds=[(-1, 1), (-1, 1)], y_bounds=(-2, 2), random_state=3
    )
    assert model.fit(X, y) is model
    assert abs(model.coef_ - [0.5, -0.2]).max() < 0.1 and abs(model.intercept_ - 0.3) < 0.1
    np.testing.assert_allclose(model.predict(X[:4]), X[:4] @ model.coef_ + model.intercept_)
    assert model.privacy_.eps == 1.0 and model.n_features_in_ == 2
    assert model.results_.shrunk["x1"] == model.coef_[1]
    assert model.privacy_.seeded


def test_without_intercept(data):
    X, y = data
    model = DPLinearRegression(
        **PAIR, x_bounds=(-1, 1), y_bounds=(-2, 2), fit_intercept=False, random_state=3
    ).fit(X, y - 0.3)
    assert model.intercept_ == 0.0 and model.coef_.shape == (2,)
    assert abs(model.coef_ - [0.5, -0.2]).max() < 0.1


def test_unseeded_fits_differ_and_are_private(data):
    X, y = data
    model = DPLinearRegression(**PAIR, x_bounds=(-1, 1), y_bounds=(-2, 2))
    first = model.fit(X, y).coef_
    assert not model.privacy_.seeded
    assert (model.fit(X, y).coef_ != first).all()


def test_seed_warns(data):
    X, y = data
    with pytest.warns(NotPrivateWarning):
        DPLinearRegression(**PAIR, x_bounds=(-1, 1), y_bounds=(-2, 2), random_state=1).fit(X, y)


def test_constructor_only_stores_and_bounds_are_checked_in_fit(data):
    X, y = data
    bounds = [(-1, 1)]
    model = DPLinearRegression(eps=-1, delta=1e-6, x_bounds=bounds)
    assert model.x_bounds is bounds and model.get_params()["eps"] == -1
    with pytest.raises(RequestError, match="2 features"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="eps"):
        DPLinearRegression(eps=-1, delta=1e-6).fit(X, y)


def test_no_reply_raises(data):
    X, y = data
    with pytest.raises(NoReplyError, match="charge"):
        DPLinearRegression(
            eps=0.1, delta=1e-6, method="eptr", options={"scoring": False},
            x_bounds=(-1, 1), y_bounds=(-2, 2),
        ).fit(X[:30], y[:30])


def test_column_names_of_a_frame(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame(X, columns=["a b", "log"])
    model = DPLinearRegression(**PAIR, x_bounds=(-1, 1), y_bounds=(-2, 2), random_state=3).fit(
        frame, y
    )
    assert list(model.feature_names_in_) == ["a b", "log"]
    assert model.predict(frame.head(2)).shape == (2,)


def test_no_cell_decides_whether_an_error_is_raised(data):
    X, y = data
    X, y = X.astype(object), y.astype(object)
    X[3, 0], X[4, 1], y[5], y[6] = "sentinel-cell", None, np.inf, np.nan
    model = DPLinearRegression(**PAIR, x_bounds=(-1, 1), y_bounds=(-2, 2), random_state=3).fit(X, y)
    assert abs(model.coef_ - [0.5, -0.2]).max() < 0.1
    with pytest.raises(ValueError, match="y is None"):
        model.fit(X, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])


HOSTILE_CELLS = [
    np.timedelta64(1, "ms"),
    1j,
    np.complex64(2j),
    [1.0, 2.0],
    {"private": 1},
    "private",
    None,
    10**400,
    np.datetime64("2020-01-01"),
]


@pytest.mark.parametrize("cell", HOSTILE_CELLS, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("place", ["X", "y"])
def test_one_cell_of_a_list_changes_no_other_row(cell, place):
    """numpy types a whole list by its cells: one odd one moved, or refused, every other row."""
    X = [[i % 7, (3 * i) % 5] for i in range(50)]
    y = [i % 3 for i in range(50)]
    plain = DPLinearRegression()._rows(X, y)
    if place == "X":
        X[4] = [cell, 2]
    else:
        y[4] = cell
    hostile = DPLinearRegression()._rows(X, y)
    others = np.arange(50) != 4
    for before, after in zip(plain, hostile, strict=True):
        assert before.dtype == after.dtype == np.float64
        np.testing.assert_array_equal(before[others], after[others])
    for X_typed in (np.array([[1, 2.0]] * 50), np.array([[1, 2]] * 50, dtype=object)):
        np.testing.assert_array_equal(DPLinearRegression()._rows(X_typed, y)[0], [[1, 2]] * 50)


def test_typed_containers_are_read_by_their_type_and_not_quoted():
    """A null in an integer table, a complex array, a flat list: types decide, nothing is printed."""
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    import pandas as pd

    tables = [
        pa.table({"a": [1, None, 3], "b": [4, 5, 6]}),
        pl.DataFrame({"a": [1, None, 3], "b": [4, 5, 6]}),
        pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [4, 5, 6]}),
    ]
    for table in tables:
        model = DPLinearRegression()
        X, y = model._rows(table, pa.array([1, None, 2]))
        np.testing.assert_array_equal(X, [[1, 4], [np.nan, 5], [3, 6]])
        np.testing.assert_array_equal(y, [1, np.nan, 2])
        assert list(model.feature_names_in_) == ["a", "b"] and model.n_features_in_ == 2
    secret = 777123.25
    for X, y in [
        (np.array([[secret + 1j]] * 3), [1, 2, 3]),
        (np.array([[1.0]] * 3), np.array([secret + 1j] * 3)),
        (np.array([secret] * 3), [1, 2, 3]),
        ([secret] * 3, [1, 2, 3]),
        ([[secret], [1, 2], [3]], [1, 2, 3]),
        ([[1], [2], [3]], np.full((3, 2), secret)),
    ]:
        with pytest.raises(ValueError) as caught:
            DPLinearRegression()._rows(X, y)
        assert "777" not in str(caught.value)
        assert caught.value.__context__ is None or "777" not in str(caught.value.__context__)


def test_the_default_is_the_default_of_dp_ols():
    from dpmodels.api.requests import choose_method

    assert DPLinearRegression().method == choose_method("dp_ols", None, None).method
    assert DPLogisticRegression().method is None  # dp_glm chooses


def test_clones_share_the_budget_and_cross_validation_charges_it(data):
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    import dpmodels as dp
    from dpmodels.errors import BudgetError, BudgetExceededError

    X, y = data[0][:4000], data[1][:4000]
    budget = dp.Budget(eps=3, delta=1e-4)
    model = DPLinearRegression(
        eps=0.3, delta=1e-6, x_bounds=(-1, 1), y_bounds=(-2, 2), budget=budget, options={}
    )
    copy = clone(model)
    assert copy.budget is budget and copy.options is not model.options
    assert copy.get_params().keys() == model.get_params().keys()
    scores = cross_val_score(model, X, y, cv=3)
    assert len(scores) == 3 and scores.min() > 0.5 and len(budget.charges) == 3
    make_pipeline(FunctionTransformer(np.asarray), model).fit(X, y)
    assert len(budget.charges) == 4
    GridSearchCV(model, {"fit_intercept": [True, False]}, cv=2, refit=False).fit(X, y)
    assert len(budget.charges) == 8
    with pytest.raises(BudgetExceededError):
        cross_val_score(model.set_params(eps=2.9), X, y, cv=2, error_score="raise")
    with pytest.raises(BudgetError, match="ledger file"):
        __import__("pickle").dumps(model)


def test_the_classifier_knows_its_classes_without_the_data():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (20_000, 2))
    p = 1 / (1 + np.exp(-(0.5 + X @ [2.0, -1.0])))
    y = np.where(rng.random(20_000) < p, "yes", "no").astype(object)
    y[3], y[4] = None, "other"
    model = DPLogisticRegression(
        eps=2.0, delta=1e-6, classes=("no", "yes"), x_bounds=(-1, 1), random_state=1
    )
    assert model.fit(X, y) is model and list(model.classes_) == ["no", "yes"]
    assert abs(model.coef_ - [[2.0, -1.0]]).max() < 0.4 and abs(model.intercept_[0] - 0.5) < 0.3
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(1), 1.0)
    assert (model.predict(X) == np.where(proba[:, 1] > 0.5, "yes", "no")).all()
    assert model.score(X[10:], y[10:].astype(str)) > 0.7
    plain = DPLogisticRegression(
        eps=2.0, delta=1e-6, classes=(0, 1), x_bounds=(-1, 1), random_state=1
    )
    plain.fit(X, (y == "yes").astype(int))
    assert list(plain.classes_) == [0, 1] and abs(plain.coef_ - model.coef_).max() < 0.1
    no_rows_read = DPLogisticRegression(**PAIR, classes=("a",), x_bounds=(-1, 1))
    with pytest.raises(ValueError, match="two levels"):
        no_rows_read.fit(X, y)


@pytest.mark.parametrize("kind", [DPLinearRegression, DPLogisticRegression])
def test_the_guarantee_has_no_default(data, kind):
    """eps=1, delta=1e-6 were spent without being typed."""
    import dpmodels as dp

    budget = dp.Budget(eps=5, delta=1e-4)
    for given in ({}, {"eps": 1.0}, {"delta": 1e-6}):
        model = kind(budget=budget, x_bounds=(-1, 1), **given)
        with pytest.raises(RequestError, match="has no default") as caught:
            model.fit(*data)
        assert all(name not in str(caught.value).partition(":")[0] for name in given)
    assert not budget.charges


def test_classes_that_no_cell_can_be_are_refused_before_the_charge(data):
    """With text labels every row was void, eps was spent, and one class predicted."""
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    import dpmodels as dp

    X, event = data[0], data[1] > 0.3
    budget = dp.Budget(eps=50, delta=1e-4)
    call = {**PAIR, "x_bounds": (-1, 1), "budget": budget}
    words = np.where(event, "yes", "no")
    untold = [words, words.astype(object), pd.Series(words, dtype="category"), list(words),
              pa.array(words), event + 1, event.astype(float)]  # fmt: skip
    for y in untold:
        with pytest.raises(RequestError, match="needs the two classes"):
            DPLogisticRegression(**call).fit(X, y)
    times = event.astype(int).astype("datetime64[s]")
    for y, classes in [(event + 1, ("no", "yes")), (event, ("no", "yes")), (times, (0, 1)),
                       (pa.array(event), (1, 2))]:  # fmt: skip
        with pytest.raises(RequestError, match="no cell of y can be the class"):
            DPLogisticRegression(classes=classes, **call).fit(X, y)
    assert not budget.charges
    found = []
    for y, classes in [(event, None), (words, ("no", "yes")), (event + 1, (1, 2)),
                       (list(words), ("no", "yes")), (pa.array(event), None)]:  # fmt: skip
        model = DPLogisticRegression(classes=classes, random_state=2, **call).fit(X, y)
        assert len(set(model.predict(X))) == 2
        found.append(model.coef_)
    assert len(budget.charges) == 5
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
