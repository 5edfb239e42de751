"""A cleaned cell is a function of that cell: the stage of a raw table is that of its clean one.

Verbs run their production stage on a raw table, read by its schema, and on the clean table: every
integer that is handed to noise is the same, in any order of the rows and in blocks of any size. A
neighbour of the raw table moves no draw by more than its noise is made for. Seeded: no false alarms.
"""

import numpy as np
import pytest

import dpmodels as dp
from tests.privacy.test_rows_by_themselves import other_blocks, same_value
from tests.replaying import replay_ratios, replay_stage

N = 130
CLEAN = dp.Schema(
    y=dp.Real(-3, 3), a=dp.Real(0, 9), e=dp.Levels(["no", "yes"]), g=dp.Levels(["u", "v", "w"]),
    n=dp.Count(6), t=dp.Real(0, 10), d=dp.Real(0, 30),
)  # fmt: skip
RAW = dp.Schema(
    y=dp.Real(-3, 3, decimal=","), a=dp.Real(0, 9, missing=[-9, 99], decimal="."),
    e=dp.Levels(["no", "yes"], recode={"j": "yes", "0": "no"}, missing=["?"]),
    g=dp.Levels(["u", "v", "w"]), n=dp.Count(6, missing=[9], decimal="."),
    t=dp.Date("2000-01-01", "2000-01-11", format="%d.%m.%Y"), d=dp.Real(0, 30, duration="days"),
)  # fmt: skip
CALLS = [
    ("dp_ols", "y ~ a + e + g + t", "ssp"), ("dp_ols", "y ~ a:g + I(d ** 2)", "ssp"),
    ("dp_glm", "e ~ a + g + d", "scoring"), ("dp_table", "~ g * e", "joint"),
    ("dp_table", "a ~ g", "joint"), ("dp_mean", "a + y + t ~ 1", "clipped"),
    ("dp_glm", "n ~ a + e", "scoring"), ("dp_quantreg", "y ~ a + t", "scoring"),
]  # fmt: skip


def tables(seed):
    rng = np.random.default_rng(seed)
    gone = {name: rng.random(N) < 0.1 for name in "aentd"}
    clean = {
        "y": rng.uniform(-4, 4, N).round(2), "a": rng.integers(0, 12, N).astype(float),
        "e": rng.choice(["no", "yes"], N).astype(object), "n": rng.integers(0, 8, N).astype(float),
        "g": rng.choice(["u", "v", "w", "none"], N).astype(object),
        "t": rng.integers(0, 12, N).astype(float), "d": rng.integers(0, 40, N).astype(float),
    }  # fmt: skip
    for name, rows in gone.items():
        clean[name][rows] = None if name == "e" else np.nan
    written = {"no": [" No", "0", "NO"], "yes": ["j ", "yes", "Yes"]}
    days = np.where(np.isnan(clean["t"]), 0, clean["t"]).astype("m8[D]") + np.datetime64("2000-01-01")
    raw = {
        "y": [str(v).replace(".", ",") for v in clean["y"]],
        "a": [str(rng.choice(["-9", "99.0"])) if v != v else f" {v:g}" for v in clean["a"]],
        "e": ["?" if v is None else str(rng.choice(written[v])) for v in clean["e"]],
        "n": ["09" if v != v else f"{v:.1f}" for v in clean["n"]],
        "g": [str(rng.choice([v, v.upper(), f" {v} "])) for v in clean["g"]],
        "t": ["no date" if m != m else v.astype(object).strftime("%d.%m.%Y")
              for v, m in zip(days, clean["t"], strict=True)],
    }  # fmt: skip
    raw = {name: np.array(cells, dtype=object) for name, cells in raw.items()}
    spans = np.where(np.isnan(clean["d"]), 0, clean["d"]).astype("m8[D]")
    raw["d"] = np.where(np.isnan(clean["d"]), np.timedelta64("NaT", "D"), spans)
    return clean, raw


def plan_of(call, schema):
    verb, formula, method = call
    options = {"family": "poisson"} if formula.startswith("n ") else {}
    return dp.plan(formula, schema, n=N, eps=40.0, delta=1e-4, verb=verb, method=method, **options)


def compared(again, first, what):
    assert set(again) == set(first)
    for name, draw in first.items():
        if draw.kind not in ("normals", "inner", "coin", "table"):
            assert same_value(draw.value, again[name].value), (what, name)


@pytest.mark.parametrize("call", CALLS, ids=lambda c: f"{c[0]} {c[1]}")
def test_the_stage_of_a_raw_table_is_that_of_the_clean_one(call, monkeypatch):
    for seed in range(3):
        clean, raw = tables(seed)
        plan = plan_of(call, RAW)
        first = replay_stage(plan_of(call, CLEAN), clean, 0)
        assert first
        compared(replay_stage(plan, raw, 0), first, "raw")
        for layout, width in ((np.asfortranarray, 7), (np.array, 1)):
            with monkeypatch.context() as patch:
                other_blocks(patch, layout, width)
                compared(replay_stage(plan, raw, 0, first), first, f"blocks of {width}")
        order = np.random.default_rng(seed).permutation(N)
        moved = {name: cells[order] for name, cells in raw.items()}
        compared(replay_stage(plan, moved, 0, first), first, "another order")


ODD = {"y": "1.000,0", "a": "99", "e": "?", "g": " W ", "n": "nine", "t": "31.02.2000",
       "d": np.timedelta64(10**6, "D")}  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda c: f"{c[0]} {c[1]}")
def test_one_odd_cell_moves_no_more_than_is_charged(call):
    _, raw = tables(7)
    others = []
    for names in (["y"], ["a", "e"], ["g", "t"], list(ODD)):
        changed = {name: cells.copy() for name, cells in raw.items()}
        for name in names:
            changed[name][5] = ODD[name]
        others.append(changed)
    ratios = replay_ratios(plan_of(call, RAW), raw, others, seed=1)
    assert max(ratios.values(), default=0.0) <= 1.0 + 1e-9, ratios
