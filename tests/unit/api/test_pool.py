"""Releases of several sites added up: against the release of the union, and what is refused."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.errors import DPModelsWarning, NotReleasedError, RequestError
from dpmodels.results import Fit
from dpmodels.results.moments import moments_of

pytestmark = pytest.mark.usefixtures("quiet")
SCHEMA = dp.Schema(
    x=dp.Real(-1, 1), z=dp.Real(0, 1), y=dp.Real(-4, 5), g=dp.Levels(["a", "b"]), t=dp.Real(0, 10),
    e=dp.Binary(),
)  # fmt: skip


def site(seed, n=2000):
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({"x": rng.uniform(-1, 1, n), "z": rng.uniform(0, 1, n)})
    d["y"] = 0.5 + d.x - 0.3 * d.z + rng.normal(0, 0.5, n)
    d["g"] = rng.choice(["a", "b"], n)
    d["t"] = rng.exponential(5, n).clip(0.01, 10)
    d["e"] = (d["t"] < 10).astype(int)
    d["id"] = 10_000 * seed + np.arange(n) // 2
    return d


def called(verb, formula, d, **call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return getattr(dp, verb)(
            formula, d, **{"eps": 1.0, "delta": 1e-6, "schema": SCHEMA, **call}
        )


def moments(d, formula="y + x + z", **call):
    return called("dp_moments", formula, d, **{"method": "joint", **call})


@pytest.fixture(scope="module")
def tables():
    return [site(k, 1500 + 500 * k) for k in (1, 2, 3)]


@pytest.fixture(scope="module")
def three(tables):
    return [moments(d, eps=eps) for d, eps in zip(tables, (1.0, 2.0, 2.0), strict=True)]


CALLS = {
    "moments": ("dp_moments", "y + x + z", {"method": "joint"}),
    "moments of people": ("dp_moments", "y + x", {"method": "joint", "unit": "id",
                                                  "rows_per_unit": 2}),
    "counts": ("dp_table", "~ g * e", {}),
    "means": ("dp_table", "y ~ g", {"noise": "gaussian", "look": False}),
    "table 1": ("dp_table", "~ y + g", {"by": "e", "look": False}),
    "histogram": ("dp_table", "~ y", {"histogram": 8, "delta": 0}),
    "people": ("dp_table", "y ~ g", {"unit": "id", "look": False}),
    "curves": ("dp_survfit", "Surv(t, e) ~ g", {"times": [1, 2, 5, 10]}),
    "tree": ("dp_survfit", "Surv(t, e) ~ 1", {"times": list(np.arange(0.25, 10.25, 0.25))}),
}  # fmt: skip


def without_noise(name, tables):
    """Return the pooled release of the tables, and that of their union."""
    verb, formula, call = CALLS[name]
    with noise_source(ZeroNoise()):
        parts = [called(verb, formula, d, **call) for d in tables]
        return dp.pool(parts), called(verb, formula, pd.concat(tables, ignore_index=True), **call)


@pytest.mark.parametrize("name", CALLS)
def test_sums_are_those_of_the_union(name, tables):
    """An sd that is not above the noise, of which there is more, is not shown."""
    pooled, union = without_noise(name, tables)
    ours, theirs = (fit._record.estimate for fit in (pooled, union))
    assert type(pooled) is type(union) and ours.names == theirs.names
    shown = np.isfinite(ours.params) & np.isfinite(theirs.params)
    assert shown.mean() > 0.9 and pooled.nobs == union.nobs
    assert ours.params[shown] == pytest.approx(theirs.params[shown], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", CALLS)
def test_noise_adds_by_its_squares(name, tables):
    """Each of three sites has the noise of the union, so the sum has three times its variance."""

    def variances(fit):
        arrays = fit.arrays
        if "sd" in arrays:
            return arrays["sd"] ** 2
        if "released_noise" in arrays and "moments" in arrays:
            return arrays["released_noise"]
        counts = [k for k, term in enumerate(fit._record.estimate.names) if term[0] == "n"]
        return arrays["se_privacy"][counts] ** 2

    pooled, union = map(variances, without_noise(name, tables))
    assert pooled == pytest.approx(3.0 * union)


def test_moments_in_other_coordinates_are_blocks(tables):
    """Each site has its own map: C is the sum, and errors are those of independent blocks."""
    parts = [moments(d, method="ssp") for d in tables]
    pooled = dp.pool(parts)
    n = np.array([part.nobs for part in parts])
    C = sum(k * part.arrays["moments_per_row"] for k, part in zip(n, parts, strict=True)) / n.sum()
    assert pooled.arrays["moments_per_row"] == pytest.approx(C, abs=1e-12)
    facts = moments_of(pooled._record)
    assert facts.moments.blocks == (4, 8, 12) and facts.back.shape == (4, 12)
    fit = dp.dp_ols("y ~ x + z", pooled)
    assert abs(fit.params["x"] - 1.0) < 5 * fit.bse["x"]
    # the mean of three fits has about the error of the pooled fit
    each = [dp.dp_ols("y ~ x + z", m) for m in parts]
    mean = dp.meta(each)
    assert fit.bse.to_numpy() == pytest.approx(mean.std_error, rel=0.15)
    # how clear the information is of the noise does not depend on how it is written
    joint = [moments(d) for d in tables]
    one = dp.pool(joint)
    record = one._record
    T, Q, V = (np.asarray(joint[0].arrays[f"released_{k}"]) for k in ("map", "moments", "noise"))
    with_blocks = {
        "released_map": np.hstack([T] * 3), "released_blocks": np.array([4.0, 8.0, 12.0]),
        "released_moments": np.kron(np.eye(3), Q) , "released_noise": np.kron(np.eye(3), V),
    }  # fmt: skip
    alone = {"released_moments": 3 * Q, "released_noise": 3 * V}
    margins = []
    for arrays in (with_blocks, alone):
        est = replace(record.estimate, arrays={**record.estimate.arrays, **arrays})
        fit = dp.dp_ols("y ~ x + z", Fit._of(replace(record, estimate=est)))
        margins.append((fit.stats["noise_margin"], *fit.params, *fit.bse))
    assert margins[0] == pytest.approx(margins[1], rel=1e-9)


def test_whatever_a_release_offers_works_on_a_pooled_one(tables, tmp_path):
    for method in ("joint", "ssp"):
        pooled = dp.pool([moments(d, method=method) for d in tables], names=["A", "B", "C"])
        fit = dp.dp_ols("y ~ x + z", pooled)
        assert fit.nobs == sum(map(len, tables)) and fit.privacy == pooled.privacy
        pooled.corr(), pooled.lasso_path("y"), pooled.best_subset("y"), pooled.components()
        assert len(pooled.synthetic(2, rows=50)) == 2
        assert fit.decompose("x").shape[0] and "x + z" in str(
            dp.anova(dp.dp_ols("y ~ x", pooled), fit)
        )
        pooled.save(tmp_path / "m.json")
        again = dp.load(tmp_path / "m.json")
        assert str(again.summary(full=True)) == str(pooled.summary(full=True))
        assert str(again.ledger) == str(pooled.ledger)
        twice = dp.pool([pooled, moments(site(9), method=method)])
        assert dp.dp_ols("y ~ x", twice).nobs == fit.nobs + 2000
    curves = dp.pool([called("dp_survfit", "Surv(t, e) ~ g", d) for d in tables])
    assert curves.quantile(0.5)["estimate"].notna().all() and curves.survdiff().pvalue >= 0
    table = dp.pool([called("dp_table", "~ g * e", d) for d in tables])
    assert table.crosstab().loc["Total", "Total"] == pytest.approx(table.nobs)
    assert len(table.tidy()) == len(table._record.estimate.names)


def test_rows_of_noised_tables_stand_below_each_other(tables, tmp_path):
    parts = [called("dp_release", "~ y + x", d, eps=20) for d in tables[:2]]
    for overlap, eps in ((False, 20.0), (True, 40.0)):
        pooled = dp.pool(parts, overlap=overlap)
        assert pooled.n == sum(part.n for part in parts) and pooled.batches == (2000, 2500)
        assert np.array_equal(pooled.values[:, :2000], parts[0].values)
        assert (pooled.privacy.eps, pooled.privacy.relation) == (eps, "replace")
        fit = dp.dp_ols("y ~ x", pooled)
        assert abs(fit.params["x"] - 1.0) < 5 * fit.bse["x"]
        pooled.save(tmp_path / "rel")
        again = dp.load(tmp_path / "rel.json")
        assert again.privacy.statement() == pooled.privacy.statement() and again.n == pooled.n
    other = called("dp_release", "~ y + x", tables[2], eps=10)
    with pytest.raises(RequestError, match=r"the noise sd of 'y' is .* at site 2"):
        dp.pool([parts[0], other])


# -- The guarantee, and the charges of the parts.


def test_the_largest_guarantee_or_the_sum(three):
    one, two = dp.pool(three, names=["Leeds", "York", "Hull"]), dp.pool(three, overlap=True)
    assert (one.privacy.eps, one.privacy.delta) == (2.0, 1e-6)
    assert (two.privacy.eps, two.privacy.delta) == (5.0, pytest.approx(3e-6))
    says = one.privacy.statement()
    assert "compose in parallel" in says and "Leeds (1, 1e-06), York (2, 1e-06)" in says
    assert "guarantees add up" in two.privacy.statement()
    for pooled in (one, two):
        assert pooled.privacy.delta_at(pooled.privacy.eps) <= pooled.privacy.delta * (1 + 1e-9)
        for part in three:  # at least what each site spends
            assert pooled.privacy.delta_at(1.0) >= part.privacy.delta_at(1.0) * (1 - 1e-9)
        assert "By site" not in str(pooled.summary()) and "by site" in str(pooled.summary())
        frame = pooled.ledger.to_frame()
        assert list(frame["call"]) == [1, 2, 3] and list(frame["call_eps"]) == [1.0, 2.0, 2.0]
        assert pooled.nobs == sum(part.nobs for part in three)
    text = str(one.ledger)
    assert all(f"{name}: dp_moments" in text for name in ("Leeds", "York", "Hull"))
    equal = dp.pool(three[1:])
    assert equal.privacy.steps == three[1].privacy.steps
    seeded = dp.pool([three[0], moments(site(7), seed=1)])
    assert "NOT PRIVATE" in seeded.privacy.statement()


def test_nothing_is_charged(tables):
    parts = [moments(d) for d in tables]
    with dp.Budget(1e-3, 1e-9) as budget:
        dp.dp_ols("y ~ x", dp.pool(parts))
    assert not budget.charges


# -- What is refused.


def test_differences_are_refused_with_their_name(tables, three):
    d = tables[0]
    wide = dp.Schema(**{**SCHEMA.variables, "x": dp.Real(-2, 1)})
    spelled = dp.Schema(**{**SCHEMA.variables, "y": dp.Real(-4, 5, missing=[-99], label="wage")})
    dp.pool([three[0], moments(d, schema=spelled)])  # how a site writes its cells is its own matter
    tabled = called("dp_table", "~ g", d)
    curves = called("dp_survfit", "Surv(t, e) ~ g", d, times=[1, 2])
    for parts, says in (
        ([three[0]], "at least two"), (three[0], "at least two"),
        ([three[0], 3], "site 2 is no release"),
        ([three[0], called("dp_ols", "y ~ x", d)], "site 2 is dp_ols.*dp.meta"),
        ([three[0], tabled], "the verb is dp_table at site 2, and dp_moments at site 1"),
        ([three[0], three[0]], "site 2 is in the list already"),
        ([three[0], moments(d, schema=wide)], "the declaration of 'x' is .*lower -2"),
        ([three[0], moments(d, "y + x")], "formula is y . x ~ 1 at site 2"),
        ([three[0], moments(d, na="impute-midpoint")], "na is"),
        ([three[0], moments(d, subset="g == 'a'")], "subset is"),
        ([three[0], moments(d, method="ssp")], "method= is ssp at site 2, and joint"),
        ([three[0], moments(d, unit="id", rows_per_unit=2)], "different neighbours or units"),
        ([three[0], moments(d, relation="add-remove", n_guess=2000)], "different neighbours"),
        ([tabled, called("dp_table", "~ g", d, histogram=None, unit="id")], "units"),
        ([curves, called("dp_survfit", "Surv(t, e) ~ g", d, times=[1, 3])], "times= is .1, 3."),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=says):
            dp.pool(parts)
    with pytest.raises(RequestError, match="one name"):
        dp.pool(three, names=["a", "a", "b"])


def test_what_is_no_sum_is_refused(tables):
    d = tables[0].assign(w=1.0)
    schema = dp.Schema(**SCHEMA.variables, w=dp.Real(0, 2))
    plain = called("dp_table", "y ~ g", d, schema=schema)
    for options in ({"quantiles": 0.5}, {"suppress": 10}, {"weights": "w"}):
        part = called("dp_table", "y ~ g", d, schema=schema, **options)
        again = called("dp_table", "y ~ g", tables[1].assign(w=1.0), schema=schema, **options)
        with pytest.raises(NotReleasedError, match="site 1 holds no cells that add up"):
            dp.pool([part, again])
        with pytest.raises((RequestError, NotReleasedError)):
            dp.pool([plain, part])
    kept = [called("dp_table", "y ~ g", t, unit="id", max_rows=1) for t in tables[:2]]
    with pytest.raises(RequestError, match="max_rows="):
        dp.pool(kept)
    free = dp.Schema(g=dp.Levels(["a", "b"]))
    bought = [called("dp_table", "y ~ g", t, schema=free) for t in tables[:2]]
    with pytest.raises(RequestError, match="the range of 'y' was estimated"):
        dp.pool(bought)


def test_estimated_ranges_of_moments_are_joined(tables):
    free = dp.Schema(y=dp.Real(-4, 5))
    parts = [moments(d, "y + x", schema=free, eps=4) for d in tables[:2]]
    pooled = dp.pool(parts)
    ends = [{c.name: c.interval for c in part.design.z}["x"] for part in (*parts, pooled)]
    assert ends[2] == (min(ends[0][0], ends[1][0]), max(ends[0][1], ends[1][1]))
    assert abs(dp.dp_ols("y ~ x", pooled).params["x"] - 1.0) < 0.3


def test_a_release_without_a_reply_is_refused(three):
    record = three[0]._record
    silent = Fit._of(replace(record, estimate=replace(record.estimate, released=False)))
    with pytest.raises(NotReleasedError, match="site 2 got no reply"):
        dp.pool([three[1], silent])
