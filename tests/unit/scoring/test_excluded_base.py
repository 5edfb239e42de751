"""Levels that ``subset=`` excludes are lost alone, the base among them: the next one is the base."""

import numpy as np
import pytest

import dpmodels as dp

N = 12_000
MEANS = {"a": 0.2, "b": 0.3, "c": 0.1, "d": 0.25}  # at x = 0


def table():
    rng = np.random.default_rng(2)
    k = np.array(list("abcd"))[rng.integers(0, 4, N)]
    x = rng.uniform(0, 1, N)
    y = (np.vectorize(MEANS.get)(k) + 0.3 * x + rng.normal(0, 0.2, N)).clip(-1, 2)
    b = (rng.random(N) < 1 / (1 + np.exp(-y))).astype(int)
    return {"y": y, "x": x, "k": k, "b": b, "m": np.arange(N) % 3, "id": np.arange(N) // 2}


SCHEMA = {
    "y": dp.Real(-1, 2), "x": dp.Real(0, 1), "k": dp.Levels(list("abcd")), "b": dp.Binary(),
    "m": dp.Levels([0, 1, 2]),
}  # fmt: skip
FITS = {
    "least squares": ("dp_ols", "y ~ x + C(k)", {}),
    "by group": ("dp_ols", "y ~ x * k", {}),
    "no intercept": ("dp_ols", "y ~ x + k - 1", {}),
    "people": ("dp_ols", "y ~ x + k", {"unit": "id"}),
    "moments": ("dp_ols", "y ~ x + k", {"scoring": False}),
    "logit": ("dp_glm", "b ~ x + C(k)", {}),
    "quantile": ("dp_quantreg", "y ~ x + k", {}),
    "classes": ("dp_multinom", "m ~ x + k", {}),
}
SUBSETS = {
    "k != 'd'": "d",
    "k != 'a'": "a",
    "k in ['b', 'c'] and x > 0.2": "ad",
    "(k != 'b') & (k != 'c')": "bc",
}


@pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
@pytest.mark.parametrize("subset", SUBSETS)
@pytest.mark.parametrize("name", FITS)
def test_only_levels_that_the_subset_excludes_are_lost(name, subset):
    """Deterministic but for the fit's noise: estimates within 5.5 errors, alarms below 1e-5."""
    verb, formula, more = FITS[name]
    fit = getattr(dp, verb)(
        formula, table(), eps=6, delta=1e-6, seed=1, schema=SCHEMA, subset=subset, **more
    )
    excluded = [any(f"k)[T.{c}]" in n or f"k[T.{c}]" in n or f"k[{c}]" in n for c in SUBSETS[subset])
                for n in fit.params.index]  # fmt: skip
    np.testing.assert_array_equal(np.isnan(np.asarray(fit.bse)), excluded)
    assert not [note for note in fit.notes if "Drop a term" in note]
    if verb != "dp_ols":
        return
    for level in set(MEANS) - set(SUBSETS[subset]):
        new = {"x": np.array([0.5]), "k": np.array([level])}
        value = float(np.asarray(fit.predict(new))[0])
        assert abs(value - MEANS[level] - 0.15) < 0.04
        interval = fit.predict(new, interval="confidence")
        assert np.isfinite(np.asarray(interval, dtype=float)).all()
    if name in ("least squares", "by group"):
        assert 0.05 < fit.stats["r_squared"] < 0.4
    if "- 1" not in formula:
        means = fit.emmeans("k")
        told = np.isfinite(np.asarray(means.to_frame()["std_error"], dtype=float))
        assert told.tolist() == [level not in SUBSETS[subset] for level in "abcd"]


def test_columns_that_are_collinear_are_still_named():
    with pytest.warns(dp.errors.UtilityWarning, match="^I\\(2 \\* x\\): a combination"):
        fit = dp.dp_ols(
            "y ~ x + I(2 * x) + k", table(), eps=6, delta=1e-6, seed=None, schema=SCHEMA,
            subset="k != 'd'",
        )  # fmt: skip
    said = [note for note in fit.notes if "Drop a term" in note]
    assert said and "I(2 * x)" in said[0] and "k[T.d]" not in said[0]
