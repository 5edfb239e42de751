"""Average effects and adjusted means, against statsmodels and by their definitions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpmodels as dp
from dpmodels.errors import NotPrivateWarning, RequestError
from dpmodels.results.contrasts import ADJUST

smf = pytest.importorskip("statsmodels.formula.api")
pytestmark = pytest.mark.usefixtures("quiet")
SCHEMA = dp.Schema(
    x=dp.Real(-1, 1), z=dp.Real(0, 2), y=dp.Real(-5, 7), g=dp.Levels(["a", "b", "c"]),
    e=dp.Binary(), c=dp.Count(upper=30),
)  # fmt: skip
EXACT = {"eps": 1e9, "delta": 1e-6, "schema": SCHEMA}


def table(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({
        "x": rng.uniform(-1, 1, n), "z": rng.uniform(0, 2, n), "g": rng.choice(list("abc"), n),
    })  # fmt: skip
    d["y"] = 1 + d["x"] * d["z"] + 0.5 * (d["g"] == "b") + rng.normal(0, 0.5, n)
    d["e"] = (rng.uniform(size=n) < 1 / (1 + np.exp(1 - d["x"] - 0.4 * d["z"]))).astype(int)
    d["c"] = rng.poisson(np.exp(0.3 + 0.6 * d["x"]))
    return d


@pytest.fixture(scope="module")
def rows():
    return table(800, 9)[["x", "z", "g"]]


@pytest.fixture
def logit(noiseless):
    return dp.dp_glm("e ~ x + z + C(g)", table(), family="binomial", **EXACT)


def of(found, name):
    return found.tidy().set_index("term").loc[name]


def test_average_slopes_are_those_of_statsmodels(logit, rows):
    """Slopes and delta-method errors, over the same rows; the fits differ in the last digits."""
    exact = smf.logit("e ~ x + z + C(g)", table()).fit(disp=0)
    theirs = exact.get_margeff(at="overall").summary_frame()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        ours = logit.avg_slopes(table()[["x", "z", "g"]])
    for name in ("x", "z"):
        assert of(ours, name)["estimate"] == pytest.approx(theirs.loc[name, "dy/dx"], rel=0.02)
    # the delta method by its definition, with our covariance: a numeric gradient
    b, h = logit.params.to_numpy(), 1e-5
    X = np.asarray(logit.design.matrix(rows))
    at = list(logit.params.index).index("x")

    def slope(b):
        p = 1 / (1 + np.exp(-X @ b))
        return np.mean(b[at] * p * (1 - p))

    gradient = np.array([(slope(b + h * e) - slope(b - h * e)) / (2 * h) for e in np.eye(len(b))])
    one = logit.avg_slopes(rows, variables="x")
    assert one.effect[0] == pytest.approx(slope(b), rel=1e-6)
    assert one.sd[0] == pytest.approx(np.sqrt(gradient @ logit.vcov() @ gradient), rel=1e-4)
    assert one.bias[0] == pytest.approx(logit._record.estimate.bias_of(gradient[None])[0], rel=1e-3)


def test_slopes_of_a_linear_predictor_need_no_rows(noiseless):
    d = table()
    plain = dp.dp_ols("y ~ x + C(g)", d, **EXACT)
    found = plain.avg_slopes()
    assert of(found, "x")["estimate"] == pytest.approx(plain.params["x"], rel=1e-6)
    assert of(found, "x")["std_error"] == pytest.approx(plain.errors().loc["x", "error"], rel=1e-6)
    assert of(found, "g: b - a")["estimate"] == pytest.approx(plain.params["C(g)[T.b]"], rel=1e-9)
    both = dp.dp_ols("y ~ x * z", d, **EXACT)
    with pytest.raises(RequestError, match=r"newdata=frame with x, z.*dp_mean\('x \+ z ~ 1'"):
        both.avg_slopes()
    means = dp.dp_mean("x + z ~ 1", d, **EXACT)
    at = both.avg_slopes(means, variables="x")
    b, zbar = both.params, means.params["z"]
    assert at.effect[0] == pytest.approx(b["x"] + b["x:z"] * zbar, rel=1e-6)
    assert "At released means" in str(at)
    V = both.vcov().loc[["x", "x:z"], ["x", "x:z"]]
    w = np.array([1.0, zbar])
    # the error of the mean is in it: the slope moves with z by the interaction
    more = (b["x:z"] * means.bse["z"]) ** 2
    assert at.sd[0] == pytest.approx(np.sqrt(w @ V @ w + more), rel=1e-6)
    m = dp.dp_moments("y + x + z", d, **EXACT)
    assert both.avg_slopes(m, variables="x").effect == pytest.approx(at.effect, rel=1e-3)


def test_predictions_and_comparisons(logit, rows):
    def mean(new, outside="clip"):  # by the estimate: predict is by the shrunk coefficients
        X = np.asarray(logit.design.matrix(new, outside=outside))
        return pd.Series(1 / (1 + np.exp(-(X @ logit.params.to_numpy()))), index=new.index)

    p = mean(rows)
    assert np.asarray(logit.predict(rows)) == pytest.approx(np.asarray(p), abs=0.01)
    found = logit.avg_predictions(rows)
    assert found.effect[0] == pytest.approx(p.mean(), rel=1e-9)
    groups = logit.avg_predictions(rows, by="g").tidy().set_index("term")["estimate"]
    for level in "abc":
        assert groups[f"g = {level}"] == pytest.approx(p[rows["g"] == level].mean(), rel=1e-9)
    held = logit.avg_predictions(rows, variables={"x": [-1, 1]})
    for value, label in ((-1, "x = -1"), (1, "x = 1")):
        expected = mean(rows.assign(x=value)).mean()
        assert of(held, label)["estimate"] == pytest.approx(expected, rel=1e-9)
    change = logit.avg_comparisons({"x": (-1, 1)}, rows)
    assert change.effect[0] == pytest.approx(np.diff(held.effect)[0], rel=1e-9)
    assert held.pairs(adjust="none").effect[0] == pytest.approx(-change.effect[0], rel=1e-9)
    assert held.pairs(adjust="none").sd[0] == pytest.approx(change.sd[0], rel=1e-6)
    more = logit.avg_comparisons({"x": 0.5}, rows)
    expected = (mean(rows.assign(x=rows["x"] + 0.5), outside="extrapolate") - p).mean()
    assert more.effect[0] == pytest.approx(expected, rel=1e-9)
    levels = logit.avg_predictions(rows, variables="g")
    assert list(levels.labels) == ["g = a", "g = b", "g = c"]


def test_effects_of_counts_and_quantiles(noiseless, rows):
    d = table()
    counts = dp.dp_glm("c ~ x", d, family="poisson", **EXACT)
    slope = counts.avg_slopes(rows).effect[0]
    assert slope == pytest.approx(counts.params["x"] * counts.predict(rows).mean(), rel=1e-4)
    several = dp.dp_quantreg("y ~ x + C(g)", d, tau=[0.25, 0.75], **EXACT)
    found = several.avg_slopes(variables="x").tidy().set_index("term")["estimate"]
    for tau in (0.25, 0.75):
        name = f"x, tau = {tau}"
        assert found[name] == pytest.approx(several.params[f"x [tau = {tau}]"], rel=1e-5)
    means = several.emmeans("g", at={"x": 0})
    assert len(means.effect) == 6 and len(means.pairs().effect) == 6  # three within each quantile


def test_private_rows_are_not_averaged_over_in_silence(logit):
    with pytest.warns(NotPrivateWarning, match="uncharged release"):
        logit.avg_slopes(table()[["x", "z", "g"]])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda f, d: f.avg_slopes(d, variables="xx"), "Did you mean 'x'"),
        (lambda f, d: f.avg_slopes(d.drop(columns="z")), "no column 'z'"),
        (lambda f, d: f.avg_slopes(d, by="h"), "by='h'"),
        (lambda f, d: f.avg_comparisons({"x": "more"}, d), r"from and to, \{'x': \(20, 60\)\}"),
        (lambda f, d: f.avg_predictions(d, variables="x"), r"variables=\{'x': \[...\]\}"),
        (lambda f, d: f.avg_predictions(), "released means"),
        (lambda f, d: f.avg_predictions(d.assign(g="zz")), "no row of newdata"),
        (lambda f, d: f.emmeans("gg"), "Did you mean 'g'"),
        (lambda f, d: f.emmeans("g", adjust="holmm"), "Did you mean 'holm'"),
        (lambda f, d: f.emmeans("g", adjust="tukey"), r"\.pairs\(\)"),
        (lambda f, d: f.emmeans("y ~ g"), "'~ a | b'"),
        (lambda f, d: f.emmeans("g", over=3), "dp.dp_mean"),
    ],
)
def test_bad_requests_say_what_to_type(logit, rows, call, says):
    with pytest.raises(RequestError, match=says):
        call(logit, rows)


def test_means_by_groups_and_formulas(noiseless):
    d = table()
    fit = dp.dp_ols("y ~ x * C(g)", d, **EXACT)
    one = fit.emmeans("~ x | g", at={"x": [0, 1]})
    two = fit.emmeans("x", by="g", at={"x": [0, 1]})
    assert one.labels == two.labels and (one.effect == two.effect).all()
    assert one.labels[0] == "x = 0 | g = a"
    pairs = one.pairs()
    assert pairs.labels == tuple(f"x = 0 - x = 1 | g = {g}" for g in "abc")
    at = {g: (fit.params["x"] if g == "a" else fit.params["x"] + fit.params[f"x:C(g)[T.{g}]"])
          for g in "abc"}  # fmt: skip
    assert pairs.effect == pytest.approx([-at[g] for g in "abc"], rel=1e-6)
    same = fit.emmeans("pairwise ~ g", at={"x": 0})
    assert same.labels == fit.emmeans("g", at={"x": 0}).pairs().labels
    means = dp.dp_mean("x + z ~ 1", d, **EXACT)
    held = fit.emmeans("g", over=means)
    expected = fit.emmeans("g", at={"x": float(means.params["x"])})
    assert held.effect == pytest.approx(expected.effect, rel=1e-9) and "over=" in str(held)
    assert fit.emmeans("g", over={"x": 0.25}).effect == pytest.approx(
        fit.emmeans("g", at={"x": 0.25}).effect
    )


def test_adjustments_are_those_of_scipy_and_statsmodels(noiseless):
    from statsmodels.stats.multitest import multipletests

    fit = dp.dp_ols("y ~ C(g)", table(300), **EXACT)
    plain = fit.emmeans("g").pairs(adjust="none")
    for ours, theirs in (("holm", "holm"), ("bonferroni", "bonferroni")):
        found = fit.emmeans("g").pairs(adjust=ours)
        expected = multipletests(plain.pvalue, method=theirs)[1]
        assert found.pvalue == pytest.approx(expected, rel=1e-9)
        wide = plain.conf_int(1 - 0.05 / 3)
        assert np.column_stack([found.low, found.high]) == pytest.approx(wide, rel=1e-9)
    tukey = fit.emmeans("g").pairs()
    z = -stats.norm.ppf(plain.pvalue / 2)
    expected = stats.studentized_range.sf(np.sqrt(2) * z, 3, np.inf)
    assert tukey.pvalue == pytest.approx(expected, rel=1e-6)
    assert (tukey.pvalue >= plain.pvalue).all() and (tukey.low <= plain.low).all()
    assert "Tukey" in str(tukey) and "none" in ADJUST


@pytest.mark.statistical
def test_intervals_of_average_slopes_cover():
    """120 logits of 4000 rows at eps = 2: of 120 intervals at least 107 cover.

    False alarm: P(Bin(120, .95) < 107) = .003; seeds fixed.
    """
    rows = table(400, 77)[["x", "z", "g"]]
    p = 1 / (1 + np.exp(1 - rows["x"] - 0.4 * rows["z"]))
    truth, hits = float(np.mean(p * (1 - p))), 0
    for seed in range(120):
        fit = dp.dp_glm("e ~ x + z", table(4000, 1000 + seed), family="binomial", eps=2,
                        delta=1e-6, schema=SCHEMA, seed=seed)  # fmt: skip
        found = fit.avg_slopes(rows, variables="x")
        hits += found.low[0] <= truth <= found.high[0]
    assert hits >= 107


def test_pictures(logit, rows):
    plt = pytest.importorskip("matplotlib.pyplot")
    for found in (logit.avg_slopes(rows), logit.emmeans("g"), logit.emmeans("g").pairs()):
        ax = found.plot()
        assert [t.get_text() for t in ax.get_yticklabels()] == list(found.labels)
        plt.close("all")


def test_an_average_over_private_rows_is_charged():
    d = table(3000)
    call = {"eps": 2, "delta": 1e-6, "schema": SCHEMA, "seed": 1}
    fit = dp.dp_ols("y ~ x * z", d, **call)
    budget = dp.Budget(1, 1e-5)
    found = fit.avg_slopes(d, variables="x", eps=0.5, delta=1e-6, budget=budget)
    assert 0.4 < budget.eps_spent(1e-6) < 0.6
    zbar, b = d["z"].mean(), fit.params
    assert abs(found.effect[0] - (b["x"] + b["x:z"] * zbar)) < 0.1
    assert "At released means" in str(found)
    for options, says in (({"eps": 1}, "delta="), ({"budget": budget}, "eps=")):
        with pytest.raises(RequestError, match=says):
            fit.avg_slopes(d, **options)
    logit = dp.dp_glm("e ~ x", d, family="binomial", **call)
    with pytest.raises(RequestError, match="not a function of released means"):
        logit.avg_slopes(d, eps=1, delta=1e-6)
    assert budget.eps_spent(1e-6) < 0.6  # nothing of these was charged
