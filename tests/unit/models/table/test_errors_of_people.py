"""Errors of shares and means of people are those of people: their products are released."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models.table.layout import Axis, Block, Layout, Section, table_release
from dpmodels.models.table.people import PairPlan
from dpmodels.sources.people import BlockOfPeople
from tests.one_pass import added

PEOPLE, ROWS = 1500, 8
SCHEMA = {
    "k": dp.Levels(["a", "b", "c"]), "g": dp.Levels(["x", "y"]), "h": dp.Levels(["x", "y"]),
    "y": dp.Real(0, 10),
}  # fmt: skip
CALL = {"unit": "id", "eps": 300, "delta": 1e-6, "schema": SCHEMA}


@pytest.fixture(scope="module")
def data():
    """Three levels that are alike within people in part; a group of people, and one of rows."""
    rng = np.random.default_rng(3)
    own = rng.dirichlet([4, 2, 2], PEOPLE)
    k = [rng.choice(["a", "b", "c"], ROWS, p=p) for p in own]
    person = np.repeat(np.arange(PEOPLE), ROWS)
    return pd.DataFrame(
        {
            "id": person,
            "k": np.concatenate(k),
            "g": np.repeat(rng.choice(["x", "y"], PEOPLE), ROWS),
            "h": rng.choice(["x", "y"], len(person), p=[0.3, 0.7]),
            "y": rng.normal(5, 1, len(person)) + np.repeat(rng.normal(0, 0.7, PEOPLE), ROWS),
        }
    )


def of_people(data, where):
    """The shares of each person's rows."""
    return data.assign(_in=where).groupby("id")["_in"].mean()


def error_of_ratio(top, bottom):
    """The standard error of a ratio of sums over people."""
    return np.sqrt(((top - bottom * top.sum() / bottom.sum()) ** 2).sum()) / bottom.sum()


def test_errors_of_shares(noiseless, data):
    table = dp.dp_table("~ k * h", data, **CALL).tidy().set_index("term")
    alone = dp.dp_mean("one", data.assign(one=(data["k"] == "a") * 1.0), unit="id", eps=60,
                       delta=1e-6, bounds={"one": (0, 1)})  # fmt: skip
    assert table.loc["n[k=a]", "share_std_error"] == pytest.approx(alone.bse["one"], rel=0.03)
    for name, where in (
        ("n[k=a]", data["k"] == "a"),
        ("n[h=y]", data["h"] == "y"),
        ("n[k=b, h=x]", (data["k"] == "b") & (data["h"] == "x")),
    ):
        wanted = of_people(data, where).std() / np.sqrt(PEOPLE)
        assert table.loc[name, "share_std_error"] == pytest.approx(wanted, rel=0.03)
    tested = dp.dp_test("~ k", data, **CALL)
    wanted = of_people(data, data["k"] == "c").std() / np.sqrt(PEOPLE)
    assert tested.bse["share[k=c]"] == pytest.approx(wanted, rel=0.03)


@pytest.mark.parametrize("group", ["g", "h"])
def test_errors_of_means_where_the_group_varies_within_people(noiseless, data, group):
    table = dp.dp_table(f"y ~ {group}", data, **CALL).tidy().set_index("term")
    inside = data[group] == "x"
    sums, rows = (x.groupby(data["id"]).mean() for x in (data["y"] * inside, inside * 1.0))
    wanted = error_of_ratio(sums, rows)
    assert table.loc[f"mean(y)[{group}=x]", "std_error"] == pytest.approx(wanted, rel=0.05)
    tested = dp.dp_test(f"y ~ {group}", data, **CALL)
    assert tested.bse[f"mean(y)[{group}=x]"] == pytest.approx(wanted, rel=0.05)
    assert table.loc["mean(y)", "std_error"] == pytest.approx(
        data.groupby("id")["y"].mean().std() / np.sqrt(PEOPLE), rel=0.05
    )
    other = data["y"] * ~inside
    sums_y = other.groupby(data["id"]).mean()
    influence = (sums - rows * sums.sum() / rows.sum()) / rows.sum()
    influence -= (sums_y - (1 - rows) * sums_y.sum() / (1 - rows).sum()) / (1 - rows).sum()
    apart = np.sqrt((influence**2).sum())
    assert tested.bse["difference: y - x"] == pytest.approx(apart, rel=0.05)


def test_a_difference_of_shares_is_found(noiseless, data):
    """z = 4 to 6 by people: P was .1 where rows of a person count as alike."""
    moved = data.copy()
    at = (moved["g"] == "x") & (np.random.default_rng(8).random(len(moved)) < 0.11)
    moved.loc[at, "k"] = "a"
    shares = of_people(moved, moved["k"] == "a")
    g = moved.groupby("id")["g"].first()
    x, y = (shares[g == level] for level in ("x", "y"))
    z = (x.mean() - y.mean()) / np.hypot(x.std() / np.sqrt(len(x)), y.std() / np.sqrt(len(y)))
    assert 3 < z < 8
    assert dp.dp_test("~ k * g", moved, **CALL).pvalue < 0.01
    text = str(dp.dp_table("~ k + y", moved, by="g", p_values=True, **CALL).summary())
    row = next(line for line in text.splitlines() if line.strip().startswith("k"))
    assert float(row.split()[-1].replace("<", "")) <= 0.01


@pytest.mark.parametrize("formula", ["~ k * h", "y ~ h", "~ k", "y ~ 1"])
def test_tests_of_nothing_reject_as_often_as_they_say(quiet, formula):
    """80 tests of a true null at .05, seeds fixed: 12 or more rejections once in 3 000."""
    rejected = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        person = np.repeat(np.arange(300), 6)
        own = rng.dirichlet([3, 3], 300)[:, 0]
        frame = pd.DataFrame({"id": person, "h": rng.choice(["x", "y"], 1800)})
        frame["k"] = np.where(rng.random(1800) < own[person], "a", "b")
        frame["y"] = rng.normal(5, 1, 1800) + rng.normal(0, 1, 300)[person]
        schema = {**SCHEMA, "k": dp.Levels(["a", "b"])}
        options = {"mu0": 5.0} if formula == "y ~ 1" else {}
        fit = dp.dp_test(
            formula, frame, seed=seed, **{**CALL, "eps": 3, "schema": schema}, **options
        )
        rejected += fit.pvalue < 0.05
    assert rejected < 12


def test_too_much_noise_gives_the_bound(quiet, data):
    """At a small eps the error of a share is that of rows that count as one person each."""
    fit = dp.dp_table("~ k", data, seed=1, **{**CALL, "eps": 0.01})
    row = fit.tidy().iloc[0]
    sampling = np.sqrt(max(row["share_std_error"] ** 2 - (row["std_error"] / PEOPLE) ** 2, 0.0))
    p = min(max(row["share"], 0.0), 1.0)
    assert sampling >= 0.9 * np.sqrt(p * (1 - p) / PEOPLE)


# -- One person is one unit of mass in the products of every table


def products(people, layout, unused=False):
    """The products that people add, each a (q, T) array of rows."""
    plan = PairPlan.of(layout, "gaussian", 1.0)
    mass = (lambda rows: rows[-1]) if unused else None
    design = SimpleNamespace(intervals=lambda: np.array([[-1.0, 1.0]] * 3), mass_place=None)
    blocks = [layout.blocks[b] for b in plan.blocks]
    release = table_release("", layout, plan.noise.shares, design, mass, pairs=blocks)
    counts = np.array([person.shape[1] for person in people])
    block = BlockOfPeople(np.hstack(people), np.cumsum(counts) - counts, counts)
    return added(release, [block]).arrays[0], release.into.released


@pytest.mark.parametrize("unused", [False, True])
def test_a_person_is_one_unit_whatever_its_rows(unused):
    axes = (
        Axis("g", 0, "level", ("x", "y", "(missing)")),
        Axis("v", 1, "number", ("low", "middle", "high", "(missing)")),
    )
    layout = Layout(
        axes, (Block((0,)), Block((0, 1), 1)), (Section("counts", (0,)),), unused=unused
    )
    rng = np.random.default_rng(1)
    people = []
    for rows in (1, 2, 3, 7, 40, 1000):
        for wild in (False, True):
            v = rng.choice([-1e300, np.nan, np.inf, 1.0, -1.0, 1e-9], rows) if wild else (
                rng.uniform(-1, 1, rows)
            )  # fmt: skip
            u = rng.choice([0.0, 1.0, 0.3], rows)
            people.append(np.stack([rng.integers(0, 3, rows) * 1.0, v, u]))
    whole, sizes = products(people, layout, unused)
    each = [products([person], layout, unused)[0] for person in people]
    np.testing.assert_array_equal(whole, np.sum(each, axis=0))  # own rows alone
    ends = np.cumsum((0, *sizes))
    for one in each:
        for a, b in itertools.pairwise(ends):
            assert (one[a:b] >= 0).all() and one[a:b].sum() == 2**20
    for one, person in zip(each, people, strict=True):
        order = rng.permutation(person.shape[1])
        np.testing.assert_array_equal(products([person[:, order]], layout, unused)[0], one)
    for one, other in itertools.combinations(each, 2):
        for a, b in itertools.pairwise(ends):
            moved = (one[a:b] - other[a:b]) / 2**20
            assert np.abs(moved).sum() <= 2 and (moved**2).sum() <= 2
