"""People who count alike: each of a person's T rows as 1/T. Without noise: weighted estimates."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels import _testing
from dpmodels.errors import RequestError

PEOPLE = 1500
CALL = {"eps": 1e4, "delta": 1e-6, "unit": "id", "units": PEOPLE}
BOUNDS = {"x": (-4, 4), "y": (-9, 9)}


@pytest.fixture(scope="module")
def visits():
    """The effect is larger in people with many rows."""
    rng = np.random.default_rng(1)
    many = rng.integers(1, 9, PEOPLE)
    who = np.repeat(np.arange(PEOPLE), many)
    x = np.clip(rng.normal(size=len(who)), -4, 4)
    slope = np.where(many > 4, 1.5, 0.5)[who]
    y = np.clip(1 + slope * x + rng.normal(size=PEOPLE)[who] / 2 + rng.normal(size=len(who)), -9, 9)
    order = rng.permutation(len(who))
    data = pd.DataFrame({"id": who, "x": x, "y": y}).iloc[order].reset_index(drop=True)
    return data.assign(many=many[data["id"]])


def fitted(verb, formula, data, **options):
    with warnings.catch_warnings(), _testing.noise_source(_testing.ZeroNoise()):
        warnings.simplefilter("ignore")
        return getattr(dp, verb)(formula, data, bounds=BOUNDS, **{**CALL, **options})


def by_hand(data, weight):
    """Weighted least squares with errors by person."""
    X = np.column_stack([np.ones(len(data)), data["x"]])
    w = np.asarray(weight, dtype=float)
    H = np.linalg.inv((X * w[:, None]).T @ X)
    y = data["y"].to_numpy()
    theta = H @ ((X * w[:, None]).T @ y)
    S = np.zeros((PEOPLE, 2))
    np.add.at(S, data["id"].to_numpy(), X * (w * (y - X @ theta))[:, None])
    return theta, np.sqrt(np.diag(H @ S.T @ S @ H))


def test_each_person_counts_once(visits):
    rows, _ = by_hand(visits, np.ones(len(visits)))
    alike, errors = by_hand(visits, 1.0 / visits["many"])
    assert rows[1] - alike[1] > 0.15
    fit = fitted("dp_ols", "y ~ x", visits, person_weights="equal")
    assert fit.params.to_numpy() == pytest.approx(alike, abs=0.01)
    assert fit.bse_sampling.to_numpy() == pytest.approx(errors, rel=0.05)
    assert "Each person counts once" in fit.summary(full=True).as_text()
    plain = fitted("dp_ols", "y ~ x", visits)
    assert plain.params.to_numpy() == pytest.approx(rows, abs=0.01)


def test_rows_that_are_missing_are_not_counted(visits):
    holes = visits.copy()
    holes.loc[holes.index % 3 == 0, "x"] = np.nan
    kept = holes.dropna()
    many = kept.groupby("id")["x"].transform("size")
    fit = fitted("dp_ols", "y ~ x", holes, person_weights="equal")
    assert fit.params.to_numpy() == pytest.approx(by_hand(kept, 1.0 / many)[0], abs=0.015)


def test_one_row_a_person_is_as_without(visits):
    one = visits.drop_duplicates("id")
    alike = fitted("dp_quantreg", "y ~ x", one, person_weights="equal")
    assert alike.params.equals(fitted("dp_quantreg", "y ~ x", one).params)


def test_an_updated_fit_keeps_them(visits):
    fit = fitted("dp_ols", "y ~ x", visits, person_weights="equal")
    assert fit._record.call.options["person_weights"] == "equal"
    with warnings.catch_warnings(), _testing.noise_source(_testing.ZeroNoise()):
        warnings.simplefilter("ignore")
        again = fit.update("~ x", visits, eps=1e4, delta=1e-6)
    assert again.params.to_numpy() == pytest.approx(fit.params.to_numpy(), abs=1e-3)


def test_they_belong_to_people(visits):
    with pytest.raises(RequestError, match="needs unit="):
        fitted("dp_ols", "y ~ x", visits, person_weights="equal", unit=None, units=None)
    with pytest.raises(RequestError, match="person_weights"):
        fitted("dp_ols", "y ~ x", visits, person_weights="rows")
