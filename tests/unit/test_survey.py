"""``dp.Survey``: the published formulas without noise, domains, rates, pairs, refusals.

The small design of two strata has self-contained numbers (linearisation with replacement). The
copies of it below make it large enough for a fit: K copies, each with strata of its own, have the
same estimates and errors over the root of K.
"""

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels import _testing
from dpmodels.errors import DPModelsError, RequestError
from dpmodels.scoring import cluster_plan as cluster_rules
from dpmodels.survey import Frame, Survey

STRATUM = np.repeat([1, 2], 6)
PSU = np.array([1, 1, 1, 2, 2, 2, 1, 1, 2, 2, 2, 2])
W = np.array([2, 2, 4, 3, 3, 1, 5, 5, 4, 4, 6, 2], dtype=float)
Y = np.array([3, 5, 4, 8, 7, 9, 1, 2, 6, 5, 4, 7], dtype=float)
X = np.array([1, 2, 2, 4, 3, 5, 0, 1, 3, 2, 2, 4], dtype=float)
K = np.array(list("abcabcaabbcc"))
D = np.array([1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0], dtype=float)
COPIES = 200
LEVELS = [f"{c}.{h}" for c in range(COPIES) for h in (1, 2)]


def totals(S, frame, labels, strata):
    """J of the production sums: no noise, nothing clipped."""
    cluster, factor = frame.placed(labels.astype(float), strata.astype(float))
    S = S * factor[:, None]
    alone = S[cluster == 0.0]
    J = alone.T @ alone
    for k in np.unique(cluster[cluster > 0.0]):
        one = S[cluster == k].sum(axis=0)
        J = J + np.outer(one, one)
    return J


def linearised(Z, theta_map, survey, labelled=True, psu=PSU):
    frame = Frame(survey, (1, 2), labelled)
    J = totals(Z, frame, psu, STRATUM)
    return np.sqrt(np.diag(theta_map @ J @ theta_map.T))


PAIRS = Survey(weights="w", strata="h", psu="p", psus={1: 2, 2: 2})


def test_pairs_give_the_published_numbers():
    """Two units a stratum: sum d d' is n/(n - 1) sum (S - mean)(S - mean)'."""
    one = np.eye(1)
    mean = (W * Y).sum() / W.sum()
    assert mean == pytest.approx(4.463415, abs=5e-7)
    z = (W * (Y - mean))[:, None] / W.sum()
    assert linearised(z, one, PAIRS)[0] == pytest.approx(1.174263, abs=5e-7)
    fpc = Survey(weights="w", strata="h", psu="p", psus={1: 2, 2: 2}, fpc={1: 4, 2: 8})
    assert linearised(z, one, fpc)[0] == pytest.approx(0.964375, abs=5e-7)
    assert (W * Y).sum() == 183
    assert linearised((W * Y)[:, None], one, PAIRS)[0] == pytest.approx(70.519501, abs=5e-6)
    ratio = (W * Y).sum() / (W * X).sum()
    assert ratio == pytest.approx(2.152941, abs=5e-7)
    z = (W * (Y - ratio * X))[:, None] / (W * X).sum()
    assert linearised(z, one, PAIRS)[0] == pytest.approx(0.108134, abs=5e-7)
    domain = (W * D * Y).sum() / (W * D).sum()
    assert domain == pytest.approx(4.52, abs=5e-7)
    z = (W * D * (Y - domain))[:, None] / (W * D).sum()
    assert linearised(z, one, PAIRS)[0] == pytest.approx(1.010949, abs=5e-7)
    A = np.column_stack([np.ones(12), X])
    H = np.linalg.inv((A * W[:, None]).T @ A)
    theta = H @ ((A * W[:, None]).T @ Y)
    assert theta == pytest.approx([0.876845, 1.729992], abs=5e-7)
    S = A * (W * (Y - A @ theta))[:, None]
    assert linearised(S, H, PAIRS) == pytest.approx([0.211417, 0.098168], abs=5e-7)
    assert 12 * (W**2).sum() / W.sum() ** 2 == pytest.approx(1.177870, abs=5e-7)


def test_uncentred_sums_with_their_factor():
    """Strata ignored: 4/(4 - 1) sum S S' over the four units (the sums add up to 0)."""
    mean = (W * Y).sum() / W.sum()
    z = (W * (Y - mean))[:, None] / W.sum()
    plain = Survey(weights="w", psu="p", psus=4)
    J = totals(z, Frame(plain), PSU + 2 * STRATUM, np.ones(12))
    assert math.sqrt(J[0, 0] * 4 / 3) == pytest.approx(1.098669, abs=5e-7)
    rows = totals(z, Frame(Survey(weights="w", psu="p", psus=12)), np.arange(12) + 1, np.ones(12))
    assert math.sqrt(rows[0, 0] * 12 / 11) == pytest.approx(0.689070, abs=5e-7)


@pytest.fixture(scope="module")
def copies():
    copy = np.repeat(np.arange(COPIES), 12)
    return pd.DataFrame({
        "h": [f"{c}.{h}" for c, h in zip(copy, np.tile(STRATUM, COPIES), strict=True)],
        "p": np.tile(PSU, COPIES), "w": np.tile(W, COPIES), "y": np.tile(Y, COPIES),
        "x": np.tile(X, COPIES), "d": np.tile(D, COPIES), "k": np.tile(K, COPIES),
        "v": [f"unit {p}" for p in np.tile(PSU, COPIES)],
    })  # fmt: skip


SCHEMA = dp.Schema(
    h=dp.Levels(LEVELS), p=dp.Count(2), w=dp.Real(0, 6), y=dp.Real(0, 10), x=dp.Real(0, 5),
    d=dp.Binary(), k=dp.Levels(list("abc")),
)  # fmt: skip


def fitted(verb, formula, data, survey, **options):
    with warnings.catch_warnings(), _testing.noise_source(_testing.ZeroNoise()):
        warnings.simplefilter("ignore")
        return getattr(dp, verb)(
            formula, data, design=survey, **{"eps": 1e5, "delta": 1e-6, "schema": SCHEMA, **options}
        )


OF_COPIES = dp.Survey(weights="w", strata="h", psu="p", psus=dict.fromkeys(LEVELS, 2))


def test_the_whole_pipeline_gives_them_too(copies):
    root = math.sqrt(COPIES)
    fit = fitted("dp_mean", "y ~ 1", copies, OF_COPIES)
    assert fit.params["y"] == pytest.approx(4.463415, abs=2e-4)
    assert fit.bse_sampling["y"] * root == pytest.approx(1.174263, rel=0.01)
    fit = fitted("dp_ols", "y ~ x", copies, OF_COPIES)
    assert fit.params.to_numpy() == pytest.approx([0.876845, 1.729992], rel=1e-3)
    # svyglm; the design effect of the intercept is below the floor of .7, which is kept
    assert fit.bse_sampling["x"] * root == pytest.approx(0.098168, rel=0.25)
    fit = fitted("dp_ols", "y ~ 1", copies, OF_COPIES)
    assert fit.params["Intercept"] == pytest.approx(4.463415, abs=2e-3)
    assert fit.bse_sampling["Intercept"] * root == pytest.approx(1.174263, rel=0.02)
    said = " ".join(fit.summary(full=True).as_text().split())
    assert f"{2 * COPIES * 2} clusters (declared); t distribution with {2 * COPIES} degrees" in said
    assert "One row is protected, not one p" in said


def test_rates_shorten_the_scores(copies):
    half = dict.fromkeys(LEVELS, 0.5)
    fpc = dp.Survey(weights="w", strata="h", psu="p", psus=dict.fromkeys(LEVELS, 2), fpc=half)
    plain = fitted("dp_mean", "y ~ 1", copies, OF_COPIES)
    fit = fitted("dp_mean", "y ~ 1", copies, fpc)
    assert fit.bse_sampling["y"] == pytest.approx(
        plain.bse_sampling["y"] * math.sqrt(0.5), rel=0.02
    )


#: With labels that are text: means of strata are taken out by totals.
BY_TOTALS = dp.Survey(weights="w", strata="h", psu="v", psus=dict.fromkeys(LEVELS, 2))


def test_totals_take_the_means_of_strata_out(copies):
    plan = dp.plan("y ~ 1", n=2400, eps=1e7, delta=1e-6, schema=SCHEMA, design=BY_TOTALS,
                   verb="dp_mean")  # fmt: skip
    assert plan.detail.clusters.frame.totals
    assert "stratum totals" in [step.name for step in plan.guarantee.steps]
    fit = fitted("dp_mean", "y ~ 1", copies, BY_TOTALS, eps=1e7)
    assert fit.bse_sampling["y"] * math.sqrt(COPIES) == pytest.approx(1.174263, rel=0.01)
    assert fit._record.estimate.use_t == 2 * COPIES  # 800 units less 400 strata
    usual = dp.plan("y ~ 1", n=2400, eps=1, delta=1e-6, schema=SCHEMA, design=BY_TOTALS,
                    verb="dp_mean")  # fmt: skip
    assert not usual.detail.clusters.totals  # two units a stratum: their noise would be all


def wanted(k):
    """Share, total and mean of a cell with their errors, by pairs, of one copy."""
    own = W * (k == K)
    p, m = own.sum() / W.sum(), (own * Y).sum() / own.sum()
    z = np.column_stack([own - p * W, own, own * (Y - m)])
    return (p, own.sum(), m), linearised(z, np.eye(3), PAIRS) / [W.sum(), 1.0, own.sum()]


def test_tables_have_errors_by_psu(copies):
    """Shares, totals and means of groups as svymean, svytotal, svyby; the mean of all 1.174263."""
    fit = fitted("dp_table", "y ~ k", copies, OF_COPIES, eps=1e7)
    frame, root = fit.tidy().set_index("term"), math.sqrt(COPIES)
    assert frame.std_error_sampling["mean(y)"] * root == pytest.approx(1.174263, rel=0.01)
    for k in "abc":
        (share, total, mean), errors = wanted(k)
        one, group = frame.loc[f"n[k={k}]"], frame.loc[f"mean(y)[k={k}]"]
        assert one.share == pytest.approx(share, rel=1e-4)
        assert one.estimate == pytest.approx(total * COPIES, rel=1e-4)
        assert group.estimate == pytest.approx(mean, rel=1e-4)
        assert one.share_std_error * root == pytest.approx(errors[0], rel=0.01)
        assert one.std_error_sampling / root == pytest.approx(errors[1], rel=0.01)
        if k != "c":  # whose design effect is below the floor of .7
            assert group.std_error_sampling * root == pytest.approx(errors[2], rel=0.02)
    text = " ".join(fit.summary(full=True).as_text().split())
    assert "800 PSUs (declared), 400 degrees of freedom; units compared in pairs" in text
    assert "One row is protected, not one p" in text
    assert "up to twice too large for uncorrelated rows" in text
    assert fit._record.estimate.stats["deff_clusters"] > 1.2


def test_margins_of_a_crosstab_are_sums_of_its_cells(copies):
    cross = fitted("dp_table", "~ k * d", copies, OF_COPIES, eps=1e7).tidy().set_index("term")
    one = fitted("dp_table", "~ k", copies, OF_COPIES, eps=1e7).tidy().set_index("term")
    for k in "ab":  # of c cells of two units are clipped
        term = f"n[k={k}]"
        assert cross.share_std_error[term] == pytest.approx(one.share_std_error[term], rel=0.1)


def test_totals_of_a_table_need_a_population_or_pairs(copies):
    plain = dp.Survey(weights="w", psu="v", psus=400)
    fit = fitted("dp_table", "~ k", copies, plain)
    frame = fit.tidy().set_index("term")
    assert np.isnan(frame.conf_low["n[k=a]"])
    assert frame.share_conf_low["n[k=a]"] > 0.0
    assert "need population=" in " ".join(fit.notes)
    whole = dp.Survey(weights="w", psu="v", psus=400, population=1e5)
    frame = fitted("dp_table", "~ k", copies, whole).tidy().set_index("term")
    assert frame.conf_low["n[k=a]"] < frame.estimate["n[k=a]"] < frame.conf_high["n[k=a]"]


def test_a_design_without_weights(copies):
    """Of rows alike: errors by PSU of shares and quantiles; the tables without are as before."""
    plain = dp.Survey(strata="h", psu="p", psus=dict.fromkeys(LEVELS, 2))
    frame = fitted("dp_table", "~ k", copies, plain, eps=1e7).tidy().set_index("term")
    p = (K == "a").mean()
    z = ((K == "a") - p)[:, None] / 12
    error = linearised(z, np.eye(1), PAIRS)[0]
    assert frame.share_std_error["n[k=a]"] * math.sqrt(COPIES) == pytest.approx(error, rel=0.01)
    fit = fitted("dp_quantile", "y", copies, plain)
    assert fit.params["q0.5(y)"] == pytest.approx(5.0, abs=0.01)
    assert "Weights are clipped" not in " ".join(fit.notes)
    z = (np.less_equal(Y, 5.0) - 0.5)[:, None]  # ranks of the median, values at it included
    effect = linearised(z, np.eye(1), PAIRS)[0] ** 2 / (12 * 0.25)
    said = next(note for note in fit.notes if "Design effect" in note)
    assert float(said.rstrip(".").split()[-1]) == pytest.approx(effect, rel=0.05)


def test_quantiles_have_errors_by_psu():
    """Woodruff: ends where the distribution function is q -+ t se, se by the pairs of units."""
    rng = np.random.default_rng(3)
    G, m, q = 800, 10, 0.5
    of = np.repeat(np.arange(G), m)
    y = np.clip(5 + rng.normal(size=G)[of] + rng.normal(size=G * m), 0, 10)
    w = rng.uniform(1, 3, G * m)
    data = pd.DataFrame({
        "y": y, "w": w, "h": np.where(of < G // 2, "1.1", "0.1"), "p": of % (G // 2) + 1,
    })  # fmt: skip
    survey = dp.Survey(weights="w", strata="h", psu="p", psus={"0.1": G // 2, "1.1": G // 2})
    schema = dp.Schema(
        h=dp.Levels(["0.1", "1.1"]), p=dp.Count(G // 2), w=dp.Real(0, 3), y=dp.Real(0, 10)
    )
    fit = fitted("dp_quantile", "y", data, survey, schema=schema, q=[q], eps=300)
    order = np.argsort(y)
    up = np.cumsum(w[order]) / w.sum()
    x = y[order][np.searchsorted(up, q)]
    assert fit.params["q0.5(y)"] == pytest.approx(x, abs=0.01)
    frame = Frame(survey, ("0.1", "1.1"), labelled=True)
    pair, sign = frame.placed(data.p.to_numpy(float), 1.0 + (data.h == "1.1").to_numpy())
    S = np.bincount(np.unique(pair, return_inverse=True)[1], w * sign * ((y <= x) - q)) / w.sum()
    se = math.sqrt((S**2).sum())
    low, high = y[order][np.searchsorted(up, [q - 1.966 * se, q + 1.966 * se])]
    rows = math.sqrt(((w * ((y <= x) - q)) ** 2).sum()) / w.sum()
    assert se > 1.5 * rows
    found = fit.conf_int().loc["q0.5(y)"]
    assert found.iloc[1] - found.iloc[0] == pytest.approx(high - low, rel=0.06)
    assert "Design effect of the PSUs" in " ".join(fit.notes)


def test_a_table_that_the_budget_does_not_carry():
    """One plan says so before, one fit after; too many cells at once are refused."""
    survey = dp.Survey(psu="v", psus=60)
    call = {"n": 900, "delta": 1e-6, "schema": SCHEMA, "design": survey, "verb": "dp_table"}
    plan = dp.plan("~ k", eps=0.2, **call)
    assert any("noise of the errors by cluster" in text for text in plan.advice)
    with pytest.raises(RequestError, match="at once"):
        dp.plan("~ h", eps=1, **call)


def test_domains_keep_the_design(copies):
    fit = fitted("dp_mean", "y ~ 1", copies, OF_COPIES, subset="d == 1")
    assert fit.params["y"] == pytest.approx(4.52, abs=2e-3)
    assert fit.bse_sampling["y"] * math.sqrt(COPIES) == pytest.approx(1.010949, rel=0.02)
    assert fit._record.estimate.use_t == 2 * COPIES  # that of all units


def test_without_units_it_is_the_fit_with_weights(copies):
    by_design = fitted("dp_ols", "y ~ x", copies, dp.Survey(weights="w"))
    with warnings.catch_warnings(), _testing.noise_source(_testing.ZeroNoise()):
        warnings.simplefilter("ignore")
        plain = dp.dp_ols("y ~ x", copies, eps=1e5, delta=1e-6, schema=SCHEMA, weights="w")
    assert by_design.params.to_numpy() == pytest.approx(plain.params.to_numpy(), rel=1e-12)


def test_pairs_only_where_their_noise_stays_low():
    survey = dp.Survey(strata="h", psu="p", psus=dict.fromkeys(LEVELS, 2))
    call = {"n": 5000, "delta": 1e-6, "schema": SCHEMA, "design": survey}
    loud, quiet = (dp.plan("y ~ x", eps=eps, **call).detail.clusters for eps in (0.3, 20.0))
    assert not loud.frame.pairs
    assert quiet.frame.pairs
    assert quiet.frame.df == 2 * COPIES
    assert loud.frame.df == 2 * COPIES


def test_printed_and_saved(copies, tmp_path):
    fit = fitted("dp_mean", "y ~ 1", copies, OF_COPIES)
    fit.save(tmp_path / "a.json")
    assert dp.load(tmp_path / "a.json").conf_int().equals(fit.conf_int())
    assert fit._record.estimate.stats["deff_clusters"] > 1.0
    again = Survey.from_dict(dp.load(tmp_path / "a.json")._record.call.survey)
    assert again == OF_COPIES
    assert "800 PSUs (declared) of p, strata h" in " ".join(str(fit.summary()).split())


def test_an_updated_fit_keeps_its_design(copies, tmp_path):
    fit = fitted("dp_ols", "y ~ x", copies, OF_COPIES)
    with warnings.catch_warnings(), _testing.noise_source(_testing.ZeroNoise()):
        warnings.simplefilter("ignore")
        new = fit.update("~ 1", copies, eps=1e5, delta=1e-6)  # strata are declared in the fit
        crv = dp.dp_ols(
            "y ~ x", copies, eps=1e5, delta=1e-6, schema=SCHEMA, vcov={"CRV1": "h"}, psus=400
        )
        crv.save(tmp_path / "crv.json")
        other = dp.load(tmp_path / "crv.json").update("~ 1", copies, eps=1e5, delta=1e-6)
    assert new._record.estimate.use_t == fit._record.estimate.use_t
    assert new._record.design.weights == "w"
    assert other._record.estimate.use_t == 399


def test_what_is_refused_from_declared_facts_alone(copies):
    with pytest.raises(RequestError, match="has no arguments"):
        dp.Survey()
    with pytest.raises(RequestError, match="below the 60 units"):
        fitted("dp_mean", "y ~ 1", copies, dp.Survey(strata="h", psu="p", fpc=dict.fromkeys(
            LEVELS, 40), psus=dict.fromkeys(LEVELS, 60)))
    with pytest.raises(RequestError, match="give a number for each"):
        fitted("dp_mean", "y ~ 1", copies, dp.Survey(strata="h", psu="p", psus={"1.1": 3}))
    with pytest.raises(RequestError, match="would be data"):
        dp.Survey(strata="h", fpc=[3, 4])
    with pytest.raises(RequestError, match="by stratum needs strata"):
        dp.Survey(psu="p", psus={"a": 3})
    with pytest.raises(RequestError, match="no column of this name"):
        fitted("dp_ols", "y ~ x", copies, dp.Survey(psu="pp"))
    with pytest.raises(DPModelsError, match="needs declared levels"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dp.dp_ols(
            "y ~ x", copies, eps=1, delta=1e-6, bounds={"y": (0, 10), "x": (0, 5)},
            design=dp.Survey(strata="h", psu="p"),
        )  # fmt: skip
    with pytest.raises(RequestError, match="cannot use design="):
        fitted("dp_npreg", "y ~ x", copies, OF_COPIES)


def test_icc_is_a_public_guess():
    few = cluster_rules.radii(2, 1000, 50, 0.2, "replace", icc=0.0)
    many = cluster_rules.radii(2, 1000, 50, 0.2, "replace", icc=0.5)
    assert many.bound > few.bound
    with pytest.raises(RequestError, match="between 0 and 1"):
        dp.Survey(psu="p", icc=3.0)


def test_the_order_of_the_numbers_of_units_takes_nothing_out(noiseless):
    """Units numbered region by region, no strata: errors as if numbered at random, to a tenth.

    Neighbours by number had been compared, whose regions are the same: half of the truth. Seed 4;
    the larger of two relative errors of .05 (200 pairs) passes .2 in one of 1e4 seeds.
    """
    rng = np.random.default_rng(4)
    regions, units, rows = 8, 400, 50
    unit = np.repeat(np.arange(units), rows)
    effect = rng.normal(size=regions)[unit * regions // units] + 0.2 * rng.normal(size=units)[unit]
    y = np.clip(effect + rng.normal(size=len(unit)), -6, 6)
    design = dp.Survey(psu="v")
    errors = []
    for number in (np.arange(units), rng.permutation(units)):
        d = pd.DataFrame({"y": y, "v": number[unit] + 1})
        schema = {"v": dp.Count(units), "y": dp.Real(-6, 6)}
        fit = dp.dp_ols("y ~ 1", d, eps=4, delta=1e-6, schema=schema, design=design)
        errors.append(float(fit.bse["Intercept"]))
    sums = np.bincount(unit, y) / rows
    truth = sums.std(ddof=1) / np.sqrt(units)
    assert errors[0] == pytest.approx(truth, rel=0.2)
    assert errors[1] == pytest.approx(truth, rel=0.2)


def test_every_unit_has_a_place_of_its_own_in_its_stratum():
    frame = Frame(dp.Survey(psu="v", strata="s", psus={"a": 5, "b": 4}), ("a", "b"), labelled=True)
    label, stratum = np.r_[1:6, 1:5].astype(float), np.repeat([1.0, 2.0], [5, 4])
    cluster, sign = frame.placed(label, stratum)
    for c in np.unique(cluster):  # two units of opposite sign, in one stratum; one odd one alone
        own = cluster == c
        assert own.sum() == 1 or (sign[own].sum() == 0 and len(set(stratum[own])) == 1)
    assert len(np.unique(cluster)) == 5
