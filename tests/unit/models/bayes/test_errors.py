"""Errors of a Bayes classifier: sampling and noise, of its numbers and of its predictions."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

SCHEMA = dp.Schema(k=dp.Levels(["u", "v", "w"]), a=dp.Real(-4, 4), b=dp.Real(0, 14))
PRIOR, A, B = np.array([0.6, 0.25, 0.15]), np.array([-1.0, 1.0, 2.0]), np.array([3.0, 5.0, 8.0])
SD_A, SD_B = 0.8, 1.3
NEW = pd.DataFrame({"a": [-1.0, 0.0, 0.5, 1.5], "b": [3.0, 4.0, 4.5, 6.5]}, index=list("pqrs"))


def table(n, seed):
    rng = np.random.default_rng(seed)
    k = rng.choice(3, size=n, p=PRIOR)
    a, b = A[k] + SD_A * rng.normal(size=n), B[k] + SD_B * rng.normal(size=n)
    return pd.DataFrame({"k": np.array(["u", "v", "w"])[k], "a": a, "b": b})


def fitted(n, seed, **options):
    call = {"eps": 1, "delta": 1e-6, "schema": SCHEMA, "seed": seed, **options}
    return dp.dp_bayes("k ~ a + b", table(n, seed), **call)


def true_probabilities():
    a, b = NEW["a"].to_numpy()[:, None], NEW["b"].to_numpy()[:, None]
    score = np.log(PRIOR) - 0.5 * ((a - A) ** 2 / SD_A**2 + (b - B) ** 2 / SD_B**2)
    p = np.exp(score - score.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).ravel()


@pytest.mark.parametrize(
    ("n", "options"),
    [(3000, {}), (20_000, {"variance": "class"}), (20_000, {"eps": 0.3}), (20_000, {"method": "eptr"})],
)
def test_intervals_of_probabilities_and_of_numbers_cover(quiet, n, options):
    """False alarm: below 1e-4 each, for a mean over 60 fits of an interval that covers .95.

    Its sd is at most sqrt(.95 .05 / 60) = .028, as all intervals of a fit may go together.
    """
    truth, hits, covered = true_probabilities(), [], []
    values = np.column_stack([PRIOR, A, B]).ravel()
    for seed in range(60):
        fit = fitted(n, seed, **options)
        p = fit.predict(NEW, what="prob", interval="confidence")
        hits.append(np.mean((p["lwr"] <= truth) & (truth <= p["upr"])))
        low, high = fit.conf_int().to_numpy().T
        covered.append(np.mean((low <= values) & (values <= high)))
    assert np.mean(hits) > 0.84
    assert np.mean(covered) > 0.84


def test_errors_shrink_with_rows_and_budget(quiet):
    def width(n, eps):
        p = fitted(n, 1, eps=eps).predict(NEW, what="prob", se_fit=True)
        return p["se_fit"].to_numpy().max()

    assert width(3000, 1) > 1.5 * width(20_000, 1)
    assert width(20_000, 0.1) > 1.5 * width(20_000, 1)


def test_the_frame_is_that_of_other_models_of_classes(quiet):
    fit = fitted(5000, 2)
    p = fit.predict(NEW, what="prob", interval="confidence", se_fit=True)
    assert list(p.columns) == ["class", "fit", "lwr", "upr", "se_fit"]
    assert list(p.index[:4]) == ["p", "p", "p", "q"]
    assert p["fit"].to_numpy() == pytest.approx(fit.predict(NEW, what="prob").to_numpy().ravel())
    assert ((p["lwr"] < p["fit"]) & (p["fit"] < p["upr"])).all()
    gone = fit.predict({"a": [np.nan], "b": [3.0]}, what="prob", interval="confidence")
    assert gone[["fit", "lwr", "upr"]].isna().all(axis=None)
    joint = fit.predict(NEW, what="prob", interval="confidence", joint=True)
    assert (joint["lwr"] < p["lwr"]).all()
    assert fit.tidy()["std_error"].notna().all()
    assert np.allclose(fit.vcov("sampling") + fit.vcov("privacy"), fit.vcov())
    again = dp.results.Fit.from_json(fit.to_json())
    assert again.predict(NEW, what="prob", se_fit=True).equals(fit.predict(NEW, what="prob", se_fit=True))


def test_what_has_no_errors_says_so(quiet):
    fit = fitted(5000, 2)
    with pytest.raises(dp.errors.RequestError, match="its probability has"):
        fit.predict(NEW, interval="confidence")
    with pytest.raises(dp.errors.RequestError, match="prediction"):
        fit.predict(NEW, what="prob", interval="prediction")
    for options in ({"variance": "identity", "R": 16.0}, {"method": "dpnb"}):
        with pytest.raises(dp.errors.NotReleasedError, match="variance='shared'"):
            fitted(5000, 2, **options).predict(NEW, what="prob", interval="confidence")


def test_rows_of_a_person_widen_predictions_as_they_widen_the_table(quiet):
    rows = table(9000, 1)
    rows["id"] = np.arange(9000) // 3
    call = {"eps": 50, "delta": 1e-6, "schema": SCHEMA, "seed": 1}
    single, three = (
        dp.dp_bayes("k ~ a + b", rows, **call, **person).predict(NEW, what="prob", se_fit=True)["se_fit"].to_numpy()
        for person in ({}, {"unit": "id", "max_rows": 3})
    )
    assert three / single == pytest.approx(np.full(12, 3**0.5), rel=0.1)


def test_errors_are_those_of_the_rows_that_count(quiet):
    """With three of four rows unusable, errors are those of a table of the others."""
    rows = table(20_000, 1)
    rows.loc[rows.index % 4 > 0, "a"] = np.nan
    call = {"eps": 20, "delta": 1e-6, "schema": SCHEMA, "seed": 1}
    gaps, few = (dp.dp_bayes("k ~ a + b", part, **call) for part in (rows, rows[::4]))
    for kind in ("sampling", "privacy"):
        both = [np.sqrt(np.diag(fit.vcov(kind))) for fit in (gaps, few)]
        assert both[0] == pytest.approx(both[1], rel=0.05)
    errors = [fit.predict(NEW, what="prob", se_fit=True)["se_fit"] for fit in (gaps, few)]
    assert errors[0].to_numpy() == pytest.approx(errors[1].to_numpy(), rel=0.2)
