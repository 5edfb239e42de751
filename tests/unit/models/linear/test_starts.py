"""Fits by scores that start from a method of their own: what holds of each of them."""

import numpy as np
import pytest

import dpmodels as dp


@pytest.fixture(params=["eptr", "gptr"])
def call(request):
    return {"eps": 1.0, "delta": 1e-6, "method": request.param}


def least_squares(frame):
    X = np.column_stack([np.ones(len(frame)), frame["a"], frame["b"]])
    return np.linalg.lstsq(X, frame["y"], rcond=None)[0]


def test_without_noise_and_clipping_it_is_least_squares(noiseless, table, call):
    frame = table(20_000, sd=0.1)
    wide = {"a": (-3, 3), "b": (-3, 3), "y": (-4, 4)}
    fit = dp.dp_ols("y ~ a + b", frame, bounds=wide, **call)
    assert fit.params.to_numpy() == pytest.approx(least_squares(frame), abs=2e-5)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("spoil", ["constant", "duplicate", "all missing", "n = 4", "no noise"])
def test_degenerate_tables_have_an_answer(table, bounds, spoil, call):
    frame = table(4 if spoil == "n = 4" else 2000)
    if spoil == "constant":
        frame["b"] = 0.25
    elif spoil == "duplicate":
        frame["b"] = frame["a"]
    elif spoil == "all missing":
        frame["b"] = np.nan
    elif spoil == "no noise":
        frame["y"] = 0.5 + frame["a"]
    fit = dp.dp_ols("y ~ a + b", frame, bounds=bounds, seed=1, **call)
    if spoil == "all missing" and not fit.released:
        assert "Nothing is estimated" in " ".join(str(fit.summary()).split())
    else:
        assert fit.released and np.isfinite(fit.params).all()


@pytest.mark.usefixtures("quiet")
def test_sources_give_the_same_answer(table, bounds, tmp_path, call):
    frame = table(3000)
    frame.loc[5, "a"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    sources = [frame, tmp_path / "t.parquet", [frame.iloc[:7], frame.iloc[7:]]]
    fits = [dp.dp_ols("y ~ a + b", s, bounds=bounds, seed=5, **call) for s in sources]
    for fit in fits[1:]:
        assert fit.params.to_numpy() == pytest.approx(fits[0].params.to_numpy(), rel=1e-9)
