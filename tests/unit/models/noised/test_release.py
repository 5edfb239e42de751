"""``dp_release``: noise, order, growth, files, refusals."""

import math
import os
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning, NotPrivateWarning, UtilityWarning
from dpmodels.models.noised.calibration import plan_noise, relative_sds
from dpmodels.own.noised import layout_of


def design(formula, schema):
    from dpmodels.formula.build import build_design

    return build_design(formula, schema, na="impute-midpoint", one_sided_ok=True)


def test_distances_of_attributes_and_records(facts):
    lay = layout_of(design("~ a + b + g", facts))
    assert lay.names == ("a", "b", "g[T.v]", "g[T.w]")
    assert lay.attribute("a") == (1.0, 1.0)
    assert lay.attribute("g") == pytest.approx((math.sqrt(2), 2.0))
    assert lay.record == pytest.approx((2.0, 4.0))
    squares = layout_of(design("~ a + I(a**2) + a:b", facts))
    assert squares.attribute("a") == pytest.approx((math.sqrt(3), 3.0))
    assert squares.attribute("b") == (1.0, 1.0)
    assert squares.record == pytest.approx((math.sqrt(3), 3.0))
    two = dp.Schema(g=dp.Levels(["u", "v"]), h=dp.Binary())
    assert layout_of(design("~ g + h", two)).record == pytest.approx((math.sqrt(2), 2.0))
    assert layout_of(design("~ g - 1", two)).record == pytest.approx((math.sqrt(2), 2.0))
    assert layout_of(design("~ a + b", facts), public=["b"]).names == ("a",)


@pytest.mark.parametrize(
    ("eps", "delta", "d", "sl", "laplace", "gaussian"),
    [
        (1, 1e-6, 1, 1.414, 1.414, 4.225),
        (1, 1e-6, 2, 18.11, 2.828, 5.975),
        (1, 1e-6, 3, 397.7, 4.243, 7.317),
        (1, 1e-6, 6, 1242, 8.485, 10.35),
        (5, 1e-6, 3, 8.862, 0.849, 1.697),
        (5, 1e-6, 6, 299, 1.697, 2.401),
        (10, 1e-6, 3, 0.839, 0.424, 0.937),
        (10, 1e-6, 6, 82.4, 0.849, 1.325),
        (1, 1e-3, 6, 39.3, 8.485, 6.307),
    ],
)
def test_cost_of_a_target(eps, delta, d, sl, laplace, gaussian):
    names = [f"x{j}" for j in range(d)]
    schema = dp.Schema(**{c: dp.Real(0, 1) for c in names})
    lay = layout_of(design("~ " + " + ".join(names), schema))
    sds = relative_sds(lay, eps, delta, "record")
    assert [sds[k] for k in ("sl", "laplace", "gaussian")] == pytest.approx(
        [sl, laplace, gaussian], rel=2e-3
    )


def test_auto_chooses_by_public_numbers(facts):
    three = layout_of(design("~ a + b + y", facts))
    one = layout_of(design("~ a", facts))
    assert plan_noise(one, 1, 1e-6).noise == "sl"
    assert plan_noise(three, 1, 0.05).noise == "sl"
    assert plan_noise(three, 1, 1e-6).noise == "laplace"
    assert plan_noise(three, 1, 1e-6, unit="attribute").noise == "laplace"
    assert plan_noise(three, 10, 1e-6).noise == "laplace"
    six = dp.Schema(**{f"x{j}": dp.Real(0, 1) for j in range(6)})
    lay = layout_of(design("~ " + " + ".join(six), six))
    assert plan_noise(lay, 1, 1e-3).noise == "gaussian"
    assert plan_noise(three, 1, 0.0).noise == "laplace"


def test_blocks_of_laplace_noise_are_charged_by_l1_distances():
    """The counterexamples to c_I and to the l2 diameter."""
    four = dp.Schema(**{f"x{j}": dp.Real(0, 1) for j in range(4)})
    lay = layout_of(design("~ x0 + x1 + x2 + x3", four))
    assert plan_noise(lay, 4 * math.sqrt(2), 0.0, noise="laplace").sd == pytest.approx((1.0,) * 4)
    factor = layout_of(design("~ g", dp.Schema(g=dp.Levels(["u", "v", "w"]))))
    plan = plan_noise(factor, 2 * math.sqrt(2), 0.0, noise="laplace", unit="attribute")
    assert plan.sd == pytest.approx((1.0, 1.0))
    powers = layout_of(design("~ x + I(x**2)", dp.Schema(x=dp.Real(0, 1))))
    plan = plan_noise(powers, 2 * math.sqrt(2), 0.0, noise="laplace", unit="attribute")
    assert plan.sd == pytest.approx((1.0, 1.0))
    assert plan.record_pair == pytest.approx((2 * math.sqrt(2), 0.0))


@pytest.mark.parametrize("noise", ["sl", "laplace", "gaussian"])
def test_noise_has_the_planned_size(people, facts, noise):
    """n = 4000 with fixed seeds: sd within 10 %, about 5 standard errors for Laplace tails."""
    frame = people()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        rel = dp.dp_release(
            frame, ["a", "b", "g"], eps=2, delta=0.05, schema=facts, noise=noise,
            seed=4, keep_order=True,
            accept_no_estimate=True,
        )  # fmt: skip
    error = rel.frame["a"] - frame["a"]
    assert error.std() == pytest.approx(rel.noise_sd[0], rel=0.1)
    dummies = (frame.g == "v") * 1.0
    assert (rel.frame["g[T.v]"] - dummies).std() == pytest.approx(rel.noise_sd[2], rel=0.1)
    steps = (rel.values[0] - rel.lower[0]) / (rel.scale[0] * 2.0**-20)
    assert np.abs(steps - np.round(steps)).max() < 1e-6
    if noise == "sl":  # one radius a record: the sizes of a record's noises are dependent
        other = np.abs(rel.frame["b"] - frame["b"])
        assert np.corrcoef(np.abs(error), other)[0, 1] > 0.1


def test_rows_are_permuted_unless_the_order_is_public(noiseless, people, facts):
    frame = people(500)
    frame.index = frame.index + 77
    rel = dp.dp_release(frame, ["a", "b"], eps=1, delta=1e-6, schema=facts, public_columns=["year"], accept_no_estimate=True)
    out = rel.frame
    assert list(out.index) == list(range(500))
    assert not np.allclose(out["a"], frame["a"], atol=1e-5)
    both = frame[["a", "b", "year"]].sort_values("a").to_numpy()
    assert out.sort_values("a")[["a", "b", "year"]].to_numpy() == pytest.approx(both, abs=1e-5)
    kept = dp.dp_release(frame, ["a"], eps=1, delta=1e-6, schema=facts, keep_order=True, accept_no_estimate=True)
    assert kept.frame["a"].to_numpy() == pytest.approx(frame["a"].to_numpy(), abs=1e-5)


def test_odd_cells_are_mapped_row_by_row(noiseless, people, facts):
    frame = people(50)
    frame["a"] = frame["a"].astype(object)
    frame.loc[0, "a"] = np.nan
    frame.loc[1, "a"] = "three"
    frame.loc[2, "b"] = np.inf
    frame.loc[3, "b"] = -7.0
    frame.loc[4, "g"] = "never declared"
    frame.loc[5, "g"] = None
    rel = dp.dp_release(frame, ["a", "b", "g"], eps=1, delta=1e-6, schema=facts, keep_order=True, accept_no_estimate=True)
    out = rel.frame
    whole = people(50)  # rows that are not odd keep their cells
    assert out["a"][6:].to_numpy() == pytest.approx(whole["a"][6:].clip(-1, 1).to_numpy(), abs=1e-5)
    assert out["a"][:2].tolist() == pytest.approx([0.0, 0.0], abs=1e-5)
    assert out["b"][2:4].tolist() == pytest.approx([1.0, 0.0], abs=1e-5)
    assert out[["g[T.v]", "g[T.w]"]].iloc[4:6].to_numpy() == pytest.approx(np.zeros((2, 2)))


def test_appending(people, facts):
    rel = dp.dp_release(people(300), ["a", "b"], eps=4, delta=1e-6, schema=facts, accept_no_estimate=True)
    more = rel.append(people(200, seed=2))
    assert more.n == 500
    assert more.batches == (300, 200)
    assert (more.values[:, :300] == rel.values).all()
    assert more.guarantee == rel.guarantee
    fresh = more.values[:, 300:]
    assert np.abs(fresh - rel.values[:, :200]).min() > 0.0  # noise of its own, not the old again
    with pytest.raises(ValueError, match="no column 'b'"):
        rel.append(people(20)[["a"]])


def test_a_public_id_that_is_there_already_is_refused(people, facts):
    frame = people(50).assign(person_id=np.arange(50))
    rel = dp.dp_release(frame, ["a"], eps=4, delta=1e-6, schema=facts, public_columns=["person_id"], accept_no_estimate=True)
    with pytest.raises(ValueError, match="in the release already"):
        rel.append(frame)
    assert rel.append(frame.assign(person_id=np.arange(50, 100))).n == 100


@pytest.mark.parametrize("table", ["parquet", "csv"])
def test_a_reloaded_release_gives_identical_fits(tmp_path, people, facts, table):
    frame = people(3000)
    rel = dp.dp_release(
        frame, ["y", "a", "b", "g"], eps=30, delta=1e-6, schema=facts, public_columns=["year"], accept_no_estimate=True
    )
    rel.save(tmp_path / "shared", table)
    back = dp.load_release(tmp_path / "shared")
    assert (back.values == rel.values).all()
    assert back.guarantee == rel.guarantee
    assert back.schema == rel.schema
    assert back.blocks == rel.blocks
    one, two = (dp.dp_ols("y ~ a + g + year", r) for r in (rel, back))
    assert one.params.to_numpy().tolist() == two.params.to_numpy().tolist()
    assert one.bse.to_numpy().tolist() == two.bse.to_numpy().tolist()
    assert back.append(people(10).assign(year=1)).n == 3010


@pytest.mark.filterwarnings("ignore:delta = :dpmodels.errors.UtilityWarning")
def test_delta_and_eps_of_a_release(people, facts):
    rel = dp.dp_release(people(100), ["a", "b"], eps=1, delta=0.05, schema=facts, accept_no_estimate=True)
    assert rel.delta_at(1.0) <= 0.05
    assert rel.delta_at(1.0) == pytest.approx(0.05, rel=1e-5)
    assert rel.eps_at(0.05) == pytest.approx(1.0, rel=1e-4)
    assert rel.guarantee.delta_at(1.0) == pytest.approx(rel.delta_at(1.0), rel=1e-12)
    assert rel.guarantee.delta_at(0.4) >= rel.delta_at(0.4)
    assert 0 < rel.tradeoff(0.1) < 0.9
    loose = dp.dp_release(people(100), ["a", "b"], eps=1, delta=0.05, schema=facts, tight=False, accept_no_estimate=True)
    assert (loose.noise_sd > rel.noise_sd).all()


def test_attribute_level_states_what_a_record_gets(people, facts):
    rel = dp.dp_release(
        people(100), ["a", "b", "g"], eps=1, delta=1e-6, schema=facts, level="attribute", accept_no_estimate=True
    )
    assert rel.unit == "attribute"
    assert rel.noise_sd / rel.scale == pytest.approx(
        [math.sqrt(2), math.sqrt(2), 2 * math.sqrt(2), 2 * math.sqrt(2)]
    )
    assert rel.guarantee.record_pair == pytest.approx((3.0, 0.0))
    assert "whole row is not protected" in str(rel.summary())
    budget = dp.Budget(5, 1e-5)
    dp.dp_release(
        people(100), ["a", "b"], eps=1, delta=1e-6, schema=facts, unit="attribute", budget=budget, accept_no_estimate=True
    )
    assert budget.eps_spent(1e-5) == pytest.approx(2.0, rel=1e-4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sl = dp.dp_release(
            people(50), ["a", "b"], eps=1, delta=1e-6, schema=facts, unit="attribute", noise="sl", accept_no_estimate=True
        )
    assert any("SL noise on 2 columns" in str(w.message) for w in caught)
    assert sl.guarantee.record_pair[0] > 1.0


def test_bought_ranges_stand_in_the_ledger(people):
    with pytest.warns(DPModelsWarning, match="NOT PRIVATE"):
        rel = dp.dp_release(people(20000)[["a", "b"]], eps=4, delta=1e-5, seed=1, accept_no_estimate=True)
    names = [s.name for s in rel.guarantee.steps]
    assert names == ["scale of a", "range of a", "scale of b", "range of b", "noised table"]
    assert rel.bought == ("a", "b")
    assert rel.guarantee.steps[-1].mechanism.eps == pytest.approx(0.85 * 4)
    assert rel.guarantee.delta_at(4.0) <= 1e-5
    fit = dp.dp_ols("b ~ a", rel)
    assert list(fit.params.index) == ["Intercept", "a"]
    whole = np.polyfit(people(20000)["a"], people(20000)["b"], 1)[::-1]
    assert np.abs((fit.params.to_numpy() - whole) / fit.bse.to_numpy()).max() < 4.5


def test_ranges_that_cannot_be_bought_give_no_release(people):
    with pytest.raises(dp.errors.NoReplyError, match="charge"):
        dp.dp_release(people(5)[["a"]], eps=1, delta=1e-6, accept_no_estimate=True)


@pytest.mark.filterwarnings("ignore:delta = :dpmodels.errors.UtilityWarning")
def test_clear_records_must_be_asked_for(people, facts):
    frame = people(1000)
    call = dict(eps=1, delta=0.1, schema=facts)
    with pytest.raises(ValueError, match="allow_clear_records=True"):
        dp.dp_release(frame, ["a"], clear_prob=0.05, **call, accept_no_estimate=True)
    with pytest.warns(UtilityWarning, match="UNPERTURBED"):
        dp.dp_release(frame, ["a"], clear_prob=1e-5, **call, accept_no_estimate=True)
    with pytest.warns(UtilityWarning, match="50 of 1000"):
        rel = dp.dp_release(
            frame, ["a", "b"], clear_prob=0.05, allow_clear_records=True, keep_order=True, **call, accept_no_estimate=True
        )
    assert "About 50 records are expected to be released without noise" in str(rel.summary())
    same = np.abs(rel.frame[["a", "b"]] - frame[["a", "b"]]).max(axis=1) < 1e-5
    assert 20 <= same.sum() <= 90
    assert rel.delta_at(1.0) == pytest.approx(0.1, rel=1e-5)
    with pytest.raises(ValueError, match="must be below delta"):
        dp.dp_release(frame, ["a", "b"], clear_prob=0.1, allow_clear_records=True, **call, accept_no_estimate=True)
    with pytest.warns(UtilityWarning):  # one column: p = delta is the pure bound
        dp.dp_release(frame, ["a"], clear_prob=0.1, allow_clear_records=True, **call, accept_no_estimate=True)
    with pytest.raises(ValueError, match="noise='sl' only"):
        dp.dp_release(frame, ["a"], clear_prob=1e-5, noise="laplace", **call, accept_no_estimate=True)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"eps": 0}, "eps must be positive"),
        ({"eps": math.inf}, "eps"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": 0.0, "noise": "sl"}, "delta = 0"),
        ({"delta": 0.0, "noise": "gaussian"}, "delta = 0"),
        ({"clear_prob": 1.0}, "clear_prob"),
        ({"clear_prob": -0.1}, "clear_prob"),
        ({"noise": "lapace"}, "Did you mean 'laplace'"),
        ({"level": "rows"}, "record"),
        ({"level": "record", "unit": "attribute"}, "synonyms"),
        ({"columns": []}, "at least one column"),
        ({"columns": ["aa"]}, "Did you mean 'a'"),
        ({"columns": ["a", "a"]}, "twice"),
        ({"columns": ["a"], "public_columns": ["a"]}, "public"),
        ({"public_columns": ["nope"]}, "no column 'nope'"),
        ({"public_columns": "year"}, "list"),
        ({"bounds": {"a": (1, 1)}}, "lower must be smaller"),
        ({"bounds": {"a": (0, math.inf)}}, "finite"),
        ({"columns": ["a", "t"]}, "levels"),
        ({"keep_order": 1}, "keep_order"),
        ({"seed": 1.5}, "seed"),
        ({"blocks": [["a"]], "noise": "sl", "delta": 0.1}, "exactly once"),
        ({"schema": None, "delta": 0.0}, "declared bounds"),
        ({"budget": 3}, "Budget"),
    ],
)
def test_bad_input(people, facts, change, match):
    frame = people(100).assign(t="text")
    call = {"columns": ["a", "b"], "eps": 1.0, "delta": 1e-6, "schema": facts, **change}
    with pytest.raises(ValueError, match=match):
        dp.dp_release(frame, **call, accept_no_estimate=True)


@pytest.mark.filterwarnings("ignore:delta = :dpmodels.errors.UtilityWarning")
def test_blocks_have_a_radius_each(people, facts):
    frame = people(6000)
    with pytest.warns(NotPrivateWarning):
        rel = dp.dp_release(
            frame, ["a", "b", "y"], eps=8, delta=0.02, schema=facts, noise="sl",
            blocks=[["a", "b"], ["y"]], seed=1, keep_order=True,
            accept_no_estimate=True,
        )  # fmt: skip
    assert rel.blocks == ((0, 1), (2,))
    assert rel.guarantee.delta_at(8.0) <= 0.02
    error = np.abs(rel.frame[["a", "b", "y"]] - frame[["a", "b", "y"]])
    assert error.corr().loc["a", "b"] > 0.1
    assert abs(error.corr().loc["a", "y"]) < 0.08


def test_nothing_of_the_input_frame_travels(people, facts):
    frame = people(30).rename(columns={"a": "a"})
    frame.index = [f"SENTINEL{i}" for i in range(30)]
    frame.attrs["note"] = "SENTINEL"
    rel = dp.dp_release(frame, ["a"], eps=1, delta=1e-6, schema=facts, accept_no_estimate=True)
    text = repr(rel) + str(rel.summary()) + rel.frame.to_csv() + repr(rel.frame.attrs)
    assert "SENTINEL" not in text
    assert b"SENTINEL" not in pickle.dumps(rel)
    assert rel.frame.columns.tolist() == ["a"]


def test_local_sources(people, facts, tmp_path):
    frame = people(200)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for data in (frame.to_dict("list"), tmp_path / "t.parquet", tmp_path / "t.csv", [frame, frame]):
        rel = dp.dp_release(data, ["a", "g"], eps=1, delta=1e-6, schema=facts, accept_no_estimate=True)
        assert rel.n in (200, 400)


def test_release_of_a_release_is_refused(people, facts):
    rel = dp.dp_release(people(30), ["a"], eps=1, delta=1e-6, schema=facts, accept_no_estimate=True)
    with pytest.raises(ValueError, match="release already"):
        dp.dp_release(rel, eps=1, delta=1e-6, accept_no_estimate=True)


def test_frame_is_the_released_table(people, facts):
    rel = dp.dp_release(people(30), ["a", "g"], eps=1, delta=1e-6, schema=facts, accept_no_estimate=True)
    assert isinstance(rel.frame, pd.DataFrame)
    assert rel.frame.shape == (30, 3)
    with pytest.raises((ValueError, AttributeError)):
        rel.values[0, 0] = 1.0


def test_appending_is_charged(people, facts):
    """append() charged nothing, also inside a block: fresh noise on the same rows for free."""
    budget = dp.Budget(10, 1e-5)
    rel = dp.dp_release(people(300), ["a", "b"], eps=4, delta=1e-6, schema=facts, budget=budget, accept_no_estimate=True)
    more = rel.append(people(20, seed=2), budget=budget)
    assert len(budget.charges) == 2 and budget.account.pairs == (8.0, 2e-6)
    assert budget.charges[1].call == "append(a, b)"
    with pytest.raises(dp.errors.BudgetExceededError):
        more.append(people(20, seed=3), budget=budget)
    with dp.Budget(5, 1e-5) as block:
        more.append(people(20, seed=3))
    assert len(block.charges) == 1
    with pytest.raises(dp.errors.BudgetError, match=r"must be a dp\.Budget"):
        rel.append(people(20, seed=4), budget=3)
    seeded = dp.Budget(10, 1e-5)
    with pytest.warns(NotPrivateWarning, match="the release is NOT PRIVATE"):
        rel.append(people(20, seed=5), seed=1, budget=seeded)
    assert seeded.charges[0].guarantee.seeded


def test_bought_ranges_are_not_charged_again(people, facts):
    frame = people(5000)
    rel = dp.dp_release(frame, ["a"], eps=4, delta=1e-6, bounds="private", accept_no_estimate=True)
    budget = dp.Budget(8, 1e-5)
    rel.append(people(20, seed=2), budget=budget)
    steps = budget.charges[0].guarantee.steps
    assert steps == rel.plan.steps and len(steps) < len(rel.guarantee.steps)


def test_the_same_object_or_file_is_refused(tmp_path, people, facts):
    first, second = people(300), people(20, seed=2)
    budget = dp.Budget(100, 1e-3)
    rel = dp.dp_release(first, ["a", "b"], eps=4, delta=1e-6, schema=facts, accept_no_estimate=True)
    more = rel.append(second)
    path = tmp_path / "more.csv"
    people(20, seed=3).to_csv(path, index=False)
    more = more.append(path).append({c: people(9)[c].to_numpy() for c in ("a", "b")})
    pickled = pickle.loads(pickle.dumps(more))
    assert pickled.n == more.n and all(o._path is None for o in pickled.origins)
    for again in (first, second, path, str(path), os.path.relpath(path)):
        with pytest.raises(ValueError, match="in the release already"):
            more.append(again, budget=budget)
    arrays = {"a": np.zeros(3), "b": np.zeros(3)}
    grown = more.append(arrays)
    with pytest.raises(ValueError, match="in the release already"):
        grown.append(dict(arrays), budget=budget)
    with pytest.raises(ValueError, match="not a release"):
        more.append(rel)
    assert not budget.charges and grown.n == more.n + 3
