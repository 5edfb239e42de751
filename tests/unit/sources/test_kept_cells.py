"""Cells of a small file stay between passes: the same fit, fewer readings, by public numbers."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import NotPrivateWarning
from dpmodels.sources import rows as module
from dpmodels.sources.files import CsvSource, ParquetSource

CALL = {"bounds": {"a": (-4, 4), "y": (-9, 9)}, "eps": 2.0, "delta": 1e-6, "seed": 3}


@pytest.fixture(params=["csv", "parquet"])
def path(request, tmp_path):
    rng = np.random.default_rng(0)
    a = rng.normal(size=150_000)
    frame = pd.DataFrame({"a": a, "y": a + rng.normal(size=len(a))})
    frame.loc[5, "a"] = np.nan
    where = tmp_path / f"t.{request.param}"
    if request.param == "csv":
        frame.to_csv(where, index=False)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(where)
    return where


def readings(monkeypatch):
    """Count the passes that decode a file."""
    seen = []
    for source in (CsvSource, ParquetSource):
        for name in ("chunks", "tossed"):
            old = getattr(source, name, None)
            if old is not None:
                monkeypatch.setattr(
                    source, name,
                    lambda self, *args, old=old, **more: (seen.append(1), old(self, *args, **more))[1],
                )  # fmt: skip
    return seen


def fitted(path):
    with pytest.warns(NotPrivateWarning):
        return dp.dp_ols("y ~ a", path, **CALL)


def test_a_small_file_is_decoded_once(path, monkeypatch):
    seen = readings(monkeypatch)
    kept = fitted(path)
    assert len(seen) == 1
    monkeypatch.setattr(module, "KEPT_BYTES", 0)
    again = fitted(path)
    assert len(seen) == 1 + 6
    assert np.array_equal(kept.params, again.params) and str(kept) == str(again)


def test_the_rule_is_one_of_rows_and_columns(path, monkeypatch):
    seen = readings(monkeypatch)
    monkeypatch.setattr(module, "KEPT_BYTES", 8 * 2 * 150_000 - 1)
    fitted(path)
    assert len(seen) == 6
    monkeypatch.setattr(module, "KEPT_BYTES", 8 * 2 * 150_000)
    fitted(path)
    assert len(seen) == 6 + 1


def test_nothing_is_kept_where_the_number_of_rows_is_private(path, monkeypatch):
    seen = readings(monkeypatch)
    with pytest.warns(NotPrivateWarning):
        dp.dp_ols("y ~ a", path, relation="add-remove", n_guess=150_000, **CALL)
    assert len(seen) > 1


def test_cells_are_let_go_at_the_end(path):
    from dpmodels.sources.tasks import as_source

    design = dp.plan("y ~ a", n=150_000, **{k: v for k, v in CALL.items() if k != "seed"}).design
    rows = module.Rows(as_source(path), 150_000, passes=2)
    blocks = [block.copy() for block in rows.blocks(design)]
    assert rows._kept is not None
    again = [block.copy() for block in rows.blocks(design)]
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(blocks, again, strict=True))
    rows.close()
    assert rows._kept is None


def test_the_rows_of_the_next_early_pass_are_kept_where_the_table_is_not(path, monkeypatch):
    """Only with secret coins: of a seed the order of draws is what it stands for."""
    seen = readings(monkeypatch)  # an early pass of 150 000 rows reads every second, by coins
    monkeypatch.setattr(module, "KEPT_BYTES", 8 * 2 * 150_000 // 2)
    fitted(path)
    assert len(seen) == 6
    fit = dp.dp_ols("y ~ a", path, **{**CALL, "seed": None})
    assert len(seen) == 6 + 5
    assert np.isfinite(fit.params).all()
    monkeypatch.setattr(module, "KEPT_BYTES", 8 * 2 * 150_000 // 2 - 1)
    dp.dp_ols("y ~ a", path, **{**CALL, "seed": None})
    assert len(seen) == 6 + 5 + 6


def test_coins_of_a_later_pass_are_its_own(tmp_path, monkeypatch):
    """Every row in as many passes as its coins say, whether a pass is read or was foreseen."""
    pytest.importorskip("pyarrow")
    from dpmodels.sources.rows import Coins
    from dpmodels.sources.tasks import as_source

    n = 150_000
    frame = pd.DataFrame({"a": np.arange(n) / n, "y": np.zeros(n)})
    frame.to_parquet(tmp_path / "t.parquet")
    design = dp.plan("y ~ a", n=n, bounds={"a": (0, 1), "y": (-9, 9)}, eps=1.0, delta=1e-6).design
    monkeypatch.setattr(module, "KEPT_BYTES", 8 * 2 * n // 2)
    seen = readings(monkeypatch)
    streams = [np.random.default_rng(k) for k in range(2)]

    def coins(k, stream, then=()):
        return Coins(8 if k else 1, lambda m: stream.integers(0, 256, m, dtype=np.uint8), then)

    rows = module.Rows(as_source(tmp_path / "t.parquet"), n, passes=3)
    then = tuple(coins(1, stream) for stream in streams)
    passes = [coins(0, None, then), *(coins(1, np.random.default_rng(9)) for _ in range(2))]
    found = [
        np.concatenate([b[1].copy() for b in rows.blocks(design, coins=one)]) for one in passes
    ]
    assert len(seen) == 1 and rows.seen == n
    assert np.array_equal(found[0], np.arange(n) / n)
    for k in range(2):
        places = coins(1, np.random.default_rng(k)).choose(n)
        assert np.array_equal(found[k + 1], places / n)
    assert not np.array_equal(found[1], found[2])
    rows.close()
    assert rows._ahead == []


@pytest.mark.parametrize("kind", [pd.DataFrame, dict])
def test_cells_of_a_frame_are_coerced_once(kind, monkeypatch):
    """Text of a factor is looked up once, numbers once more for their scales; the fit is the same."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=3000)
    table = {"a": a, "g": np.array(["u", "v"], dtype=object)[rng.integers(0, 2, 3000)], "y": a + rng.normal(size=3000)}
    schema = dp.Schema(a=dp.Real(-4, 4), y=dp.Real(-9, 9), g=dp.Levels(["u", "v"]))
    seen, coerce_all = [], module.coerce_all
    monkeypatch.setattr(module, "coerce_all", lambda *a: seen.append(1) or coerce_all(*a))

    def fit():
        seen.clear()
        with pytest.warns(NotPrivateWarning):
            return dp.dp_ols("y ~ a + g", kind(table), schema=schema, eps=2.0, delta=1e-6, seed=3)

    kept, often = fit(), len(seen)
    monkeypatch.setattr(module, "KEPT_BYTES", 0)
    again = fit()
    assert often == 3 < len(seen)
    assert np.array_equal(kept.params, again.params)
