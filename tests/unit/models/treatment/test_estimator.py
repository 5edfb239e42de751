"""Influence functions of ``dp_ate`` against closed forms, and what a fit says."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.core.own import OwnRows
from dpmodels.core.rows import Rows
from dpmodels.core.units import means_of_units
from dpmodels.errors import DPModelsError, DPModelsWarning, FormulaError, RequestError
from dpmodels.families import LINKS
from dpmodels.models.treatment import rows as formulas
from dpmodels.models.treatment.facts import Fitted, Influence
from dpmodels.models.treatment.rows import EffectRows

BOUNDS = {"x1": (-1, 1), "x2": (-1, 1), "y": (-5, 6)}


def influence_of(at, block):
    """Return the numbers of :func:`formulas.influence_of`, which a formula cannot see."""
    looked = formulas.influence_of(at, Rows(block))
    found = {name: getattr(part, "numbers", part) for name, part in vars(looked).items()}
    return SimpleNamespace(**{k: v[0] if len(v) == 1 else v for k, v in found.items()})


def expit(x):
    return 1 / (1 + np.exp(-x))


def table(n=2000, seed=0, family="gaussian"):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    t = (rng.random(n) < expit(0.2 + 0.8 * x[:, 0] - 0.6 * x[:, 1])).astype(int)
    eta = 0.3 + x @ [0.8, -0.5] + 0.5 * t + 0.3 * t * x[:, 0]
    y = {
        "gaussian": lambda: eta + rng.normal(0, 0.7, n),
        "binomial": lambda: (rng.random(n) < expit(eta)).astype(int),
        "poisson": lambda: rng.poisson(np.exp(0.5 * eta)).clip(0, 20),
    }[family]()
    return pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "t": t, "y": y})


def newton(X, y, family, w=1.0):
    b = np.zeros(X.shape[1])
    for _ in range(25):
        eta = X @ b
        mean = {"gaussian": eta, "binomial": expit(eta), "poisson": np.exp(eta)}[family]
        slope = {"gaussian": np.ones_like(eta), "binomial": mean * (1 - mean), "poisson": mean}[family]
        b = b + np.linalg.solve((X * (w * slope)[:, None]).T @ X, X.T @ (w * (y - mean)))
    return b


def at_maximum(frame, family="gaussian", estimand="ATE", clip=(0.1, 0.9)):
    """Return influence functions at maximum likelihood, and a block of the rows."""
    X = np.column_stack([np.ones(len(frame)), frame.x1, frame.x2])
    t, y = frame.t.to_numpy(float), frame.y.to_numpy(float)
    one = np.eye(3)
    fits = [newton(X, t, "binomial"), *(newton(X[t == a], y[t == a], family) for a in (1, 0))]
    e, m1, m0 = (Fitted((0, 2, 3), b, one, one, one, one) for b in fits)
    link = LINKS[{"gaussian": "identity", "binomial": "logit", "poisson": "log"}[family]]
    at = Influence(estimand, 1, None, 1.0, e, clip, (m1, m0), link, 20.0)
    return at, np.stack([np.ones(len(t)), t, frame.x1, frame.x2, y])


def closed_form(frame, family="gaussian", estimand="ATE"):
    X = np.column_stack([np.ones(len(frame)), frame.x1, frame.x2])
    t, y = frame.t.to_numpy(float), frame.y.to_numpy(float)
    e = expit(X @ newton(X, t, "binomial")).clip(0.1, 0.9)
    inverse = {"gaussian": lambda eta: eta, "binomial": expit, "poisson": np.exp}[family]
    m1, m0 = (inverse(X @ newton(X[t == a], y[t == a], family)) for a in (1, 0))
    if estimand == "ATT":
        return (t * (y - m0) - (1 - t) * e / (1 - e) * (y - m0)).sum() / t.sum()
    return np.mean(m1 - m0 + t * (y - m1) / e - (1 - t) * (y - m0) / (1 - e))


@pytest.mark.oracle
@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_the_mean_of_influence_functions_is_aipw(family, estimand):
    frame = table(family=family)
    at, block = at_maximum(frame, family, estimand)
    looked = influence_of(at, block)
    means = (looked.u * looked.phi).sum(axis=1) / (looked.u * looked.d).sum()
    assert means[0] - means[1] == pytest.approx(closed_form(frame, family, estimand), abs=1e-8)


@pytest.mark.oracle
def test_the_mean_of_influence_functions_is_that_of_statsmodels():
    treatment = pytest.importorskip("statsmodels.treatment.treatment_effects")
    sm = pytest.importorskip("statsmodels.api")
    frame = table()
    X = np.column_stack([np.ones(len(frame)), frame.x1, frame.x2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logit = sm.Logit(frame.t, X).fit(disp=0, tol=1e-12)
        theirs = treatment.TreatmentEffect(
            sm.OLS(frame.y, X), frame.t, results_select=logit
        ).aipw(return_results=False)
    at, block = at_maximum(frame, clip=(0.001, 0.999))
    looked = influence_of(at, block)
    ours = looked.phi.mean(axis=1)
    assert ours[0] - ours[1] == pytest.approx(theirs[0], abs=1e-8)
    assert ours[::-1] == pytest.approx(np.asarray(theirs[1:]), abs=1e-8)


@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_derivatives_are_those_of_the_influence_functions(family, estimand):
    from dataclasses import replace

    at, block = at_maximum(table(300, family=family), family, estimand)
    looked, step = influence_of(at, block), 1e-6

    def moved(name, arm=None):
        parts = []
        for sign in (1, -1):
            if name == "propensity":
                e = replace(at.propensity, coef=at.propensity.coef + sign * step * np.eye(3)[0])
                parts.append(influence_of(replace(at, propensity=e), block).phi)
            else:
                both = list(at.outcomes)
                both[arm] = replace(both[arm], coef=both[arm].coef + sign * step * np.eye(3)[0])
                parts.append(influence_of(replace(at, outcomes=tuple(both)), block).phi)
        return (parts[0] - parts[1]) / (2 * step)

    np.testing.assert_allclose(looked.of_e, moved("propensity"), atol=1e-6)
    for arm in (0, 1):
        np.testing.assert_allclose(looked.of_m[arm], moved("outcome", arm)[arm], atol=1e-6)


def halved(frame, family="gaussian", estimand="ATE", seed=9):
    """Return influence functions whose models are those of each half, a block, and the halves."""
    from dataclasses import replace

    half = np.random.default_rng(seed).integers(0, 2, len(frame))
    fits = []
    for value in (0, 1):
        at, _ = at_maximum(frame[half == value], family, estimand)
        fits.append([at.propensity, *at.outcomes])
    models = [
        replace(
            a, coef=np.concatenate([a.coef, b.coef - a.coef]), places=a.places * 2, fold=4,
            crossed=(False,) * 3 + (True,) * 3, root=np.eye(6), bread=np.eye(6), back=np.eye(6),
            into=np.eye(6),
        )
        for a, b in zip(*fits, strict=True)
    ]  # fmt: skip
    at, block = at_maximum(frame, family, estimand)
    at = replace(at, propensity=models[0], outcomes=(models[1], models[2]))
    return at, np.insert(block, 4, half, axis=0), half, fits


@pytest.mark.oracle
@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_each_half_is_evaluated_at_the_models_of_the_other(family, estimand):
    from dataclasses import replace

    frame = table(family=family)
    at, block, half, fits = halved(frame, family, estimand)
    looked = influence_of(at, block)
    plain, rows = at_maximum(frame, family, estimand)
    for value in (0, 1):
        e, m1, m0 = fits[1 - value]
        other = influence_of(replace(plain, propensity=e, outcomes=(m1, m0)), rows)
        mine = half == value
        np.testing.assert_allclose(looked.phi[:, mine], other.phi[:, mine], atol=1e-8)
    # derivatives along the coefficients, with the columns of the other half
    step, effect = 1e-6, EffectRows(at, (0.0, 0.0), 1.0, 0.5)
    seen = formulas.influence_of(at, Rows(block))
    slopes = effect.derivatives(seen, Rows(block)).numbers[:6]
    first = at.blocks[0][0]
    for j in range(6):
        moved = []
        for sign in (1, -1):
            e = replace(first, coef=first.coef + sign * step * np.eye(6)[j])
            moved.append(influence_of(replace(at, propensity=e), block).phi[at.blocks[0][1]])
        np.testing.assert_allclose(slopes[j], (moved[0] - moved[1]) / (2 * step), atol=1e-6)


@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
@pytest.mark.parametrize("propensity", [None, "1"])
def test_without_noise_halves_give_cross_fitted_aipw(estimand, propensity):
    frame = table(20000, 3)
    frame["half"] = np.random.default_rng(4).integers(0, 2, len(frame))
    parts = []
    for value in (0, 1):
        own, other = (frame[frame.half == v] for v in (value, 1 - value))
        X = np.column_stack([np.ones(len(own)), own.x1, own.x2])
        Z = np.column_stack([np.ones(len(other)), other.x1, other.x2])
        k = 1 if propensity == "1" else 3
        e = expit(X[:, :k] @ newton(Z[:, :k], other.t, "binomial")).clip(0.1, 0.9)
        m1, m0 = (X @ newton(Z[other.t == a], other.y[other.t == a], "gaussian") for a in (1, 0))
        t, y = own.t.to_numpy(), own.y.to_numpy()
        if estimand == "ATT":
            parts.append(t * (y - m0) - (1 - t) * e / (1 - e) * (y - m0))
        else:
            parts.append(m1 - m0 + t * (y - m1) / e - (1 - t) * (y - m0) / (1 - e))
    total = frame.t.sum() if estimand == "ATT" else len(frame)
    with noise_source(ZeroNoise()):
        fit = call(frame, estimand=estimand, eps=4.0, folds="half", propensity=propensity)
    assert fit.params[estimand] == pytest.approx(np.concatenate(parts).sum() / total, abs=2e-3)
    assert list(fit.balance().index) == ["x1", "x2"]


def test_halves_may_be_levels_or_a_comparison_of_people_and_counts():
    frame = table(9000, 4, "poisson")
    frame["id"] = np.arange(len(frame)) // 3
    frame["fold"] = np.where(frame.id % 2 == 0, "a", "b")
    schema = {"y": dp.Count(20), "fold": dp.Levels(["a", "b"])}
    bounds = {k: v for k, v in BOUNDS.items() if k != "y"}
    for how in ({"folds": "fold"}, {"folds": "{fold == 'b'}", "unit": "id"}, {"folds": "fold", "bounds": None}):
        fit = call(frame, schema=schema, seed=1, **{"bounds": bounds, **how})
        assert fit.released and np.isfinite(fit.params).all()
        assert fit.params["ATE"] == pytest.approx(0.35, abs=6 * fit.bse["ATE"])
    plan = dp.plan(
        "y ~ x1 + x2", {**schema, "t": dp.Binary()}, verb="dp_ate", n=9000, eps=1, delta=1e-6,
        treatment="t", bounds=bounds, folds="fold",
    )  # fmt: skip
    assert sum(s.share for s in plan.steps) == pytest.approx(1.0)


def test_a_person_adds_the_mean_over_complete_rows():
    at, block = at_maximum(table(6))
    block = block.copy()
    block[-1, 4] = np.nan
    rows = EffectRows(at, (0.0, 0.0), 1.0, 0.5)
    pairs, present = rows.lengths(Rows(block), None)
    found = means_of_units(OwnRows(np.array([3, 3])), (pairs, present))
    alone = pairs.numbers
    np.testing.assert_allclose(found[:, 0], alone[:, :3].mean(axis=1))
    np.testing.assert_allclose(found[:, 1], alone[:, [3, 5]].mean(axis=1))


def call(frame, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        given = {"treatment": "t", "eps": 1.0, "delta": 1e-6, "bounds": BOUNDS, **how}
        declared = {"t": dp.Binary(), "half": dp.Binary(), **(given.pop("schema", None) or {})}
        given["schema"] = {k: v for k, v in declared.items() if k in frame}
        return dp.dp_ate("y ~ x1 + x2", frame, **given)


@pytest.mark.parametrize(("eps", "seed"), [(4.0, 3), (50.0, 53), (50.0, 54)])
@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_without_noise_the_effect_is_near_aipw(family, estimand, eps, seed):
    """At eps = 4 the fits take few steps and clip; at 50 hardly a clip cuts, and rows are rounded.

    The influence functions alone agree to 1e-8 (above): a whole call rounds each row to 2^-20 of
    its clip, and a Poisson model has steps left.
    """
    within = 2e-3 if eps < 50.0 else 3e-4 if family == "poisson" else 1e-5
    frame = table(20000, seed, family)
    kinds = {"binomial": {"y": dp.Binary()}, "poisson": {"y": dp.Count(20)}}.get(family, {})
    bounds = {k: v for k, v in BOUNDS.items() if k not in kinds}
    with noise_source(ZeroNoise()):
        fit = call(frame, schema=kinds, bounds=bounds, estimand=estimand, eps=eps)
    assert fit.params[estimand] == pytest.approx(closed_form(frame, family, estimand), abs=within)
    # by the middle of each cell of the propensity
    assert fit.stats["share_treated"] == pytest.approx(frame.t.mean(), abs=1e-3)


def test_without_noise_balance_and_overlap_are_those_of_the_rows():
    frame = table(20000, 3)
    with noise_source(ZeroNoise()):
        fit = call(frame, eps=4.0)
    balance, cells = fit.balance(), fit.overlap()
    means = frame.groupby("t")[["x1", "x2"]].mean()
    np.testing.assert_allclose(balance["mean_treated"], means.loc[1], atol=1e-4)
    np.testing.assert_allclose(balance["mean_control"], means.loc[0], atol=1e-4)
    assert (balance["weighted_difference"].abs() < 0.03).all()
    assert (balance["difference"].abs() > 0.2).all()
    assert cells["treated"].sum() == pytest.approx(frame.t.sum(), abs=1)
    assert cells["control"].sum() == pytest.approx((1 - frame.t).sum(), abs=1)


def test_weights_and_people():
    rng = np.random.default_rng(2)
    frame = table(9000, 4)
    frame["w"] = rng.uniform(0.2, 2, len(frame))
    frame["id"] = np.arange(len(frame)) // 3
    weighted = call(frame, weights="w", bounds={**BOUNDS, "w": (0, 2)}, seed=1)
    people = call(frame, unit="id", seed=1)
    for fit in (weighted, people):
        assert abs(fit.params["ATE"] - 0.5) < 5 * fit.bse["ATE"]
    assert people.nobs == 3000


def test_one_call_is_one_charge_and_the_plan_is_the_fit():
    frame = table(4000, 5)
    budget = dp.Budget(eps=3, delta=1e-5)
    call(frame, budget=budget, seed=None)
    assert len(budget.ledger()) == 1 if callable(getattr(budget, "ledger", None)) else True
    plan = dp.plan(
        "y ~ x1 + x2", {"t": dp.Binary()}, verb="dp_ate", n=4000, eps=1, delta=1e-6,
        treatment="t", bounds=BOUNDS,
    )  # fmt: skip
    fit = call(frame, seed=1)
    assert [s.name for s in plan.steps] == [s.name for s in fit.privacy.steps]
    assert sum(s.share for s in plan.steps) == pytest.approx(1.0)


@pytest.mark.parametrize("family", [{}, {"family": "binomial"}])
def test_a_plan_takes_an_outcome_of_two_levels_as_the_fit_does(family):
    frame = table(4000, 5, "binomial")
    frame["y"] = np.where(frame.y == 1, "well", "ill")
    schema = {"t": dp.Binary(), "y": dp.Levels(["ill", "well"])}
    bounds = {k: v for k, v in BOUNDS.items() if k != "y"}
    plan = dp.plan(
        "y ~ x1 + x2", schema, verb="dp_ate", n=4000, eps=1, delta=1e-6, treatment="t",
        bounds=bounds, **family,
    )  # fmt: skip
    fit = call(frame, schema=schema, bounds=bounds, seed=1, **family)
    assert [s.name for s in plan.steps] == [s.name for s in fit.privacy.steps]
    with pytest.raises(FormulaError, match="3 levels"):
        dp.plan(
            "y ~ x1 + x2", {**schema, "y": dp.Levels(["a", "b", "c"])}, verb="dp_ate", n=4000,
            eps=1, delta=1e-6, treatment="t", bounds=bounds,
        )  # fmt: skip


def test_ranges_are_estimated_from_the_same_budget():
    fit = call(table(20000, 6), bounds=None, seed=3)
    assert fit.released
    assert abs(fit.params["ATE"] - 0.5) < 6 * fit.bse["ATE"]


def test_a_comparison_and_two_levels_are_treatments():
    frame = table(6000, 7)
    frame["arm"] = np.where(frame.t == 1, "drug", "none")
    levels = {"arm": dp.Levels(["none", "drug"])}
    by_level = call(frame, treatment="arm", schema=levels, seed=1)
    by_text = call(frame, treatment="{arm == 'drug'}", schema=levels, seed=1)
    plain = call(frame, seed=1)
    assert by_level.params["ATE"] == pytest.approx(plain.params["ATE"], abs=1e-9)
    assert by_text.params["ATE"] == pytest.approx(plain.params["ATE"], abs=0.01)


def test_a_fit_is_saved_shown_and_drawn(tmp_path):
    fit = call(table(4000, 8), seed=1)
    fit.save(tmp_path / "fit.json")
    again = dp.load(tmp_path / "fit.json")
    assert again.balance().equals(fit.balance())
    text = str(fit.summary())
    for word in ("Share treated", "Effective n, treated", "SMD", "ATE"):
        assert word in text
    assert list(fit.tidy()["term"]) == ["ATE", "treated", "control"]
    assert fit.glance()["share_treated"].item() == fit.stats["share_treated"]
    assert fit.params["ATE"] == pytest.approx(fit.params["treated"] - fit.params["control"])
    pytest.importorskip("matplotlib").use("Agg")
    left, right = fit.plot()
    assert len(left.get_yticks()) == 2
    left.figure.clear()
    del right


@pytest.mark.parametrize(
    ("how", "kind", "word"),
    [
        ({"treatment": ""}, RequestError, "treatment="),
        ({"treatment": "z"}, FormulaError, "z"),
        ({"treatment": "x1"}, DPModelsError, "dp.Binary"),
        ({"estimand": "LATE"}, RequestError, "estimand"),
        ({"family": "gamma"}, RequestError, "family"),
        ({"clip": (0.6, 0.9)}, RequestError, "clip"),
        ({"clip": 0.5}, RequestError, "clip"),
        ({"propensity": "x1 + t"}, RequestError, "treatment"),
        ({"propensity": "."}, FormulaError, "by name"),
        ({"propensity": 3}, RequestError, "propensity"),
        ({"delta": 0}, RequestError, "delta"),
        ({"inference": False}, RequestError, "inference"),
        ({"relation": "add-remove"}, RequestError, "add-remove"),
        ({"folds": 5}, DPModelsError, "at random"),
        ({"folds": ""}, RequestError, "folds"),
        ({"folds": "x1"}, DPModelsError, "x1"),
        ({"folds": "t"}, RequestError, "leave"),
        ({"folds": "nothing"}, DPModelsError, "nothing"),
    ],
)
def test_bad_calls_are_refused_before_a_charge(how, kind, word):
    budget = dp.Budget(eps=3, delta=1e-5)
    frame = table(100)
    schema = {"x1": dp.Real(-1, 1)} if how.get("treatment") == "x1" else None
    bounds = {k: v for k, v in BOUNDS.items() if schema is None or k != "x1"}
    with pytest.raises(kind, match=word):
        call(frame, budget=budget, schema=schema, bounds=bounds, **how)
    assert budget.spent[0] == 0 if hasattr(budget, "spent") else True


@pytest.mark.statistical
def test_intervals_cover():
    """60 fits of 4 000 rows, seeds 0 to 59: at least 51 of 60 cover; false alarm .004 at .95."""
    inside = 0
    for seed in range(60):
        low, high = call(table(4000, 100 + seed), seed=seed).conf_int().loc["ATE"]
        inside += low <= 0.5 <= high
    assert inside >= 51
