"""``unit=`` through the verbs: whose guarantee, what is shown, what is refused."""

import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.api.units import identifier_among
from dpmodels.errors import (
    BudgetError,
    DPModelsWarning,
    PrivacyBugError,
    PrivateStageError,
    RequestError,
    SourceError,
)
from dpmodels.sources.people import PeopleRows, row_hashes
from dpmodels.sources.rows import Rows
from dpmodels.sources.tasks import as_source
from dpmodels.units import Person

BOUNDS = {"y": (-3, 3), "x": (-1, 1)}


def panel(N=120, T=4, seed=1):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(N), T)
    x = rng.uniform(-1, 1, N * T)
    y = 0.5 * x + np.repeat(rng.normal(0, 0.5, N), T) + rng.normal(0, 0.5, N * T)
    return pd.DataFrame({"pid": ids, "x": x, "y": y})


def fit(data, verb=dp.dp_ols, formula="y ~ x", **more):
    call = {"eps": 5.0, "delta": 1e-4, "bounds": BOUNDS, "unit": "pid", "seed": 3, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return verb(formula, data, **call)


def test_the_guarantee_says_whom_it_protects_and_n_counts_people():
    found = fit(panel())
    assert found.nobs == 120 and found.unit == "one person (column pid)"
    assert found.privacy.unit == "one person (column pid)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        plain = dp.dp_ols("y ~ x", panel(), eps=5, delta=1e-4, bounds=BOUNDS, unit="pid")
    assert "unit: one person (column pid)" in plain.privacy.statement()
    assert "the number of people is public, that of rows is not" in plain.privacy.statement()
    text = str(plain.summary(full=True)) + str(plain.ledger) + repr(plain) + plain.to_json()
    assert not re.search(r"(?<![.\w])480(?![.\w])", text)  # Not in a checksum
    assert "cluster-robust" in text and "People:" in text
    again = dp.Fit.from_json(plain.to_json()) if hasattr(dp, "Fit") else None
    assert again is None or again.unit == plain.unit


def test_a_plan_counts_people():
    plan = dp.plan("y ~ x", dp.Schema(unit="pid", **BOUNDS), n=120, eps=5, delta=1e-4)
    assert plan.guarantee.unit == "one person (column pid)" and plan.n == 120
    assert "People" in str(plan) and "one person" in str(plan)


def test_a_schema_carries_the_unit_and_a_variable_may_be_called_unit():
    schema = dp.Schema(unit="pid", **BOUNDS)
    assert schema.unit == "pid" and "unit" not in schema and len(schema) == 2
    for again in (
        dp.Schema.from_json(schema.to_json()),
        dp.Schema.from_toml(schema.to_toml()),
        schema.update(z=(0, 1)).restrict(["x", "y"]).update(unit="pid"),
    ):
        assert again == schema and hash(again) == hash(schema)
    assert schema.update(z=(0, 1)).unit == "pid" and "pid" in repr(schema)
    assert schema != dp.Schema(**BOUNDS)
    assert dp.Schema(unit=dp.Real(0, 1)).unit is None
    found = fit(panel(), unit=None, bounds=None, schema=schema)
    assert found.unit == "one person (column pid)"


def frames(data, cut):
    return lambda: iter([data.iloc[i : i + cut] for i in range(0, len(data), cut)])


def test_every_source_and_order_gives_the_same_fit(tmp_path):
    data = panel()
    mixed = data.sample(frac=1, random_state=2)
    text = data.assign(pid=data["pid"].map("p{:03d}".format))
    wanted = fit(data).params
    for table in (
        mixed, frames(data, 7), frames(mixed, 7), data.to_dict("list"), text,
        data.astype({"pid": float}), data.assign(pid=data["pid"].astype("category")),
    ):  # fmt: skip
        assert fit(table).params.tolist() == wanted.tolist()
    assert fit(iter([mixed]), units=120).params.tolist() == wanted.tolist()
    data.to_csv(tmp_path / "t.csv", index=False)
    assert fit(tmp_path / "t.csv").params.tolist() == wanted.tolist()


def test_rows_without_an_id_count_for_nothing():
    data = panel()
    more = pd.concat([data.astype({"pid": float}), pd.DataFrame({"pid": [np.nan], "x": 1, "y": 3})])
    found = fit(more)
    assert found.nobs == 120 and found.params.tolist() == fit(data).params.tolist()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"unit": "pidd"}, "no column of this name. Did you mean 'pid'"),
        ({"unit": 3}, "name of the column"),
        ({"unit": "flag"}, "type bool"),
        ({"unit": "attribute"}, "noised table"),
        ({"unit": None, "units": 5}, "units= needs unit="),
        ({"unit": None, "rows_per_unit": 5}, "rows_per_unit= needs unit="),
        ({"units": 0}, "number of people"),
        ({"rows_per_unit": -1}, "public guess"),
        ({"n": 480}, "units="),
        ({"method": "eptr"}, "Use method='ssp' or 'pmt'; or keep at most m rows"),
        ({"inference": False}, "ends by scoring"),
        ({"scoring": False}, "ends by scoring"),
        ({"vcov": "iid"}, "not: leave vcov= out"),
        ({"public_order": True}, "leave it out"),
        ({"schema": {"pid": dp.Levels([1, 2])}}, "who is in the table is private"),
        ({"relation": "add-remove", "units": 120, "n_guess": 100}, "n_guess=120"),
        ({"units": 2}, "n = 2 people cannot carry 2"),
    ],
)
def test_unusable_calls_are_refused_before_anything_is_charged(more, said):
    data = panel().assign(flag=True)
    budget = dp.Budget(10, 1e-2, unit="pid")
    with pytest.raises(RequestError, match=said.replace("(", r"\(")):
        fit(data, **{"budget": budget, **more})
    assert budget.account.calls == 0


@pytest.mark.parametrize("declared", [dp.Count(1000), dp.Real(0, 1000)])
def test_an_id_may_be_declared_as_a_number(declared):
    """A schema from a codebook or a frame has the column of ids too."""
    data = panel()
    found = fit(data, schema=dp.Schema(**BOUNDS, pid=declared))
    assert found.params.tolist() == fit(data).params.tolist()


def test_other_refusals():
    data = panel()
    with pytest.raises(RequestError, match="Use method='clipped'; or keep at most m rows"):
        fit(data, dp.dp_mean, "y ~ 1", method="ptr", width=3.0)
    with pytest.raises(RequestError, match="Keep at most m rows per person"):
        fit(data, dp.dp_npreg, "y ~ x")
    with pytest.raises(RequestError, match="no cell of the column is an id"):
        fit(data.assign(pid=np.nan))
    with pytest.raises(RequestError, match="units="):
        fit(iter([data]))
    for more in ({"unit": "pid"}, {"schema": dp.Schema(unit="pid", **BOUNDS)}):
        with pytest.raises(RequestError, match="one row per person first"):
            dp.dp_release(data, eps=1, delta=1e-5, **more)


def test_public_rows_whiten_people():
    data = panel(2000)
    public = panel(60, seed=5)[["x", "y"]]
    found = fit(data, eps=20.0, bounds=None, method="pmt", public=public)
    assert found.params.to_numpy() == pytest.approx([0.0, 0.5], abs=0.1)
    assert "cluster-robust" in str(found.summary(full=True)) and found.nobs == 2000
    with pytest.raises(RequestError, match="combine= is an option of fits that end with second moments"):
        fit(data, bounds=None, method="pmt", public=public, combine=True)


def test_several_quantiles_and_fit_statistics_of_people():
    data = panel()
    both = fit(data, dp.dp_quantreg, tau=[0.25, 0.75], eps=50)
    assert len(both.params) == 4 and np.isfinite(both.bse).all()
    V = both.vcov().to_numpy()
    rho = V[0, 2] / np.sqrt(V[0, 0] * V[2, 2])
    assert 0.0 < rho < 1.0 and any("quantiles" in note for note in both.notes)
    event = data.assign(y=(data.y > 0).astype(float))
    schema = {**BOUNDS, "y": dp.Binary()}
    found = fit(event, dp.dp_glm, schema=schema, bounds=None, fit_stats=True, eps=500)
    stats = found.stats
    # each person counts once: the mean of unit deviances over its rows
    mean = event.groupby("pid").y.mean()
    m = mean.mean()
    null = -2 * len(mean) * (m * np.log(m) + (1 - m) * np.log1p(-m))
    assert stats["null_deviance"] == pytest.approx(null, abs=4 * stats["null_deviance_se"] + 1)
    assert stats["deviance"] <= stats["null_deviance"] and "aic" not in stats


def test_noised_tables_keep_their_words():
    data = panel()
    one = fit(data, dp.dp_quantreg, unit="attribute", method="drcl")
    assert one.privacy.unit == "attribute"
    assert fit(data, unit="record").unit == "one row"


def test_more_people_than_declared_stops_the_call_and_fewer_do_not():
    data = panel()
    with pytest.raises(SourceError, match="more people than units= declares"):
        fit(data, units=119)
    assert fit(data, units=200).nobs == 200
    assert fit(data.iloc[:0], units=200).nobs == 200  # nobody has a row: as any other table
    assert fit(data.iloc[:0], units=200, method="adassp", max_rows=2).nobs == 200


def test_one_id_for_all_rows_and_as_many_ids_as_rows():
    data = panel()
    with pytest.raises(RequestError, match="n = 1 people"):
        fit(data.assign(pid=7))
    single = data.assign(pid=np.arange(len(data)))
    assert fit(single).nobs == len(data)


def test_a_private_count_of_people_is_not_counted():
    found = fit(panel(), relation="add-remove", n_guess=100)
    assert found.nobs is None
    assert "add or remove all rows of one person" in " ".join(str(found.summary(full=True)).split())


def test_ledgers_of_people_and_of_rows_do_not_mix(tmp_path):
    people, rows = dp.Budget(50, 1e-2, unit="pid"), dp.Budget(50, 1e-2)
    other = dp.Budget(50, 1e-2, unit="house")
    assert people.unit == "one person (column pid)"
    data = panel()

    def call(budget, **more):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPModelsWarning)
            return dp.dp_ols("y ~ x", data, eps=1, delta=1e-4, bounds=BOUNDS, budget=budget, **more)

    call(people, unit="pid")
    call(rows)
    with pytest.raises(BudgetError, match="Give the call unit='pid'"):
        call(people)
    with pytest.raises(BudgetError, match=r"Budget\(..., unit='pid'\)"):
        call(rows, unit="pid")
    with pytest.raises(BudgetError, match="unit='house'"):
        call(other, unit="pid")
    assert (people.account.calls, rows.account.calls, other.account.calls) == (1, 1, 0)
    assert "one person" in str(people.report())
    path = tmp_path / "l.sqlite"
    held = dp.Budget.open(path, 5, 1e-3, unit="pid")
    call(held, unit="pid")
    again = dp.Budget.open(path, unit="pid")
    assert again.charges[0].guarantee.unit == "one person (column pid)"
    assert again.joint().unit == "one person (column pid)"
    with pytest.raises(BudgetError, match="unit"):
        dp.Budget.open(path, unit="house")
    with pytest.raises(RequestError, match="name of the column"):
        dp.Budget(1, 1e-5, unit=3)


def test_a_summary_names_a_column_that_looks_like_an_identifier():
    data = panel().rename(columns={"pid": "person_id"})
    row = fit(data, unit=None)
    assert "add unit='person_id'" in " ".join(str(row.summary(full=True)).split())
    assert "protects a person" not in str(fit(data, unit="person_id").summary(full=True))
    for name in ("id", "patient", "userId", "customer_no", "x.id", "PID".lower()):
        assert identifier_among(["y", name]) == name
    for name in ("paid", "width", "userland", "idle", "humid"):
        assert identifier_among([name]) == ""


def test_every_verb_names_a_column_that_looks_like_an_identifier():
    data = panel(300).rename(columns={"pid": "patient_id"})
    data["z"], data["g"] = data["x"][::-1].to_numpy(), np.where(data["x"] > 0, "a", "b")
    schema = dp.Schema(**BOUNDS, z=(-1, 1), g=dp.Levels(["a", "b"]))
    call = {"eps": 5.0, "delta": 1e-5, "schema": schema, "seed": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        m = dp.dp_moments("y + x + z", data, **call)
        made = (
            dp.dp_ols("y ~ x", data, **call), dp.dp_glm("{y > 0} ~ x", data, **call),
            dp.dp_quantreg("y ~ x", data, **call), dp.dp_mest("huber", "y ~ x", data, **call),
            dp.dp_mean("y", data, **call), m, dp.dp_ols("y ~ x", m), dp.dp_iv("y ~ x | z", m),
            dp.dp_iv("y ~ x | z", data, **call), dp.dp_pca("y + x", data, **call),
            dp.dp_table("~ g", data, **call), dp.dp_quantile("y", data, **call),
            dp.dp_test("y ~ g", data, **call), dp.dp_bayes("g ~ x", data, **call),
            dp.dp_npreg("y ~ x", data, **call), dp.dp_ols("y ~ x", data, method="drcl", **call),
            dp.dp_release(data, ["x", "y"], **{**call, "seed": None}),
        )  # fmt: skip
    for found in made:
        said = " ".join(str(found.summary()).split())
        assert said.count("patient_id looks like a person identifier") == 1, repr(found)


INTERLEAVED = {
    "dp_table": ("~ g", {}),
    "dp_quantile": ("~ x", {"q": 0.5}),
    "dp_test": ("x ~ g", {}),
    "dp_survfit": ("Surv(abs(x), y > 1) ~ g", {}),
    "dp_survdiff": ("Surv(abs(x) / 2, abs(x), y > 1) ~ g", {}),
    "dp_moments": ("x + y", {}),
    "dp_mean": ("x", {}),
}


@pytest.mark.parametrize("verb", INTERLEAVED)
def test_a_generator_that_interleaves_people_gives_what_the_frame_gives(verb):
    """Every part has one row of everybody, some without an id: the guarantee is for people."""
    formula, more = INTERLEAVED[verb]
    data = panel(150)
    data["g"] = np.where(data["pid"] % 3 == 0, "a", "b")
    extra = pd.DataFrame({"pid": [np.nan], "x": [1.0], "y": [3.0], "g": ["a"]})
    schema = dp.Schema(**BOUNDS, g=dp.Levels(["a", "b"]))
    parts = (
        pd.concat([data.iloc[k::4].astype({"pid": float}), extra], ignore_index=True)
        for k in range(4)
    )
    call = {"bounds": None, "schema": schema, "units": 150, **more}
    whole = fit(data, getattr(dp, verb), formula, **call)
    there = fit(parts, getattr(dp, verb), formula, **call)
    assert whole.params.equals(there.params) and there.nobs == 150
    assert there.unit == "one person (column pid)"
    assert "604" not in str(there.summary(full=True)) and "600" not in str(there.summary(full=True))


def test_one_person_or_nobody_twice_has_a_table():
    data = panel(60).assign(g="a")
    schema = dp.Schema(**BOUNDS, g=dp.Levels(["a", "b"]))
    call = {"bounds": None, "schema": schema, "eps": 1e4}
    one = fit(data.assign(pid=7), dp.dp_table, "~ g", **call)
    assert one.nobs == 1 and one.params["n[g=a]"] == pytest.approx(1.0, abs=0.05)
    single = fit(data.assign(pid=np.arange(len(data))), dp.dp_table, "~ g", **call)
    assert single.params["n[g=a]"] == pytest.approx(240, abs=0.05)
    declared = fit(data, dp.dp_table, "~ g", **call, units=100)
    assert declared.params["n[g=a]"] == pytest.approx(60, abs=0.05)
    assert declared.params["n[g=(missing)]"] == pytest.approx(40, abs=0.05)


def test_tables_count_people_and_rows_only_where_it_is_asked_for():
    data = panel(60, T=4).assign(g="a")
    schema = dp.Schema(**BOUNDS, g=dp.Levels(["a", "b"]))
    call = {"bounds": None, "schema": schema, "eps": 1e4}
    kept = fit(data, dp.dp_table, "~ g", **call, max_rows=3)
    assert kept.params["n[g=a]"] == pytest.approx(180, abs=0.5)
    said = " ".join(str(fit(data, dp.dp_table, "x ~ g", **call).summary(full=True)).split())
    assert "Each person counts once" in said
    with pytest.raises(RequestError, match="whole numbers, and a person counts"):
        fit(data, dp.dp_table, "~ g", **call, noise="geometric")
    with pytest.raises(RequestError, match="correlation has no form for people"):
        fit(data, dp.dp_test, "~ x + y", **call)


def test_a_stage_of_rows_reads_no_people_and_the_reverse():
    source = as_source(panel())
    people = PeopleRows(source, 120, Person("pid"))
    with pytest.raises(PrivacyBugError):
        next(people.blocks(None))
    with pytest.raises(PrivacyBugError):
        next(Rows(source, 480).people(None))


def test_a_row_hash_is_of_cells_and_key_alone():
    rng = np.random.default_rng(1)
    cells, key = rng.normal(size=50), np.arange(8, dtype=np.uint8)
    codes = rng.integers(-1, 4, 50).astype(np.int32)
    whole = row_hashes([cells, codes], key)
    assert np.array_equal(whole[7:9], row_hashes([cells[7:9], codes[7:9]], key))
    assert len(set(whole.tolist())) == 50
    assert not np.array_equal(whole, row_hashes([cells, codes], key + 1))
    zeros = row_hashes([np.array([0.0, -0.0])], key)
    assert zeros[0] == zeros[1]


def test_a_failing_source_says_nothing():
    def parts():
        yield panel(10)
        raise ValueError("quote 3.14159")

    with pytest.raises((PrivateStageError, SourceError)) as caught:
        fit(parts)
    assert "3.14159" not in str(caught.value)


# -- cap and pay


def test_what_m_rows_come_to():
    """The table of units.md 3."""
    from dpmodels.privacy.mechanisms import (
        eps_gdp,
        gaussian_rows,
        mu_gdp,
        pair_of_people,
        pair_of_rows,
    )

    assert mu_gdp(*gaussian_rows(1.0, 1e-6, 5)) == pytest.approx(0.0473409, abs=5e-8)
    assert eps_gdp(5 * mu_gdp(1.0, 1e-6), 1e-6) == pytest.approx(5.9262, abs=5e-5)
    assert pair_of_people(1.0, 1e-6, 5) == pytest.approx((5.0, 8.579e-5), rel=1e-4)
    assert pair_of_rows(1.0, 1e-6, 5) == pytest.approx((0.2, 1.2885e-7), rel=1e-4)
    assert pair_of_rows(1.0, 0.0, 4) == (0.25, 0.0)
    assert pair_of_people(1e3, 1e-6, 3) == (3e3, 1.0) and pair_of_rows(1e4, 1e-6, 3)[1] < 1e-290
    for eps, delta, m in ((0.5, 1e-5, 3), (3.0, 1e-8, 12)):
        assert pair_of_people(*pair_of_rows(eps, delta, m), m) == pytest.approx((eps, delta))


def profile_of_people(curve, eps, m):
    """Return delta(eps) for m rows of one whose profile for a row is ``curve``.

    ``min sum_i e^{eps_1 + ... + eps_{i-1}} curve(eps_i)`` over splits of eps. Every split is a
    bound, so the search need not be exact.
    """
    from scipy.optimize import minimize

    def bound(parts):
        before, total = 0.0, 0.0
        for part in parts:
            total += math.exp(min(before, 700.0)) * curve(part)
            before += part
        return total

    def whole(free):
        return [*map(float, free), eps - math.fsum(map(float, free))]

    def height(free):
        return math.log(max(bound(whole(free)), 1e-300))

    equal = [eps / m] * (m - 1)
    best = bound(whole(equal))
    if m > 1:
        found = minimize(height, equal, method="Nelder-Mead",
                         options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 400 * m})  # fmt: skip
        best = min(best, bound(whole(found.x)))
    return min(best, 1.0)


def test_the_profile_of_m_rows_is_the_best_split():
    """units.md 3: exact for Gaussian curves, where m rows are m mu."""
    from dpmodels.privacy.mechanisms import (
        Approximate,
        delta_gdp,
        pair_of_people,
    )

    def curve(eps):
        return delta_gdp(eps, 0.2)

    assert profile_of_people(curve, 1.0, 2) == pytest.approx(0.00129990, abs=5e-9)
    assert curve(0.5) * (1 + np.exp(0.5)) == pytest.approx(0.00135757, abs=5e-9)  # equal parts
    for m, eps in ((1, 0.7), (2, 1.0), (3, 1.0), (5, 2.0)):
        assert profile_of_people(curve, eps, m) == pytest.approx(delta_gdp(eps, 0.2 * m), rel=1e-6)
    pair = Approximate(0.3, 1e-6)  # a pair is one point of its profile
    eps, delta = pair_of_people(0.3, 1e-6, 4)
    assert profile_of_people(pair.delta_at, eps, 4) <= delta * (1 + 1e-9)


CAPPED = {
    "ptr": (dp.dp_mean, "y ~ 1", {"method": "ptr", "width": 3.0}),
    "adassp": (dp.dp_ols, "y ~ x", {"method": "adassp"}),
    "moments only": (dp.dp_ols, "y ~ x", {"inference": False}),
    "functional": (dp.dp_ols, "y ~ x", {"method": "functional", "delta": 0.0}),
    "eptr": (dp.dp_ols, "y ~ x", {"method": "eptr"}),
    "objpert": (dp.dp_glm, "{y > 0} ~ x", {"method": "objpert"}),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "objpert")) for n in CAPPED]
)
def test_methods_of_rows_serve_capped_people(name):
    verb, formula, more = CAPPED[name]
    data = panel(400)
    found = fit(data, verb, formula, eps=40.0, max_rows=3, **more)
    assert found.nobs == 400 and found.unit == "one person (column pid)"
    said = " ".join(str(found.summary(full=True)).split())
    assert "At most 3 rows per person are used" in said
    assert found.privacy.most == 3 and found.privacy.eps == 40.0
    again = fit(data.sample(frac=1, random_state=1), verb, formula, eps=40.0, max_rows=3, **more)
    assert np.allclose(found.params, again.params, equal_nan=True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"max_rows": 0, "method": "adassp"}, "number of rows of a person"),
        ({"max_rows": 3}, "leave max_rows= out"),
        ({"max_rows": 3, "unit": None}, "max_rows= needs unit="),
        ({"max_rows": 3, "method": "drcl"}, "noised table"),
        ({"max_rows": 3, "method": "adassp", "relation": "add-remove"}, "relation='replace'"),
        ({"max_rows": 3, "method": "adassp", "na": "impute-midpoint"}, "leave na= out"),
    ],
)
def test_caps_that_cannot_be(more, said):
    with pytest.raises(RequestError, match=said):
        fit(panel(), **more)


def test_kept_rows_are_chosen_by_cells_and_key_not_by_place():
    from dpmodels.privacy.noise import SeededNoise
    from dpmodels.variables import Real

    kinds = {"x": Real(), "y": Real()}
    data = panel(30, 9)
    data.loc[::3, ["x", "y"]] = 0.25  # duplicates
    few = data[data["pid"] != 4]
    short = pd.concat([few, data[data["pid"] == 4].iloc[:2]])
    tables = []
    for table in (data, data.sample(frac=1, random_state=3), short):
        rows = PeopleRows(as_source(table), 30, Person("pid", most=4))
        tables.append(rows.rows_of_each(kinds, 4, SeededNoise(5)))
    first, mixed, other = (np.column_stack([t["x"], t["y"]]).reshape(30, 8) for t in tables)
    assert np.array_equal(first, mixed) and first.shape == (30, 8)
    moved = [i for i in range(30) if not np.array_equal(first[i], other[i], equal_nan=True)]
    assert len(moved) == 1 and np.isnan(other[moved[0]]).sum() == 4  # filled up to exactly m


def test_capped_people_move_m_rows_at_most():
    """Seed 1: the production stage; every draw within m times what one row may move."""
    from tests.replaying import replay_ratios

    plan = dp.plan(
        "y ~ x", BOUNDS, n=10, eps=4, delta=1e-4, unit="pid", method="adassp", max_rows=3
    )
    rng = np.random.default_rng(1)
    base = panel(10, 5)
    others = []
    for m in (1, 3, 200):
        rows = pd.DataFrame(
            {"pid": 4, "x": rng.choice([-1.0, 1.0], m), "y": rng.choice([-3.0, 3.0], m)}
        )
        others.append(pd.concat([base[base["pid"] != 4], rows]))
    columns = [{c: t[c].to_numpy(float) for c in t} for t in (base, *others)]
    ratios = replay_ratios(plan, columns[0], columns[1:], seed=2)
    assert 1.0 < max(ratios.values()) <= 3.0 * (1 + 1e-9), ratios


def test_a_mean_of_people_counts_each_once():
    data = panel(200)
    data["y"] = data["pid"] % 2  # half of the people, whatever their rows
    more = data[data["pid"] % 2 == 1]
    data = pd.concat([data, more, more, more])
    call = {"eps": 4000.0, "bounds": {"y": (-1, 2)}}
    found = fit(data, dp.dp_mean, "y ~ 1", **call)
    rows = fit(data, dp.dp_mean, "y ~ 1", unit=None, **call)
    assert found.params.iloc[0] == pytest.approx(0.5, abs=0.01)
    assert rows.params.iloc[0] == pytest.approx(0.8, abs=0.01)
    assert found.bse_sampling.iloc[0] == pytest.approx(0.5 / np.sqrt(200), rel=0.05)
    assert "Each person (pid) counts once" in " ".join(str(found.summary(full=True)).split())


@pytest.mark.parametrize(
    ("more", "gaussian"), [({"inference": False}, True), ({"method": "eptr"}, False)]
)
def test_a_person_is_charged_what_its_rows_come_to(more, gaussian):
    from dpmodels.errors import PrivacyBugError as Bug
    from dpmodels.privacy.composition import Guarantee
    from dpmodels.privacy.mechanisms import mu_gdp

    plan = dp.plan("y ~ x", BOUNDS, n=400, eps=2, delta=1e-5, unit="pid", max_rows=3, **more)
    g = plan.guarantee
    if gaussian:
        mu = [np.sqrt(sum(s.mechanism.mu**2 for s in steps)) for steps in (g.steps, g.inner)]
        assert mu[0] == pytest.approx(mu_gdp(2, 1e-5), rel=1e-8)
        pairs = zip(g.steps, g.inner, strict=True)
        assert all(s.mechanism.mu == 3.0 * one.mechanism.mu for s, one in pairs)
        assert mu[0] == pytest.approx(3.0 * mu[1], rel=1e-14)
    else:
        (step,) = g.steps
        assert (step.mechanism.eps, step.mechanism.delta) == pytest.approx((2, 1e-5))
    assert g.delta_at(2) == pytest.approx(1e-5, rel=1e-6)
    with pytest.raises(Bug, match="is not charged with the sum over its rows"):
        Guarantee(g.inner, 2, 1e-5, unit=g.unit, inner=g.inner, most=3, row_pair=g.row_pair)


def test_numbers_of_numpy_are_numbers():
    """``units=ids.nunique()`` is Python's, ``units=ids.max() + 1`` is numpy's, and was refused."""
    data, one = panel(), np.int64(1)
    typed = {"units": 120, "rows_per_unit": 4, "seed": 3, "level": 0.5}
    numpys = {"units": 120 * one, "rows_per_unit": np.float32(4), "seed": 3 * one, "level": np.float32(0.5)}
    plain, found = (fit(data, **more) for more in (typed, numpys))
    assert found.to_json() == plain.to_json()
    call = {"eps": 1, "delta": 1e-5, "unit": "pid", "inference": False}
    plans = [dp.plan("y ~ x", BOUNDS, n=400 * k, max_rows=2 * k, **call) for k in (1, one)]
    assert str(plans[0]) == str(plans[1])
    with pytest.raises(RequestError, match="units= must be the number of people"):
        fit(data, units=np.float64(120.5))


def test_a_base_level_is_one_of_the_schema_of_the_frame():
    rng = np.random.default_rng(1)
    d = pd.DataFrame({"x": rng.uniform(-1, 1, 2000), "q": rng.choice(list("uvw"), 2000)})
    schema = dp.Schema(x=dp.Real(-1, 1), q=dp.Levels(list("uvw")))
    call = {"unit": None, "bounds": None, "base": "v"}
    given = fit(d, dp.dp_multinom, "q ~ x", schema=schema, **call)
    attached = fit(schema.attach(d), dp.dp_multinom, "q ~ x", **call)
    assert attached.params.equals(given.params)
    assert list(given.params.index) == ["u:Intercept", "u:x", "w:Intercept", "w:x"]
