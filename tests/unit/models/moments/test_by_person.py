"""``dp_moments(unit=)``: right moments, and of what follows only what is sound."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning, NotReleasedError, RequestError

BOUNDS = {"y": (-4, 4), "x": (-1, 1), "z": (-1, 1)}
METHODS = ("ssp", "joint", "pmt")


def panel(N=600, T=4, seed=1):
    rng = np.random.default_rng(seed)
    pid = rng.permutation(np.repeat(np.arange(N), T))
    x, z = rng.uniform(-1, 1, N * T), rng.uniform(-1, 1, N)[pid]
    y = 0.5 + x + 0.5 * z + rng.normal(0, 0.4, N)[pid] + rng.normal(0, 0.4, N * T)
    return pd.DataFrame({"pid": pid, "x": x, "z": z, "y": np.clip(y, -4, 4)})


def moments(data, method="ssp", **more):
    call = {"eps": 1e4, "delta": 1e-5, "method": method, "unit": "pid", "seed": 1, **more}
    if method == "pmt":
        C = np.array([[1.0, 0.5, 0, 0], [0.5, 1.0, 0, 0], [0, 0, 0.3, 0], [0, 0, 0, 0.3]])
        call["public"] = {"moments": C, "m": 400}
    else:
        call.setdefault("bounds", BOUNDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return dp.dp_moments("y + x + z", data, **call)


@pytest.mark.parametrize("method", METHODS)
def test_moments_are_those_of_rows_where_nobody_is_too_long(method):
    data = panel()
    m = moments(data, method, rows_per_unit=40)
    assert m.params["rows a person"] == pytest.approx(4.0, rel=5e-3)
    assert m.nobs == 600 and m.unit == "one person (column pid)"
    for name, want in {"y": data.y.mean(), "x^2": (data.x**2).mean(), "y*z": (data.y * data.z).mean()}.items():
        assert m.params[name] == pytest.approx(want, abs=0.01)


def test_a_person_with_many_rows_counts_as_one():
    """One person of 5000 rows at the corner moves row-level moments, and these hardly."""
    data = panel()
    heavy = pd.DataFrame({"pid": 600, "x": 1.0, "z": 1.0, "y": 4.0}, index=range(5000))
    both = pd.concat([data, heavy], ignore_index=True)
    assert both.y.mean() > 2.0
    for method in METHODS:
        one, two = (moments(d, method, rows_per_unit=4).params["y"] for d in (data, both))
        assert abs(two - one) < 0.05


@pytest.mark.parametrize("method", METHODS)
def test_regressions_have_the_errors_of_the_noise_alone(method):
    data = panel()
    m = moments(data, method, rows_per_unit=40)
    fit = dp.dp_ols("y ~ x + z", m)
    X = np.column_stack([np.ones(len(data)), data.x, data.z])
    assert fit.params.to_numpy() == pytest.approx(np.linalg.lstsq(X, data.y, rcond=None)[0], abs=0.02)
    assert fit.bse.isna().all() and np.isfinite(np.diag(fit.vcov("privacy"))).all()
    text = " ".join(str(fit.summary(full=True)).split())
    assert "rows of one person may be correlated" in text and "effective" not in text
    assert not {"sigma_se", "r_squared_se", "adj_r_squared"} & set(fit._record.estimate.stats)
    iv = dp.dp_iv("y ~ x | z", m)
    assert iv.bse.isna().all() and not any("F =" in note for note in iv.notes)
    corr = m.corr()
    assert corr[["std_error", "conf_low", "conf_high"]].isna().all(axis=None)
    assert (corr["std_error_privacy"] > 0).all()
    assert len(m.lasso_path("y")) and len(m.ridge_path("y"))


def test_the_noise_that_is_stated_is_the_noise_that_is_drawn():
    """Seeds 1 to 30: every z of thirty releases; chi-square(300), false alarm 1e-4 a side.

    The ball of "joint" knows nothing of eps, so the sums without noise are those of a large one.
    """
    from scipy.stats import chi2

    data, upper, total = panel(200), np.triu_indices(4), 0.0
    exact = moments(data, "joint", eps=1e6).arrays["unit_moments"]
    for seed in range(1, 31):
        arrays = moments(data, "joint", eps=2.0, seed=seed).arrays
        away = (arrays["unit_moments"] - exact)[upper]
        total += float((away**2 / arrays["released_noise"][upper]).sum())
    low, high = chi2.ppf([1e-4, 1 - 1e-4], 300)
    assert low < total < high


def test_what_takes_rows_for_independent_is_refused():
    m = moments(panel())
    with pytest.raises(NotReleasedError, match="BIC, which assumes independent rows"):
        m.best_subset("y")
    small, large = dp.dp_ols("y ~ x", m), dp.dp_ols("y ~ x + z", m)
    with pytest.raises((NotReleasedError, RequestError)):
        dp.anova(small, large)
    with pytest.raises(RequestError, match="these are moments of people"):
        dp.dp_table("y ~ 1", moments(panel(), "joint"))
    kept = moments(panel(), "pmt_paper", max_rows=2, eps=5.0, public={"moments": np.eye(4), "m": 50})
    with pytest.raises(NotReleasedError, match="several rows of one person"):
        dp.dp_ols("y ~ x", kept)


def test_max_rows_is_not_taken_where_any_number_has_a_proof():
    with pytest.raises(RequestError, match="any number of rows: leave max_rows= out"):
        moments(panel(), max_rows=2)
