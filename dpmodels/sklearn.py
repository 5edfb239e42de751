"""Estimators with scikit-learn's interface. scikit-learn is imported with this module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dpmodels.api.regressions import dp_glm, dp_ols
from dpmodels.arrays import Array
from dpmodels.errors import NoReplyError, RequestError
from dpmodels.formula.schema import Schema
from dpmodels.lazy import pd, special
from dpmodels.sources.tables import cells_of, feature_columns, kind_of_column, target_column
from dpmodels.variables import Binary, Real

__all__ = ["DPLinearRegression", "DPLogisticRegression"]


class _Private(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: rows are read without inspection, a budget is never copied."""

    def _guarantee(self) -> None:
        """Refuse an estimator without a guarantee. Reads nothing."""
        missing = [name for name in ("eps", "delta") if getattr(self, name) is None]
        if missing:
            kind = type(self).__name__
            raise RequestError(
                f"{kind}() needs {' and '.join(missing)}: the guarantee of a fit has no default. "
                f"For example {kind}(eps=1, delta=1e-6)"
            )

    def _rows(self, X: Any, y: Any, target: Any = None) -> tuple[Array, Array]:
        """Check shapes and types, which are public; turn cells into floats without judging them.

        scikit-learn's own validation would raise if a cell is missing, and quote one that is not a
        number. Here both count as missing. Lists, which have no type, are read cell by cell.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        if issparse(X):  # a type: scikit-learn's refusal quotes no cell
            check_array(X)
        columns, rows = feature_columns(X)
        column = target_column(y)
        if len(column) != rows:
            raise RequestError(
                f"Found input variables with inconsistent numbers of samples: {[rows, len(column)]}"
            )
        cells = cells_of(columns, Real()) if columns else np.empty((rows, 0))
        if hasattr(X, "columns"):  # names first: the numbers have none
            validate_data(self, X, skip_check_array=True)
            check_array(cells, estimator=self, ensure_all_finite=False, ensure_min_samples=2)
        else:
            validate_data(self, cells, ensure_all_finite=False, ensure_min_samples=2)
        return cells, cells_of([column], target or Real())[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_clone__(self) -> Any:
        """Copy as scikit-learn does, but share the budget: a copy would charge another ledger."""
        params = self.get_params(deep=False)
        shared = {k: v if k == "budget" else clone(v, safe=False) for k, v in params.items()}
        return type(self)(**shared)

    def _fitted(
        self, verb: Callable[..., Any], cells: Array, y: Array, **call: Any
    ) -> tuple[Array, float]:
        """Charge, fit, keep the fit; return slopes and intercept."""
        names = _names(cells)
        fit = verb(
            f"y ~ {' + '.join(names)}{'' if self.fit_intercept else ' - 1'}",
            pd.DataFrame(cells, columns=names).assign(y=y),
            eps=self.eps,
            delta=self.delta,
            method=self.method,
            budget=self.budget,
            seed=self.random_state,
            **call,
            **(self.options or {}),
        )
        if not fit.released:
            raise NoReplyError(
                "the private test did not pass: no reply, and so no coefficients. The charge "
                f"(eps = {fit.privacy.eps:g}, delta = {fit.privacy.delta:g}) stands. Ways to make "
                "a reply more likely: a larger eps, declared and tighter x_bounds and y_bounds, "
                "fewer features, or a method that always replies"
            )
        self.results_, self.privacy_ = fit, fit.privacy
        coefficients = fit.shrunk  # noise does not justify predictions beyond the declared ranges
        intercept = float(coefficients["Intercept"]) if self.fit_intercept else 0.0
        return coefficients[names].to_numpy(copy=True), intercept

    def _linear(self, X: Any) -> Array:
        """Return the linear predictor at new rows; cells are not clipped to the bounds."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False, ensure_all_finite=False)
        return np.asarray(X @ np.ravel(self.coef_) + np.ravel(self.intercept_)[0])


@dataclass(eq=False, repr=False)
class DPLinearRegression(RegressorMixin, _Private):  # type: ignore[misc]
    """Linear regression with differential privacy.

    Parameters
    ----------
    eps, delta : float
        The guarantee of one call of ``fit``. They have no default: ``fit`` refuses without them.
    method : str
        A method of ``dp_ols``. The default answers whatever the rows are, if the ranges are
        declared.
    x_bounds : (lower, upper) or array of shape (n_features, 2)
        Declared range of the features: one pair for all, or one a feature. Never learnt in
        ``fit``. None: the ranges are estimated from the budget.
    y_bounds : (lower, upper)
        Declared range of the target. None: estimated.
    fit_intercept : bool
    budget : Budget, optional
        A ledger that every call of ``fit`` draws from.
    options : dict, optional
        Options of the method.
    random_state : int, optional
        For tests: the fit is then NOT PRIVATE. None: operating-system randomness.

    Attributes
    ----------
    coef_ : (n_features,) array
    intercept_ : float
    n_features_in_ : int
    feature_names_in_ : array
        If ``fit`` was given a DataFrame with text names.
    results_ : Fit
    privacy_ : Guarantee

    Privacy
    -------
    Unit: one row of ``(X, y)``. Neighbours: replace one row, n public. **Every** call of ``fit``
    charges (eps, delta): cross-validation or a grid search over private rows multiplies the cost
    by the number of fits. ``score`` and ``predict`` on private rows are not private at all: their
    output is a function of those rows, so what ``cross_val_score`` returns may be published only
    if the rows it scores are public.

    Notes
    -----
    A no-reply raises ``NoReplyError``: an estimator without coefficients has no other way to say
    it. The charge stands.

    Clones share the budget: ``cross_val_score(DPLinearRegression(eps=0.2, budget=budget), X, y,
    cv=5)`` charges five times eps = 0.2 to one ledger, and stops where it is spent (with
    ``error_score="raise"``). With ``n_jobs`` above 1 scikit-learn would copy the budget to other
    processes, which a budget refuses.
    """

    eps: float | None = None
    delta: float | None = None
    method: str = "ssp"
    x_bounds: Any = None
    y_bounds: tuple[float, float] | None = None
    fit_intercept: bool = True
    budget: Any = None
    options: dict[str, Any] | None = None
    random_state: int | None = None

    def fit(self, X: Any, y: Any) -> DPLinearRegression:
        """Fit, charging (eps, delta).

        Parameters
        ----------
        X : (n, n_features) array or DataFrame
        y : (n,) array

        Returns
        -------
        self

        Privacy
        -------
        See the class.
        """
        self._guarantee()
        X, y = self._rows(X, y)
        bounds = _bounds(self.x_bounds, _names(X))
        if self.y_bounds is not None:
            bounds["y"] = (float(self.y_bounds[0]), float(self.y_bounds[1]))
        self.coef_, self.intercept_ = self._fitted(dp_ols, X, y, bounds=bounds or None)
        return self

    def predict(self, X: Any) -> Array:
        """Predict at new rows; cells are not clipped to the bounds.

        Parameters
        ----------
        X : (k, n_features) array or DataFrame

        Privacy
        -------
        Costs nothing. A prediction computed from a private row is as private as that row.
        """
        return self._linear(X)


@dataclass(eq=False, repr=False)
class DPLogisticRegression(ClassifierMixin, _Private):  # type: ignore[misc]
    """Logistic regression of two classes with differential privacy.

    Parameters
    ----------
    eps, delta : float
        The guarantee of one call of ``fit``. They have no default: ``fit`` refuses without them.
    classes : pair
        The two classes, public: never learnt from ``y``. The second is the event. Any other cell
        of ``y`` is missing. Left out only where ``y`` is of type bool.
    method : str, optional
        A method of ``dp_glm``; None: by its public rule.
    x_bounds : (lower, upper) or array of shape (n_features, 2)
        Declared range of the features. None: estimated, if the method can.
    fit_intercept : bool
    budget : Budget, optional
        A ledger that every call of ``fit`` draws from.
    options : dict, optional
        Options of the method.
    random_state : int, optional
        For tests: the fit is then NOT PRIVATE. None: operating-system randomness.

    Attributes
    ----------
    classes_ : (2,) array
    coef_ : (1, n_features) array
    intercept_ : (1,) array
    n_features_in_ : int
    results_ : Fit
    privacy_ : Guarantee

    Privacy
    -------
    As :class:`DPLinearRegression`: every ``fit`` charges; ``score`` and ``predict`` on private
    rows are not private.
    """

    eps: float | None = None
    delta: float | None = None
    classes: Any = None
    method: str | None = None
    x_bounds: Any = None
    fit_intercept: bool = True
    budget: Any = None
    options: dict[str, Any] | None = None
    random_state: int | None = None

    def fit(self, X: Any, y: Any) -> DPLogisticRegression:
        """Fit, charging (eps, delta).

        Parameters
        ----------
        X : (n, n_features) array or DataFrame
        y : (n,) array of the two classes

        Returns
        -------
        self

        Privacy
        -------
        See the class.
        """
        self._guarantee()
        labels = _classes(self.classes, y)
        X, y = self._rows(X, y, Binary(labels))
        names = _names(X)
        bounds = _bounds(self.x_bounds, names)
        schema = Schema(y=Binary(), **{x: Real(*bounds.get(x, ())) for x in names})
        slopes, intercept = self._fitted(dp_glm, X, y, family="logistic", schema=schema)
        self.classes_ = np.array(labels)
        self.coef_, self.intercept_ = slopes[None, :], np.array([intercept])
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of the event.

        Privacy
        -------
        As ``predict``.
        """
        return self._linear(X)

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of both classes, (k, 2).

        Privacy
        -------
        As ``predict``.
        """
        p = special.expit(self.decision_function(X))
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> Any:
        """Return the likelier class.

        Privacy
        -------
        Costs nothing. A prediction computed from a private row is as private as that row.
        """
        event = self.decision_function(X) > 0
        return self.classes_[event.astype(int)]


def _classes(classes: Any, y: Any) -> list[Any]:
    """Return the two classes, or refuse those that no cell of the type of ``y`` can be.

    Types alone are looked at. Classes that no cell is would make every row an empty one, and the
    charge would be for a fit without rows.
    """
    kind = "unknown" if y is None else kind_of_column(y, target_column(y))
    if classes is None:
        if kind == "bool":
            return [False, True]
        raise RequestError(
            "DPLogisticRegression needs the two classes, which are never learnt from y: for "
            "example classes=(0, 1) or classes=('no', 'yes'); the second is the event"
        )
    for label in classes:
        occurs = kind not in ("datetime", "duration", "nested")  # text and lists can hold any
        if kind == "numeric":
            occurs = isinstance(label, (int, float, np.number)) and bool(np.isfinite(label))
        elif kind == "bool":
            occurs = label in (0, 1)
        if not occurs:
            raise RequestError(
                f"no cell of y can be the class {label!r}: y is of type {kind}. For example "
                f"classes={'(False, True)' if kind == 'bool' else '(0, 1)'}"
            )
    return list(classes)


def _names(cells: Array) -> list[str]:
    return [f"x{j}" for j in range(cells.shape[1])]


def _bounds(x_bounds: Any, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the declared range of each feature, by name."""
    if x_bounds is None:
        return {}
    pairs = np.asarray(x_bounds, dtype=float)
    if pairs.shape == (2,):
        pairs = np.tile(pairs, (len(names), 1))
    if pairs.shape != (len(names), 2):
        raise RequestError(
            f"x_bounds must be one pair (lower, upper), or {len(names)} pairs for {len(names)} "
            f"features; its shape is {pairs.shape}"
        )
    return {name: (float(low), float(high)) for name, (low, high) in zip(names, pairs, strict=True)}
