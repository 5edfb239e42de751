"""Every model of the engine: its score against statsmodels, its fit without noise, its refusals."""

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.families import FAMILIES, LINKS, family_of, link_of
from tests.one_pass import added

BOUNDS = {
    "x": (-1, 1), "z": (0, 2), "t": (0.5, 3), "w": (0, 2), "c": (0, 40), "ct": (0, 90),
    "g": (0, 40), "nb": (0, 60), "y": (-8, 8),
}  # fmt: skip


def table(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({"x": rng.uniform(-1, 1, n), "z": rng.uniform(0, 2, n)})
    eta = 0.3 + 0.8 * d["x"] - 0.5 * d["z"]
    mean = np.exp(eta)
    d["t"], d["w"] = rng.uniform(0.5, 3, n), rng.uniform(0.2, 2.0, n)
    d["b"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(int)
    d["c"], d["ct"] = rng.poisson(mean), rng.poisson(mean * d["t"])
    d["g"] = np.clip(mean * rng.gamma(2, 0.5, n), 1e-3, 40)
    d["nb"] = rng.negative_binomial(2, 1 / (1 + mean / 2))
    d["y"] = np.clip(eta + 0.5 * rng.standard_t(5, n), -8, 8)
    return d


def sm_family(name, link):
    import statsmodels.api as sm

    links = {"probit": sm.families.links.Probit, "cloglog": sm.families.links.CLogLog}
    if name == "binomial":
        return sm.families.Binomial(links[link]() if link in links else None)
    if name == "gamma":
        return sm.families.Gamma(sm.families.links.Log())
    if name == "negative_binomial":
        return sm.families.NegativeBinomial(alpha=0.5)
    return sm.families.Poisson()


CASES = [
    ("binomial", "logit", "b"), ("binomial", "probit", "b"), ("binomial", "cloglog", "b"),
    ("poisson", "log", "c"), ("gamma", "log", "g"), ("negative_binomial", "log", "nb"),
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "link", "y"), CASES)
def test_the_score_is_that_of_statsmodels(name, link, y):
    """Scoring by the record alone, no clip and no noise, ends where GLM ends."""
    import statsmodels.api as sm

    d = table(3000)
    X = sm.add_constant(d[["x", "z"]]).to_numpy()
    offset, weight = 0.1 * d["t"].to_numpy(), d["w"].to_numpy()
    model = sm.GLM(
        d[y].to_numpy(), X, family=sm_family(name, link), offset=offset, var_weights=weight
    )
    wanted = model.fit(tol=1e-14, maxiter=200).params
    beta = np.zeros(3)
    for _ in range(60):
        psi, omega = FAMILIES[name].score(
            d[y].to_numpy(dtype=float), X @ beta + offset, LINKS[link], 0.5
        )
        H = (X * (weight * omega)[:, None]).T @ X
        beta = beta + np.linalg.solve(H, X.T @ (weight * psi))
    assert beta == pytest.approx(wanted, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.canonical])
def test_the_slope_of_a_canonical_link_is_the_variance_bit_for_bit(name):
    family, eta = FAMILIES[name], np.linspace(-29.0, 29.0, 4001)
    link = LINKS[family.canonical]
    assert (family.variance(link.inverse(eta), family.alpha) == link.slope(eta)).all()


@pytest.mark.oracle
@pytest.mark.parametrize("tau", [0.25, 0.9])
def test_the_score_of_a_quantile_vanishes_at_quantreg(tau):
    """No more rows than coefficients decide the sign: the subgradient contains zero."""
    import statsmodels.api as sm

    from dpmodels.scoring.models import Quantile, State

    d = table(2000)
    X = sm.add_constant(d[["x", "z"]]).to_numpy()
    beta = sm.QuantReg(d["y"].to_numpy(), X).fit(q=tau, max_iter=5000, p_tol=1e-10).params
    state = State(np.zeros(3), np.eye(3), 1.0, np.eye(3))
    residual = d["y"].to_numpy() - X @ beta
    psi, omega = Quantile(tau=tau).evaluate(state)(residual, residual)
    root = math.sqrt(tau * (1 - tau))
    assert np.abs(X.T @ psi).max() * root <= 3 * np.abs(X).max() * 1.01
    assert set(np.round(psi * root, 12)) == {round(tau, 12), round(tau - 1, 12)}
    assert omega.min() >= 0


@pytest.fixture
def every_row(monkeypatch):
    """All passes read all rows, whatever the budget: what is left is the method's own error."""
    monkeypatch.setattr("dpmodels.scoring.rows.coin_share", lambda noise, n: 1)


def robust(X, psi, omega):
    G = np.linalg.inv((X * omega[:, None]).T @ X)
    S = X * psi[:, None]
    return np.sqrt(np.diag(G @ (S.T @ S) @ G) * len(X) / (len(X) - X.shape[1]))


@pytest.mark.parametrize(
    ("name", "link", "y", "more"),
    [
        *((n, k, y, {}) for n, k, y in CASES),
        ("poisson", "log", "ct", {"exposure": "t"}),
        ("binomial", "logit", "b", {"weights": "w"}),
        ("poisson", "log", "ct", {"offset": "log(t)", "weights": "w"}),
    ],
)
def test_without_noise_it_is_the_glm_with_robust_errors(
    noiseless, quiet, every_row, name, link, y, more
):
    import statsmodels.api as sm

    d = table()
    options = {"event": 1} if name == "binomial" else {}
    alpha = {"alpha": 0.5} if name == "negative_binomial" else {}
    fit = dp.dp_glm(
        f"{y} ~ x + z", d, eps=4000, delta=1e-6, family=name, link=link, bounds=BOUNDS,
        method="scoring", **options, **alpha, **more,
    )  # fmt: skip
    X = sm.add_constant(d[["x", "z"]]).to_numpy()
    offset = np.log(d["t"].to_numpy()) if {"exposure", "offset"} & set(more) else 0.0
    weight = d["w"].to_numpy() if "weights" in more else np.ones(len(d))
    truth = sm.GLM(
        d[y].to_numpy(), X, family=sm_family(name, link), offset=offset + np.zeros(len(d)),
        var_weights=weight,
    ).fit()  # fmt: skip
    eta = X @ truth.params + offset
    psi, omega = FAMILIES[name].score(d[y].to_numpy(dtype=float), eta, LINKS[link], 0.5)
    hc = robust(X, weight * psi, weight * omega)
    assert (np.abs(fit.params.to_numpy() - truth.params) < 0.05 * hc).all()
    assert fit.bse_sampling.to_numpy() == pytest.approx(hc, rel=0.1)
    assert (fit.bse_privacy < 0.2 * fit.bse_sampling).all()
    assert list(fit.params.index) == ["Intercept", "x", "z"]


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_without_noise_a_quantile_is_quantreg(noiseless, quiet, every_row, tau):
    import statsmodels.api as sm

    d = table()
    fit = dp.dp_quantreg("y ~ x + z", d, tau=tau, eps=4000, delta=1e-6, bounds=BOUNDS)
    X = sm.add_constant(d[["x", "z"]]).to_numpy()
    truth = sm.QuantReg(d["y"].to_numpy(), X).fit(q=tau)
    # one step from a good start: within a tenth of an error, not at the vertex of the program
    assert (np.abs(fit.params.to_numpy() - truth.params) < 0.25 * truth.bse).all()
    assert fit.bse_sampling.to_numpy() == pytest.approx(truth.bse, rel=0.15)


@pytest.mark.parametrize("loss", ["huber", "expectile", "squared", "own"])
def test_without_noise_a_robust_fit_is_its_own_equation(noiseless, quiet, every_row, loss):
    import statsmodels.api as sm

    d = table()
    X, y = sm.add_constant(d[["x", "z"]]).to_numpy(), d["y"].to_numpy()
    k, tau = 0.7, 0.8
    options = {"huber": {"k": 1.4, "scale": 0.5}, "expectile": {"tau": tau}}.get(loss, {})
    given = loss
    if loss == "own":  # log cosh
        given = dp.IndexLoss(
            lambda y, e: np.log(np.cosh(y - e)), lambda y, e: -np.tanh(y - e),
            lambda y, e: 1 / np.cosh(y - e) ** 2, of_residual=True,
        )  # fmt: skip
    fit = dp.dp_mest(given, "y ~ x + z", d, eps=4000, delta=1e-6, bounds=BOUNDS, **options)

    def score(e):
        if loss == "huber":
            return np.clip(e, -k, k), (np.abs(e) <= k) * 1.0
        if loss == "expectile":
            w = np.where(e < 0, 1 - tau, tau)
            return w * e, w
        return (e, np.ones_like(e)) if loss == "squared" else (np.tanh(e), 1 / np.cosh(e) ** 2)

    beta = np.zeros(3)
    for _ in range(50):
        psi, omega = score(y - X @ beta)
        beta = beta + np.linalg.solve((X * omega[:, None]).T @ X, X.T @ psi)
    hc = robust(X, *score(y - X @ beta))
    assert (np.abs(fit.params.to_numpy() - beta) < 0.08 * hc).all()
    assert fit.bse_sampling.to_numpy() == pytest.approx(hc, rel=0.1)


def test_a_users_loss_never_sees_a_row(quiet):
    seen = []

    def spy(y, e):
        seen.append((np.array(y), np.array(e)))
        return -(y - e)

    loss = dp.IndexLoss(lambda y, e: 0 * y, spy, lambda y, e: np.ones_like(y), of_residual=True)
    dp.dp_mest(loss, "y ~ x", table(500), eps=1, delta=1e-6, bounds=BOUNDS, seed=1)
    ((grid, zero),) = seen
    assert len(grid) == 2**15 + 1 and not zero.any()
    assert grid == pytest.approx(np.linspace(-32, 32, 2**15 + 1))


def test_impossible_counts_are_missing_cells(noiseless, quiet):
    d = table()
    bad = d.assign(c=d["c"].astype(float))
    bad.loc[::5, "c"] = -3.0
    bad.loc[1::5, "c"] = np.nan
    call = dict(family="poisson", eps=4000, delta=1e-6, bounds={**BOUNDS, "c": (-5, 40)})
    fit = dp.dp_glm("c ~ x + z", bad, **call)
    kept = d[(np.arange(len(d)) % 5) > 1]
    import statsmodels.api as sm

    X = sm.add_constant(kept[["x", "z"]])
    truth = sm.GLM(kept["c"], X, family=sm.families.Poisson()).fit(cov_type="HC1")
    assert (np.abs(fit.params.to_numpy() - truth.params.to_numpy()) < 0.1 * truth.bse).all()
    assert any("of the rows were dropped" in note for note in fit.notes)


def test_several_quantiles_share_their_passes(quiet):
    d = table(6000)
    fit = dp.dp_quantreg("y ~ x", d, tau=[0.9, 0.1], eps=1, delta=1e-6, bounds=BOUNDS, seed=1)
    assert list(fit.params.index) == [
        "Intercept [tau = 0.1]", "x [tau = 0.1]", "Intercept [tau = 0.9]", "x [tau = 0.9]",
    ]  # fmt: skip
    steps = fit.privacy.steps
    one = dp.plan("y ~ x", n=6000, eps=1, delta=1e-6, bounds=BOUNDS, verb="dp_ols")
    assert math.fsum(s.mechanism.mu**2 for s in steps) == pytest.approx(
        math.fsum(s.mechanism.mu**2 for s in one.steps)
    )
    found = fit.predict(pd.DataFrame({"x": [-1.0, 0.0, 1.0]}))
    assert list(found.columns) == ["tau = 0.1", "tau = 0.9"]
    assert (found["tau = 0.9"] >= found["tau = 0.1"]).all()
    V = fit.vcov().to_numpy()
    assert np.linalg.eigvalsh(V).min() > 0 and V[0, 2] != 0


def test_the_start_of_a_quantile_is_shifted_and_the_kernel_in_units_of_the_density():
    from scipy.special import ndtri

    from dpmodels.scoring.models import Quantile, Start, State

    constant = np.array([1.0, 0.0])
    start = Start(np.zeros(2), 0.25, np.eye(2), 0.0, constant, np.ones(2))
    state = Quantile(tau=0.9).start(start)
    assert state.theta == pytest.approx([0.5 * ndtri(0.9), 0.0])
    assert math.sqrt(state.phi) == pytest.approx(1.25 * 0.5)
    # the kernel integrates to 1 over the residual, in units of f = sqrt(tau (1 - tau)/phi)
    state = State(np.zeros(1), np.eye(1), 4.0, np.eye(1))
    x = np.linspace(-5, 5, 200_001)
    _, omega = Quantile(tau=0.9).evaluate(state)(x, x)
    density = 0.3 / 2.0
    assert omega.mean() * 10 * 2.0 * density == pytest.approx(1.0, rel=1e-4)


def test_scoring_serves_every_model_with_errors_whatever_the_noise(quiet):
    d = table(3000)
    words = {f"v{j}": (0, 1) for j in range(30)}
    rng = np.random.default_rng(0)
    wide = d.assign(**{k: rng.integers(0, 2, len(d)) for k in words})
    call = dict(event=1, eps=0.2, delta=1e-6, seed=1)
    call["bounds"] = BOUNDS
    formula = "b ~ x + z + " + " + ".join(words)
    fit = dp.dp_glm(formula, wide, **{**call, "bounds": {**BOUNDS, **words}})
    assert fit.method == "scoring"
    plan = dp.plan(
        formula, n=3000, eps=0.2, delta=1e-6, verb="dp_glm", event=1,
        bounds={**BOUNDS, **words, "b": (0, 1)},
    )  # fmt: skip
    assert "is too small for this model" in plan.advice[0] and "forecast" in plan.forecast
    assert dp.dp_glm("b ~ x + z", wide, **{**call, "eps": 2.0}).method == "scoring"
    assert dp.dp_glm("b ~ x", d, inference=False, **{**call, "eps": 2.0}).method == "objpert"
    plan = dp.plan(
        "b ~ x + z", n=3000, eps=2.0, delta=1e-6, verb="dp_glm", event=1,
        bounds={**BOUNDS, "b": (0, 1)},
    )  # fmt: skip
    assert plan.request.method.name == "scoring" and set(plan.expected_se) == {
        "Intercept", "x", "z"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda d: dp.dp_glm("c ~ x", d, family="poison", eps=1, delta=1e-6), "poisson"),
        (lambda d: dp.dp_glm("c ~ x", d, family="poisson", link="logit", eps=1, delta=1e-6), "log"),
        (lambda d: dp.dp_glm("b ~ x", d, link="probitt", eps=1, delta=1e-6), "probit"),
        (lambda d: dp.dp_glm("c ~ x", d, family="poisson", alpha=1.0, eps=1, delta=1e-6,
                             method="scoring"), "negative_binomial"),
        (lambda d: dp.dp_glm("b ~ x", d, event=1, exposure="t", eps=1, delta=1e-6), "log link"),
        (lambda d: dp.dp_glm("c ~ x", d, family="poisson", offset=d["t"], eps=1, delta=1e-6),
         "must be a string"),
        (lambda d: dp.dp_quantreg("y ~ x", d, tau=1.0, eps=1, delta=1e-6), "between 0 and 1"),
        (lambda d: dp.dp_quantreg("y ~ x", d, tau=[0.5, 0.5], eps=1, delta=1e-6), "different"),
        (lambda d: dp.dp_quantreg("y ~ x", d, h=0.1, eps=1, delta=1e-6), "'drcl'"),
        (lambda d: dp.dp_mest("hubber", "y ~ x", d, eps=1, delta=1e-6), "huber"),
        (lambda d: dp.dp_mest("expectile", "y ~ x", d, k=1.0, eps=1, delta=1e-6), "huber"),
        (lambda d: dp.dp_mest(lambda y, X, b: y, "y ~ x", d, eps=1, delta=1e-6), "drcl"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_type(call, said):
    with pytest.raises(ValueError, match=said):
        call(table(50))


def test_families_of_statsmodels_serve_as_names():
    import statsmodels.api as sm

    probit = sm.families.Binomial(sm.families.links.Probit())
    assert family_of(probit).name == "binomial"
    assert link_of(family_of(probit), None, probit).name == "probit"
    assert family_of("nbinom2").name == family_of("negbin").name == "negative_binomial"


@pytest.mark.parametrize("kind", ["separated", "zeros", "constant"])
def test_hopeless_tables_give_wide_intervals_not_failures(quiet, kind):
    d = table(4000)
    if kind == "separated":
        d["b"] = (d["x"] > 0).astype(int)
    if kind == "zeros":
        d["c"] = 0
    if kind == "constant":
        d["x"] = 0.5
    call = dict(eps=1, delta=1e-6, bounds=BOUNDS, seed=3)
    for fit in (
        dp.dp_glm("b ~ x + z", d, event=1, **call),
        dp.dp_glm("c ~ x + z", d, family="poisson", **call),
        dp.dp_quantreg("y ~ x + z", d, **call),
    ):
        assert fit.released
        assert np.isfinite(fit.params).all() and (fit.bse > 0).all()


@pytest.mark.parametrize(("name", "link", "y"), CASES)
def test_fit_statistics_are_those_of_statsmodels(noiseless, quiet, every_row, name, link, y):
    import statsmodels.api as sm

    d = table(4000)
    more = {"event": 1} if name == "binomial" else {}
    more |= {"alpha": 0.5} if name == "negative_binomial" else {}
    fit = dp.dp_glm(
        f"{y} ~ x + z", d, eps=4000, delta=1e-6, family=name, link=link, bounds=BOUNDS,
        method="scoring", fit_stats=True, **more,
    )  # fmt: skip
    X = sm.add_constant(d[["x", "z"]]).to_numpy()
    truth = sm.GLM(d[y].to_numpy(), X, family=sm_family(name, link)).fit()
    stats = fit.stats
    assert stats["null_deviance"] == pytest.approx(truth.null_deviance, rel=2e-3)
    # a row counts up to twelve dispersions
    assert stats["deviance"] == pytest.approx(truth.deviance, rel=4e-3)
    ratio = 1 - truth.deviance / truth.null_deviance
    assert stats["pseudo_r2"] == pytest.approx(ratio, abs=4e-3)
    if name == "binomial":
        assert stats["aic"] == pytest.approx(truth.aic, rel=2e-3)
        assert "Null deviance" in str(fit.summary(full=True))
        assert "Not released by this method: residuals" in " ".join(str(fit.summary(full=True)).split())


def test_three_numbers_of_a_row_stay_in_the_unit_box():
    """Hence the L2 sensitivity sqrt 3, under either relation, of the weighted count with them."""
    from dpmodels.core.release import Release
    from dpmodels.core.sets import Counted
    from dpmodels.proof.prove import sensitivity
    from dpmodels.proof.sets import STEPS, Box
    from dpmodels.proof.statistics import Sum
    from dpmodels.scoring.deviance import Deviance
    from dpmodels.scoring.passes import Centre
    from dpmodels.scoring.rules import COUNT_WEIGHT
    from dpmodels.sums.scaling import UnitScale

    most = sensitivity(Sum(Box(3, radius=0.5), count=COUNT_WEIGHT, count_first=True), "replace", "l2")
    assert most == pytest.approx(math.sqrt(3), rel=1e-15)
    centre = Centre(
        UnitScale(np.ones(3), np.zeros(3), False), np.eye(2), np.ones(2), np.eye(2), 1.0,
        of_residual=False,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for name, link in (("poisson", "log"), ("binomial", "logit"), ("gamma", "log")):
        family = FAMILIES[name]
        one = Deviance.of(family, LINKS[link], 0.0, 2.0, centre, (0.0, 20.0))
        block = rng.normal(size=(3, 500)) * 10.0 ** rng.uniform(-2, 4, 500)
        block[-1] = rng.choice([0, 1, 3, 20, 1e6, -1, 0.5, np.nan, np.inf], 500)
        into = Counted(3, COUNT_WEIGHT)
        release = Release("", into, one.row_of(), None)
        alone = [added(release, [block[:, [j]].copy()]) for j in range(500)]
        rows = np.array(alone, dtype=float).T
        assert np.abs(rows[1:]).max() <= STEPS / 2 and set(rows[0]) == {0.0, STEPS}
        assert not rows[:, ~family.valid(block[-1])].any()
        corners = np.array(np.meshgrid(*[[-9.0, 9.0]] * 3)).reshape(3, -1)
        rows = np.hstack([rows, *(added(Release("", into, lambda z: z, None), [c[:, None]]).astype(float)[:, None] for c in corners.T), np.zeros((4, 1))])
        rows *= [[COUNT_WEIGHT], [1], [1], [1]]
        gaps = np.linalg.norm(rows[:, :, None] - rows[:, None, -20:], axis=0)
        assert gaps.max() == pytest.approx(most * STEPS) and gaps.max() <= most * STEPS + 1e-6


@pytest.mark.statistical
def test_errors_of_fit_statistics_are_those_of_their_noise(quiet):
    """The noise of the row count was left out of that of the null deviance: 3 for 164.

    Seeds 0-59: a standard deviation leaves +-35 % with probability 2e-4; with 3000 rows missing
    the count is far from n. An interval of 95 % covers below 50 of 60 with probability 1e-4.
    """
    d = table(6000)
    d.loc[:2999, "z"] = np.nan
    found = []
    for seed in range(60):
        fit = dp.dp_glm("b ~ x + z", d, eps=1, delta=1e-6, event=1, bounds=BOUNDS,
                        method="scoring", fit_stats=True, seed=seed)  # fmt: skip
        found.append(fit.stats)
    stats = {k: np.array([f[k] for f in found]) for k in found[0]}
    import statsmodels.api as sm

    whole = d.dropna()
    X = sm.add_constant(whole[["x", "z"]])
    truth = sm.GLM(whole["b"], X, family=sm.families.Binomial()).fit()
    said, seen = stats["null_deviance_se"].mean(), stats["null_deviance"].std()
    assert 0.65 < seen / said < 1.35
    assert abs(stats["null_deviance"].mean() - truth.null_deviance) < 4 * said / 60**0.5
    share = 1 - truth.deviance / truth.null_deviance
    inside = (stats["pseudo_r2_low"] <= share) & (share <= stats["pseudo_r2_high"])
    assert inside.sum() >= 50 and (stats["pseudo_r2"] >= 0).all()


def test_an_offset_has_no_null_deviance(noiseless, quiet):
    """It was that of a model without the offset: a pseudo R-squared of .541 for .050."""
    d = table(4000)
    call = dict(eps=400, delta=1e-6, family="poisson", bounds=BOUNDS, method="scoring")
    stats = dp.dp_glm("ct ~ x + z", d, exposure="t", fit_stats=True, **call).stats
    assert "deviance" in stats and not {"null_deviance", "pseudo_r2"} & set(stats)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (dict(family="gaussian"), "dp_ols"),
        (dict(family="poisson", weights="w"), "counts every row once"),
        (dict(family="poisson", bounds={"x": (-1, 1)}), "declared response"),
    ],
)
def test_fit_statistics_that_cannot_be_had(call, said):
    call = {"bounds": BOUNDS, **call}
    with pytest.raises(ValueError, match=said):
        dp.dp_glm("c ~ x", table(50), eps=1, delta=1e-6, fit_stats=True, method="scoring", **call)


@pytest.mark.parametrize(
    ("verb", "formula", "more"),
    [
        ("dp_glm", "b ~ x + z", {"link": "probit"}),
        ("dp_glm", "ct ~ x + z", {"family": "poisson", "exposure": "t"}),
        ("dp_glm", "nb ~ x + z", {"family": "negative_binomial", "weights": "w"}),
        ("dp_quantreg", "y ~ x", {"tau": [0.2, 0.8]}),
        ("dp_mest", "y ~ x", {"loss": "huber"}),
    ],
)
def test_plans_foretell_errors_and_what_would_reach_them(verb, formula, more):
    """Within a factor of three of what a fit of this table reports."""
    d = table()
    bounds = {**BOUNDS, "b": (0, 1), "y": (-1.5, 2)}  # the spread a plan assumes
    more = {**more, "event": 1} if more.get("link") else more
    call = dict(eps=1, delta=1e-6, bounds=bounds)
    plan = dp.plan(formula, n=len(d), verb=verb, **call, **more)
    name, expected = list(plan.expected_se.items())[-1]
    advice = dp.plan(formula, n=len(d), verb=verb, want={name: expected / 2}, **call, **more).advice
    assert advice[-1].startswith(f"{name}: the expected privacy se")
    rest = {k: v for k, v in more.items() if k != "loss"}
    first = ("huber",) if verb == "dp_mest" else ()
    with pytest.warns(dp.errors.NotPrivateWarning):
        fit = getattr(dp, verb)(*first, formula, d, seed=1, **call, **rest)
    assert 1 / 3 < fit.bse_privacy[name] / expected < 3


@pytest.mark.parametrize(("family", "true"), [("gamma", 0.5), ("quasipoisson", 1.55)])
def test_the_dispersion_is_of_complete_rows(quiet, family, true):
    """With half of the rows empty that of a gamma was .36 for .5; with weights .73 (of ``w^2``)."""
    rng = np.random.default_rng(0)
    n = 40_000
    d = pd.DataFrame({"x": rng.uniform(-1, 1, n), "z": rng.uniform(-1, 1, n)})
    mean = np.exp(0.5 + 0.3 * d["x"])
    gamma = rng.gamma(2.0, mean / 2.0).clip(0, 20)
    d["y"] = gamma if family == "gamma" else rng.negative_binomial(3, 3 / (3 + mean)).clip(0, 20)
    d["w"] = np.where(rng.random(n) < 0.5, 1.0, 2.0)
    bounds = {"x": (-1, 1), "z": (-1, 1), "y": (0, 20), "w": (0, 2)}
    call = dict(eps=20, delta=1e-6, family=family, bounds=bounds, seed=1)
    whole = dp.dp_glm("y ~ x + z", d, **call).stats["dispersion"]
    assert whole == pytest.approx(true, rel=0.12)
    assert "dispersion" not in dp.dp_glm("y ~ x + z", d, weights="w", **call).stats
    d.loc[rng.random(n) < 0.5, "z"] = np.nan
    assert dp.dp_glm("y ~ x + z", d, **call).stats["dispersion"] == pytest.approx(true, rel=0.15)
