"""Calls do not depend on the error settings of numpy."""

import numpy as np
import pytest

import dpmodels as dp

SCHEMA = {"y": dp.Real(0, 1), "x": dp.Real(0, 1)}


@pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")
@pytest.mark.parametrize(("verb", "formula", "more"), [
    ("dp_ols", "y ~ x", {}), ("dp_glm", "{y > .5} ~ x", {}), ("dp_quantreg", "y ~ x", {}),
    ("dp_mean", "y ~ 1", {}), ("dp_glm", "{y > .5} ~ x", {"method": "objpert"}),
    ("dp_release", "~ y + x", {"accept_no_estimate": True}),
])  # fmt: skip
def test_calls_work_where_numpy_raises(verb, formula, more):
    rng = np.random.default_rng(0)
    data = {"y": rng.uniform(0, 1, 1000), "x": rng.uniform(0, 1, 1000)}
    with np.errstate(all="raise"):
        assert getattr(dp, verb)(formula, data, eps=1, delta=1e-6, schema=SCHEMA, **more) is not None
        assert dp.plan("y ~ x", SCHEMA, n=1000, eps=1, delta=1e-6)
        assert np.geterr()["under"] == "raise"


@pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")
def test_releases_about_a_fit_work_where_numpy_raises():
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, 4000)
    data = {"x": x, "y": (rng.uniform(0, 1, 4000) < x).astype(float)}
    paid = {"eps": 5, "delta": 1e-6}
    with np.errstate(all="raise"):
        fit = dp.dp_glm("y ~ x", data, schema=SCHEMA, **paid)
        assert fit.score(data, **paid) is not None
        assert fit.diagnose(data, **paid) is not None
        assert fit.update("y ~ x + I(x**2)", data, **paid) is not None
        assert fit.summary() is not None and str(fit.summary())
        assert fit.predict({"x": [0.2, 0.9]}, interval="confidence") is not None
        assert np.geterr()["under"] == "raise"


@pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")
@pytest.mark.filterwarnings("ignore::dpmodels.errors.NoReplyWarning")
def test_mechanisms_of_a_user_work_where_numpy_raises():
    votes = np.random.default_rng(2).integers(0, 2, (300, 20))
    paid = {"eps": 5, "delta": 1e-6}

    def candidate(eps, delta, noise):
        value = float(np.float64(1e-300) * np.float64(1e-300)) + float(noise.normal(1.0, 1)[0])
        return value, value

    with np.errstate(all="raise"):
        assert dp.dp_vote(votes[:, 0], [0, 1], **paid) is not None
        assert dp.dp_pate(votes, classes=2, **paid) is not None
        assert dp.dp_select([candidate], **paid) is not None
        assert np.geterr()["under"] == "raise"


@pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")
def test_proportional_hazards_are_tested_where_numpy_raises():
    rng = np.random.default_rng(3)
    data = {"x": rng.uniform(0, 1, 4000), "t": rng.exponential(3, 4000), "e": np.ones(4000)}
    schema = {"x": dp.Real(0, 1), "t": dp.Real(0, 10), "e": dp.Binary()}
    paid = {"eps": 5, "delta": 1e-6}
    with np.errstate(all="raise"):
        fit = dp.dp_coxph("Surv(t, e) ~ x", data, schema=schema, **paid)
        assert fit.cox_zph(data, **paid) is not None
