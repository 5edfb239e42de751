"""Gelbach's decomposition: adds up exactly, is that of the data without noise, and has errors."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError

SCHEMA = dp.Schema(y=dp.Real(-12, 12), x=dp.Real(-4, 4), z=dp.Real(-5, 5), w=dp.Real(-5, 5),
                   g=dp.Levels(["a", "b", "c"]))  # fmt: skip


def table(n, seed):
    rng = np.random.default_rng(seed)
    z, w, g = rng.normal(size=n), rng.normal(size=n), rng.integers(0, 3, n)
    x = 0.5 * z - 0.3 * w + 0.4 * (g == 2) + rng.normal(size=n) * 0.7
    y = 1.0 + 0.5 * x + 0.8 * z + 0.4 * w - 0.6 * (g == 2) + rng.normal(size=n)
    return pd.DataFrame({"y": y, "x": x, "z": z, "w": w, "g": np.array(["a", "b", "c"])[g]})


def fitted(data, eps, seed=1):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = dp.dp_moments("y + x + z + w + C(g)", data, eps=eps, delta=1e-6, schema=SCHEMA,
                          method="joint", seed=seed)  # fmt: skip
        return dp.dp_ols("y ~ x + z + w + C(g)", m)


def by_hand(data, held=()):
    """Parts of the change of x: those of single columns, from the data."""
    came = {"z": data["z"], "w": data["w"], "b": data["g"] == "b", "c": data["g"] == "c"}
    came = {name: np.asarray(cells, dtype=float) for name, cells in came.items() if name not in held}
    base = np.column_stack([np.ones(len(data)), data["x"], *(data[h] for h in held)])
    whole = np.column_stack([base, *came.values()])
    beta = np.linalg.lstsq(whole, data["y"], rcond=None)[0]
    gamma = np.linalg.lstsq(base, np.column_stack([*came.values()]), rcond=None)[0][1]
    parts = dict(zip(came, gamma * beta[base.shape[1]:], strict=True))
    return np.linalg.lstsq(base, data["y"], rcond=None)[0][1], beta[1], parts


def test_without_noise_it_is_that_of_the_data():
    data = table(20_000, 3)
    found = fitted(data, 400.0).decompose("x").set_index("term")["estimate"]
    base, full, parts = by_hand(data)
    wanted = {"base": base, "full": full, "explained": base - full, "z": parts["z"],
              "w": parts["w"], "C(g)": parts["b"] + parts["c"]}  # fmt: skip
    assert list(found.index) == list(wanted)
    assert np.allclose(found, list(wanted.values()), atol=5e-3)
    given = fitted(data, 400.0).decompose("x", given="z", groups={"both": ["w", "g"]})
    base, full, parts = by_hand(data, held=("z",))
    assert np.allclose(given["estimate"], [base, full, base - full, base - full], atol=5e-3)


@pytest.mark.parametrize("eps", [0.5, 2.0])
def test_parts_add_up_whatever_the_noise(eps):
    found = fitted(table(20_000, 4), eps).decompose("x").set_index("term")
    parts = found.loc[["z", "w", "C(g)"], "estimate"]
    assert np.isclose(parts.sum(), found.loc["explained", "estimate"], rtol=1e-9)
    assert np.isclose(found["share"].iloc[3:].sum(), 1.0)
    assert found.loc["full", "estimate"] == pytest.approx(fitted(table(20_000, 4), eps).params["x"])


@pytest.mark.statistical
@pytest.mark.parametrize("eps", [4.0, 100.0])
def test_intervals_cover(eps):
    """300 tables, seeds 0 to 299; each part lies in its 95 % interval 92 to 98.4 % of the time.

    False-alarm probability below 1e-2 for each of six parts (binomial, 300 at .95).
    """
    data = table(2_000_000, 9)
    base, full, parts = by_hand(data)
    truth = np.array([base, full, base - full, parts["z"], parts["w"], parts["b"] + parts["c"]])
    inside = np.zeros(6)
    for seed in range(300):
        found = fitted(table(6000, 1000 + seed), eps, seed)
        frame = found.decompose("x")
        inside += (frame["conf_low"] <= truth) & (truth <= frame["conf_high"])
    assert (inside / 300 >= 0.92).all() and (inside / 300 <= 0.984).all(), inside / 300


def test_what_is_typed_is_checked():
    fit = fitted(table(5000, 5), 5.0)
    for call, said in (
        (lambda: fit.decompose("zz"), "not a coefficient"),
        (lambda: fit.decompose("x", groups=["z"]), "must map names to terms"),
        (lambda: fit.decompose("x", groups={"a": "z", "b": ["z"]}), "is named twice"),
        (lambda: fit.decompose("x", given="z", groups={"a": "z"}), "did not enter"),
        (lambda: fit.decompose("x", given=["z", "w", "g"]), "nothing came in"),
    ):
        with pytest.raises(RequestError, match=said):
            call()
