"""``public=`` of scored models: the public fit is right, passes start there, and nothing is charged."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
SCHEMA = dp.Schema(
    x=dp.Real(0, 10), z=dp.Real(-50, 50), b=dp.Binary(), k=dp.Count(9), y=dp.Real(-10, 10),
    o=dp.Ordered(["l", "m", "h"]), c=dp.Levels(["r", "s", "t"]), t=dp.Real(0, 10), e=dp.Binary(),
)  # fmt: skip
CALL = {"eps": 1, "delta": 1e-6, "schema": SCHEMA, "seed": 1}
SLOPE = 0.3
#: Verb, formula, options, and the name of the slope of x with its true value.
FITS = {
    "logit": ("dp_glm", "b ~ x + z", {}, "x", SLOPE),
    "poisson": ("dp_glm", "k ~ x + z", {"family": "poisson"}, "x", 0.2 * SLOPE),
    "median": ("dp_quantreg", "y ~ x + z", {}, "x", SLOPE),
    "huber": ("dp_mest", "y ~ x + z", {"loss": "huber"}, "x", SLOPE),
    "polr": ("dp_polr", "o ~ x + z", {}, "x", SLOPE),
    "multinom": ("dp_multinom", "c ~ x + z", {}, "s:x", SLOPE),
    "cox": ("dp_coxph", "Surv(t, e) ~ x + z", {}, "x", SLOPE),
}


def rows(n, seed, per=1, slope=SLOPE):
    """Return rows of all responses; a person has ``per`` of them."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(0, 10, n * per), rng.uniform(-50, 50, n * per)
    eta = slope * (x - 5) + 0.01 * z
    died, left = rng.exponential(5 / np.exp(eta)), rng.uniform(0, 10, n * per)
    classes = np.stack([0 * eta, eta, -0.5 * eta]) + rng.gumbel(size=(3, n * per))
    return pd.DataFrame({
        "id": np.repeat(np.arange(n), per), "x": x, "z": z,
        "b": (rng.uniform(size=n * per) < 1 / (1 + np.exp(-eta))).astype(int),
        "k": np.minimum(rng.poisson(np.exp(0.2 * eta)), 9),
        "y": np.clip(eta + rng.standard_t(3, n * per), -10, 10),
        "o": np.array(["l", "m", "h"])[np.digitize(eta + rng.logistic(size=n * per), [-1, 1])],
        "c": np.array(["r", "s", "t"])[classes.argmax(axis=0)],
        "t": np.minimum(died, left), "e": (died <= left).astype(int),
    })  # fmt: skip


def fitted(name, private, public, **more):
    verb, formula, options, _, _ = FITS[name]
    return getattr(dp, verb)(formula, private, public=public, **{**CALL, **options, **more})


def reference(name, d):
    """Return the coefficients of a fit of the whole table without privacy."""
    sm, smf = pytest.importorskip("statsmodels.api"), pytest.importorskip("statsmodels.formula.api")
    X = d[["x", "z"]].to_numpy()
    if name == "logit":
        return smf.logit("b ~ x + z", d).fit(disp=0).params
    if name == "poisson":
        return smf.poisson("k ~ x + z", d).fit(disp=0).params
    if name == "median":
        return smf.quantreg("y ~ x + z", d).fit().params
    if name == "huber":
        scale = sm.robust.scale.HuberScale(d=1.345)
        return smf.rlm("y ~ x + z", d).fit(scale_est=scale).params
    if name == "polr":
        from statsmodels.miscmodels.ordinal_model import OrderedModel

        y = d["o"].map({"l": 0, "m": 1, "h": 2}).to_numpy()
        return OrderedModel(y, X, distr="logit").fit(disp=0, method="bfgs").params[:2]
    if name == "multinom":
        found = sm.MNLogit(pd.Categorical(d["c"]).codes, sm.add_constant(X)).fit(disp=0)
        return np.asarray(found.params).T.ravel()
    return sm.PHReg(d["t"], X, status=d["e"], ties="efron").fit().params


@pytest.mark.parametrize("name", FITS)
def test_the_public_fit_is_that_of_the_whole_table(name):
    public = rows(250, 2)
    shown = fitted(name, rows(1500, 1), public).public
    want = np.asarray(reference(name, public))
    error = (shown["public"].to_numpy()[: len(want)] - want) / shown["public_se"][: len(want)]
    assert np.abs(error).max() < {"median": 0.5, "cox": 0.35, "huber": 0.1}.get(name, 0.05)


@pytest.mark.parametrize("name", FITS)
def test_passes_arrive_from_public_rows_of_another_population(name):
    """Slopes of the other sign and half the size; seeded, so it cannot fail by chance."""
    _, _, _, slope, truth = FITS[name]
    fit = fitted(name, rows(4000, 1), rows(250, 2, slope=-SLOPE / 2), eps=2)
    public, private = fit.public.loc[slope, ["public", "private"]]
    assert public < 0.3 * truth and 0.6 * truth < private < 1.4 * truth


@pytest.mark.parametrize("name", ["logit", "median", "huber", "polr", "multinom", "cox"])
def test_people(name):
    fit = fitted(name, rows(2000, 1, per=2), rows(200, 2, per=2), unit="id")
    _, _, _, slope, truth = FITS[name]
    assert fit.params[slope] == pytest.approx(truth, rel=0.35)
    assert "public people" in str(fit.notes)
    with pytest.raises(dp.errors.RequestError, match="no column id"):
        fitted(name, rows(2000, 1, per=2), rows(200, 2).drop(columns="id"), unit="id")


def test_a_small_corner_is_no_reason_to_refuse():
    """The last step of Huber has less information than those before: it was taken for no fit."""
    fit = fitted("huber", rows(3000, 1), rows(250, 2), scale=0.3)
    assert fit.public.loc["x", "public"] == pytest.approx(SLOPE, abs=0.1)


def test_nothing_is_charged_for_what_is_public():
    private, public = rows(1500, 1), rows(250, 2)
    for name in FITS:
        budget = dp.Budget(eps=1, delta=1e-6)
        fit = fitted(name, private, public, budget=budget)
        plain = fitted(name, private, None)
        steps = [step.name for step in fit.privacy.steps]
        assert len(budget.charges) == 1 and fit.privacy.eps == plain.privacy.eps == 1
        assert not {"start", "places of values", "scales of values", "scales"} & set(steps)


def test_the_steps_and_their_noise_are_those_of_any_public_rows():
    """Wide, narrow or wrong: mechanisms are functions of eps, delta, n and the formula."""
    steps = []
    for public in (rows(250, 2), rows(60, 3, slope=-0.6), rows(250, 2).assign(z=0.01 * rows(250, 5).z)):
        fit = fitted("logit", rows(1500, 1), public)
        steps.append([(s.name, s.mechanism) for s in fit.privacy.steps])
    assert steps[0] == steps[1] == steps[2]


def test_a_far_public_fit_changes_no_released_number_beyond_its_noise():
    """The same rows and seed: fits from two starts differ by less than their noise."""
    private = rows(4000, 1)
    near, far = (fitted("logit", private, rows(250, 2, slope=s)) for s in (SLOPE, -SLOPE))
    assert np.abs((near.params - far.params) / near.bse_privacy).max() < 3.0


def test_both_fits_are_kept_and_printed(tmp_path):
    fit = fitted("logit", rows(1500, 1), rows(250, 2))
    assert "Public / private fit (250 public rows" in str(fit.summary(full=True))
    fit.save(tmp_path / "fit.json")
    pd.testing.assert_frame_equal(dp.load(tmp_path / "fit.json").public, fit.public)
    assert fitted("logit", rows(1500, 1), None).public is None
    other = fitted("logit", rows(1500, 1), rows(250, 2), method="objpert")
    assert other.public["public"].equals(fit.public["public"])


def test_public_rows_of_any_kind():
    """Weights, clusters, offsets, subsets, add-remove, several quantiles, a large public table."""
    d = rows(1500, 1).assign(w=1.5, v=np.arange(1500) // 10)
    public = rows(250, 2).assign(w=2.0, v=np.arange(250) // 10)
    schema = SCHEMA.update(w=dp.Real(0, 3))
    for more in (
        {"weights": "w"}, {"weights": "w", "unit": "id"}, {"vcov": {"CRV1": "v"}, "psus": 150},
        {"subset": "x > 2"}, {"relation": "add-remove", "n_guess": 1500}, {"fit_stats": True},
        {"link": "probit"},
    ):  # fmt: skip
        fit = dp.dp_glm("b ~ x + z", d, public=public, **{**CALL, "schema": schema}, **more)
        assert fit.public["public"]["x"] > 0
    assert len(dp.dp_quantreg("y ~ x", d, tau=[0.25, 0.75], public=public, **CALL).public) == 4
    fit = dp.dp_glm("b ~ x + z", d, public=rows(150_000, 4), **CALL)
    assert fit.public["public"]["x"] == pytest.approx(SLOPE, rel=0.05)
    plan = dp.plan("b ~ x + z", SCHEMA, verb="dp_glm", n=1500, eps=1, delta=1e-6, public=public)
    assert plan.expected_se["x"] > 0


PUBLIC = rows(250, 2)


@pytest.mark.parametrize(("name", "public", "more", "text"), [
    ("logit", PUBLIC[["x", "b"]], {}, "no column z"),
    ("logit", PUBLIC.iloc[:8], {}, "11 are needed"),
    ("logit", PUBLIC.iloc[:0], {}, "11 are needed"),
    ("logit", PUBLIC.assign(b=0), {}, "do not determine a fit"),
    ("logit", PUBLIC.assign(b=(PUBLIC.x > 5).astype(int)), {}, "do not determine a fit"),
    ("logit", PUBLIC.assign(x=np.nan), {}, "do not determine a fit"),
    ("poisson", PUBLIC.assign(k=0), {}, "do not determine a fit"),
    ("median", PUBLIC.assign(y=1.0), {}, "do not determine a fit"),
    ("huber", PUBLIC.assign(y=1.0), {}, "do not determine a fit"),
    ("polr", PUBLIC.assign(o="l"), {}, "do not determine a fit"),
    ("multinom", PUBLIC.assign(c="q"), {}, "do not determine a fit"),
    ("multinom", PUBLIC[PUBLIC.c != "s"], {}, "do not determine a fit"),
    ("cox", PUBLIC.assign(e=0), {}, "do not determine a fit"),
    ("logit", {"moments": np.eye(4), "m": 50}, {}, "not their moments"),
    ("logit", PUBLIC, {"split": {"start": 0.5, "last": 0.5}}, "leave it out"),
    ("logit", PUBLIC, {"schema": SCHEMA.update(x=dp.Real())}, "bounds={'x': (low, high)}"),
    ("logit", PUBLIC, {"family": "gaussian"}, 'method="pmt"'),
    ("huber", PUBLIC, {"loss": "squared"}, 'method="pmt"'),
])  # fmt: skip
def test_bad_public_rows_are_refused_before_any_charge(name, public, more, text):
    budget = dp.Budget(eps=1, delta=1e-6)
    with pytest.raises(dp.errors.RequestError) as caught:
        fitted(name, rows(300, 1), public, budget=budget, **more)
    assert text in str(caught.value) and not budget.charges


def test_the_private_table_is_no_public_one():
    d = rows(300, 1)
    with pytest.raises(dp.errors.RequestError, match="private data itself"):
        fitted("logit", d, d)


@pytest.mark.parametrize(("verb", "more"), [
    ("dp_glm", {"method": "gptr"}), ("dp_ols", {"method": "eptr"}),
])  # fmt: skip
def test_advice_names_methods_that_there_are(verb, more):
    """``method='pmt'`` was named to verbs that do not have it."""
    with pytest.raises(dp.errors.RequestError) as caught:
        getattr(dp, verb)("b ~ x", rows(300, 1), public=rows(30, 2), **more, **CALL)
    text = str(caught.value)
    assert "drop public=" in text
    named = [m for m in ("pmt", "objpert", "scoring") if f"'{m}'" in text]
    assert named and set(named) <= set(dp.methods().query("verb == @verb")["method"])
