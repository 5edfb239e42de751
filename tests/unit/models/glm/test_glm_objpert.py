"""dp_glm by objective perturbation, through the public verb."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import dpmodels as dp
from dpmodels.errors import DPModelsError, NotReleasedError, RequestError
from dpmodels.privacy.run import FLOAT_NOTE

pytestmark = pytest.mark.usefixtures("quiet")

objpert = partial(dp.dp_glm, method="objpert")


def test_without_noise_it_is_the_ridge_fit(noiseless, logistic, glm_schema):
    data = logistic(3000)
    fit = objpert(
        "y ~ a + b", data, eps=1, delta=1e-6, schema=glm_schema, rescale=False, lam=5.0,
        radius=2.0, inference=False,
    )  # fmt: skip
    from dpmodels.models.objpert import working_map

    scale, shift = working_map(fit.design)
    X = np.column_stack([np.ones(3000), data.a, data.b]) * scale + shift
    s = 2 * data.y.to_numpy() - 1
    theta = np.zeros(3)
    for _ in range(30):
        p = expit(-s * (X @ theta))
        g = X.T @ (-s * p) + 5.0 * theta
        theta -= np.linalg.solve((X * (p * (1 - p))[:, None]).T @ X + 5.0 * np.eye(3), g)
    want = np.array([theta[0] + shift @ theta, *(scale * theta)[1:]])
    np.testing.assert_allclose(fit.params.to_numpy(), want, rtol=1e-6)


def test_recovers_the_coefficients_and_predicts_probabilities(logistic, glm_schema):
    data = logistic(30000)
    fit = objpert("y ~ a + b", data, eps=2, delta=1e-6, schema=glm_schema, seed=3)
    truth = np.array([-0.3 + 2.0, 1.0, -0.4])
    assert np.all(np.abs(fit.params.to_numpy() - truth) < 5 * fit.bse.to_numpy() + 0.02)
    prob = fit.predict(data)
    assert prob.between(0, 1).all()
    np.testing.assert_allclose(prob, expit(fit.predict(data, what="link")))
    assert "P>|z|" in str(fit.summary(full=True))
    assert np.all(fit.bse_privacy > 0)
    assert pickle.loads(pickle.dumps(fit)).params.equals(fit.params)
    again = dp.results.Fit.from_json(fit.to_json())
    assert again.privacy.delta_at(2.0) == pytest.approx(fit.privacy.delta_at(2.0), rel=1e-9)


def test_the_guarantee_is_the_request_and_carries_its_note(logistic, glm_schema):
    for relation in ("replace", "add-remove"):
        fit = objpert(
            "y ~ a + b", logistic(500), eps=1, delta=1e-6, schema=glm_schema, relation=relation
        )
        delta = fit.privacy.delta_at(1.0)
        assert 0.99e-6 < delta <= 1e-6 * (1 + 1e-7)
        assert FLOAT_NOTE in fit.privacy.notes and "53-bit floats" in fit.privacy.statement()
        assert (fit.nobs is None) == (relation == "add-remove")


def test_separated_classes_give_a_ridge_answer(glm_schema):
    x = np.linspace(-1, 1, 400)
    data = pd.DataFrame({"a": x, "b": 5.0, "y": (x > 0).astype(int)})
    fit = objpert("y ~ a + b", data, eps=1, delta=1e-6, schema=glm_schema, seed=1)
    assert 1.0 < fit.params["a"] < 100.0
    one = data.assign(y=1)
    fit = objpert("y ~ a + b", one, eps=1, delta=1e-6, schema=glm_schema, seed=1)
    assert 0.5 < fit.predict(one).min() < 1.0


def test_row_order_does_not_matter(logistic, glm_schema):
    data = logistic(2000)
    fits = [
        objpert("y ~ a + b", d, eps=1, delta=1e-6, schema=glm_schema, seed=5)
        for d in (data, data.sample(frac=1, random_state=2))
    ]
    np.testing.assert_allclose(fits[0].params, fits[1].params, rtol=1e-6, atol=1e-7)


def test_missing_rows_are_zero_rows(noiseless, logistic, glm_schema):
    data = logistic(2000)
    holes = pd.concat([data, data.iloc[:50].assign(a=np.nan)], ignore_index=True)
    lost = pd.concat([data, data.iloc[:50].assign(y=pd.NA)], ignore_index=True)
    args = {
        "eps": 1, "delta": 1e-6, "schema": glm_schema, "inference": False, "lam": 4.0,
        "rescale": False,
    }  # fmt: skip
    fits = [objpert("y ~ a + b", d, **args) for d in (data, holes, lost)]
    for other in fits[1:]:
        np.testing.assert_allclose(fits[0].params, other.params, rtol=1e-7)


def test_bought_ranges_are_inside_the_guarantee(logistic):
    data = logistic(20000)
    schema = dp.Schema(y=dp.Binary())
    fit = objpert("y ~ a + b", data, eps=2, delta=1e-6, schema=schema, seed=1)
    assert fit.released and "range of a" in fit.ledger.to_frame().to_string()
    assert fit.privacy.delta_at(2.0) <= 1e-6 * (1 + 1e-7)
    with pytest.raises(RequestError, match="declare the ranges of a, b"):
        objpert("y ~ a + b", data, eps=2, delta=1e-6, schema=schema, relation="add-remove")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"family": "gamma"}, "family='gamma'"),
        ({"family": "logistik"}, "logistic"),
        ({"link": "log"}, "logit"),
        ({"lam": -1.0}, "lam"),
        ({"lam": 1e-9}, "larger lam"),
        ({"method": "objprt"}, "objpert"),
        ({"split": {"coef": 1.0}}, "split= must name"),
        ({"weights": "a"}, "cannot use weights"),
        ({"eps": 0}, "eps must be positive"),
        ({"delta": 0}, "delta"),
    ],
)
def test_bad_input_is_refused_before_a_row_is_read(change, match, logistic, glm_schema):
    args = {"eps": 1, "delta": 1e-6, "schema": glm_schema} | change
    with pytest.raises(DPModelsError, match=match):
        objpert("y ~ a + b", logistic(50), **args)


def test_a_response_that_is_not_two_levels_is_refused(logistic):
    data = logistic(50)
    three = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(0, 10), y=dp.Levels([0, 1, 2]))
    for schema in (three, dp.Schema(a=dp.Real(-1, 1), b=dp.Real(0, 10), y=dp.Real(0, 5))):
        with pytest.raises(DPModelsError):
            objpert("y ~ a + b", data, eps=1, delta=1e-6, schema=schema)


def test_no_residuals(logistic, glm_schema):
    fit = objpert("y ~ a", logistic(300), eps=1, delta=1e-6, schema=glm_schema)
    with pytest.raises(NotReleasedError):
        _ = fit.resid


def test_plan_is_the_fit(logistic, glm_schema):
    planned = dp.plan("y ~ a + b", glm_schema, n=500, eps=1, delta=1e-6, verb="dp_glm", method="objpert")
    fit = objpert("y ~ a + b", logistic(500), eps=1, delta=1e-6, schema=glm_schema)
    assert [s.name for s in planned.steps] == [s.name for s in fit.privacy.steps]
    assert "inexactness of the optimum" in str(planned)


def test_the_bias_of_the_ridge_is_found_from_the_ridge_fit():
    """No noise: H (theta_0 - theta) = lam theta exactly; where lam rules, the size of theta."""
    from dpmodels.models.objpert import ridge_bias

    rng = np.random.default_rng(0)
    Z = rng.normal(size=(500, 3))
    H, lam, truth = Z.T @ Z, 40.0, np.array([1.0, -2.0, 0.5])
    theta = np.linalg.solve(H + lam * np.eye(3), H @ truth)
    bias, share = ridge_bias(H[None], lam, theta)
    assert np.allclose(theta + bias, truth)
    assert share == pytest.approx(lam / np.linalg.eigvalsh(H)[0])
    drowned, share = ridge_bias(-H[None], lam, theta)
    assert np.allclose(drowned, theta)
    assert share == 1.0


def test_errors_hold_the_bias_of_a_ridge_that_rules():
    """Counts with a wide cap: the ridge is as large as the information. 3 errors: P < .003 each."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 8000)
    data = pd.DataFrame({"x": x, "y": rng.poisson(np.exp(3.0 + 0.8 * x))})
    schema = dp.Schema(x=dp.Real(-1, 1), y=dp.Count(400))
    fit = objpert("y ~ x", data, eps=1, delta=1e-6, schema=schema, family="poisson", seed=1)
    assert any("ridge's bias exceeds" in note for note in fit.notes)
    error = np.abs(fit.params.to_numpy() - [3.0, 0.8])
    assert error[0] > 5 * fit.bse_sampling.iloc[0]
    assert np.all(error < 3 * fit.bse.to_numpy())


def test_the_summary_says_family_event_and_row_weights(logistic, glm_schema):
    data = logistic(3000).assign(y=lambda d: np.where(d.y == 1, "yes", "no"))
    schema = glm_schema.update(y=dp.Levels(["no", "yes"]))
    fit = objpert("y ~ a + b", data, eps=1, delta=1e-6, schema=schema, seed=1, subset="a > -0.9")
    text = " ".join(str(fit.summary(full=True)).split())
    for words in ("Family: binomial", "Event: y = 'yes'", "Subset: a > -0.9", "down-weighted"):
        assert words in text


def test_a_wide_cap_on_counts_is_advised_against_before_anything_is_spent():
    schema = dp.Schema(x=dp.Real(-1, 1), y=dp.Count(1000))
    call = {"verb": "dp_glm", "method": "objpert", "family": "poisson", "eps": 1, "delta": 1e-6}
    assert any("shrunk heavily" in a for a in dp.plan("y ~ x", schema, n=5000, **call).advice)
    assert not dp.plan("y ~ x", schema, n=500_000, **call).advice


@pytest.mark.parametrize(("event", "declared"), [(0, True), (1, False), (True, True)])
def test_a_number_is_an_event_where_the_call_says_which(quiet, event, declared):
    """event=0 of a 0/1 response was ignored without a word: the other event was modelled."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, 400)})
    data["y"] = (data["a"] + 0.3 * rng.normal(size=400) > 0).astype(int)
    bounds = {"a": (-1, 1), **({"y": (0, 1)} if declared else {})}
    call = {"eps": 4, "delta": 1e-3, "bounds": bounds, "rescale": False, "inference": False}
    fit = objpert("y ~ a", data, event=event, seed=1, **call)
    plain = objpert(f"{{y == {int(event)}}} ~ a", data, seed=1, **call)
    assert fit.params.to_numpy() == pytest.approx(plain.params.to_numpy(), abs=1e-9)
    assert fit.params["a"] * (1.0 if event else -1.0) > 0.5


def test_an_undeclared_number_is_told_how_to_name_its_event():
    data = pd.DataFrame({"a": [0.1, 0.2], "y": [0.0, 1.0]})
    with pytest.raises(dp.errors.FormulaError, match="event=1"):
        objpert("y ~ a", data, eps=1, delta=1e-6, bounds={"a": (-1, 1)})
    with pytest.raises(dp.errors.FormulaError, match="is a number, so its event is one too"):
        objpert("y ~ a", data, eps=1, delta=1e-6, bounds={"a": (-1, 1)}, event="yes")


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("options", [{}, {"rescale": True}, {"inference": False}])
def test_an_intercept_alone_has_no_scale_to_learn(quiet, relation, options):
    """Planned and then skipped, the step of centres and scales was charged and every call failed.

    Deterministic: seeded.
    """
    b = (np.random.default_rng(0).random(5000) < 0.3).astype(float)
    call = dict(eps=2, delta=1e-6, schema={"b": dp.Binary()}, method="objpert", relation=relation)
    fit = dp.dp_glm("b ~ 1", {"b": b}, seed=1, **call, **options)
    assert abs(fit.params.iloc[0] - np.log(b.mean() / (1.0 - b.mean()))) < 0.2
    assert "scales" not in str(fit.ledger)
    with pytest.raises(RequestError, match="split= must name coef"):
        split = {"scale": 0.1, "coef": 0.6, "information": 0.3}
        dp.dp_glm("b ~ 1", {"b": b}, seed=1, split=split, **call)
