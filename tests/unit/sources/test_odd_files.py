"""Headers and saved files that are odd are refused by name and place."""

import bz2
import gzip
import io
import lzma
import os
import zipfile

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DamagedFileError, DPModelsError, SourceError
from dpmodels.sources.tasks import as_source

PAY = {"eps": 1, "delta": 1e-6}
BOUNDS = {"y": (0, 1), "x": (0, 1)}


def test_a_header_with_a_name_twice(tmp_path):
    (tmp_path / "a.csv").write_text("y,x,x\n" + "0.1,0.2,0.3\n" * 50)
    with pytest.raises(DPModelsError, match="columns 2 and 3 of the header"):
        dp.dp_ols("y ~ x", tmp_path / "a.csv", bounds=BOUNDS, **PAY)


def test_a_file_without_a_line_feed(tmp_path):
    (tmp_path / "a.csv").write_text("0.1,0.2," * 200_000)
    with pytest.raises(DPModelsError, match="not a header"):
        dp.dp_ols("y ~ x", tmp_path / "a.csv", bounds=BOUNDS, **PAY)


def test_a_saved_number_of_many_digits(tmp_path):
    (tmp_path / "a.json").write_text("1" * 5000)
    with pytest.raises(DPModelsError):
        dp.load(tmp_path / "a.json")


def test_remedies_keep_the_model():
    data = {"y": np.linspace(0, 1, 200), "x": np.linspace(0, 1, 200)}
    with pytest.raises(DPModelsError) as said:
        dp.dp_ols("y ~ x + I(x**2", data, bounds=BOUNDS, **PAY)
    assert "x*2" not in str(said.value)
    assert "y ~ x + I(x**2)" in str(said.value)
    with pytest.raises(DPModelsError) as said:
        dp.dp_ols("y ~ csw(x, x)", data, bounds=BOUNDS, **PAY)
    assert "Did you mean" not in str(said.value)


def test_a_plan_takes_ticked_columns():
    plan = dp.plan("y ~ `a<b`", n=1000, bounds={"y": (0, 1), "a<b": (0, 1)}, **PAY)
    assert plan.design.names == ["Intercept", "a<b"] or "a<b" in plan.design.names


def test_headers_are_named_as_pandas_names_them(tmp_path):
    import pandas as pd

    from dpmodels.sources.tasks import as_source

    for line in ('a,b,,"x ""y""",d', "a, b,c", '"",x', "1,2.50,x", "a", "a,b,", '"x"y,z"w"'):
        (tmp_path / "a.csv").write_text(line + "\n" + "1,2,3,4,5\n")
        known = list(pd.read_csv(tmp_path / "a.csv", nrows=0, index_col=False).columns)
        assert list(as_source(tmp_path / "a.csv").kinds) == known


@pytest.mark.parametrize("arrow", [True, False])
def test_a_file_of_many_columns_makes_no_frame_of_them(tmp_path, monkeypatch, arrow):
    """What takes long is a Series for each column of the header: none is made."""
    import importlib.util

    import pandas as pd

    (tmp_path / "a.csv").write_text(
        ",".join(f"c{i}" for i in range(10_000)) + "\n" + (",".join(["0.5"] * 10_000) + "\n") * 60
    )
    made = []
    series = pd.Series.__init__
    monkeypatch.setattr(
        pd.Series, "__init__", lambda self, *a, **k: (made.append(1), series(self, *a, **k))[1]
    )
    found = importlib.util.find_spec
    if not arrow:
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: None if name == "pyarrow" else found(name)
        )
    bounds = {"c0": (0, 1), "c1": (0, 1)}
    assert dp.dp_mean("c0 + c1 ~ 1", tmp_path / "a.csv", bounds=bounds, **PAY) is not None
    assert len(made) < 200


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def _packed(ending, raw):
    if ending != "zip":
        return PACKERS[ending](raw)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", raw)
    return file.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "gb18030"])
@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip"])
def test_of_a_damaged_file_the_call_gives_back_what_was_not_drawn(tmp_path, ending, encoding):
    """With n= nothing is read before the charge; the whole of it goes back, as nothing was drawn."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 1, 60_000), "y": rng.normal(0, 1, 60_000)})
    raw = bytearray(_packed(ending, frame.to_csv(index=False).encode()))
    half = len(raw) // 2 + 1000  # beyond the block of the header
    raw[half : half + 50] = bytes(50)
    path = tmp_path / f"visits.csv.{ending}"
    path.write_bytes(raw)
    call = {"schema": {"x": (0, 1), "y": (-5, 5)}, "eps": 1, "delta": 1e-6}
    table = dp.read_csv(path, encoding=encoding)
    with pytest.raises(
        DamagedFileError, match=f"^visits.csv.{ending}: the compressed file is damaged"
    ):
        dp.dp_ols("y ~ x", table, **call)
    budget = dp.Budget(eps=1, delta=1e-6)
    message = f"^visits.csv.{ending}: .*The budget got back the part for which no noise was drawn$"
    with pytest.raises(DamagedFileError, match=message) as caught:
        dp.dp_ols("y ~ x", table, n=60_000, budget=budget, **call)
    assert caught.value.__context__ is None
    assert budget.eps_spent() == 0.0
    dp.dp_ols("y ~ x", frame, budget=budget, **call)


def test_what_is_no_regular_file_is_refused(tmp_path):
    pipe, folder = tmp_path / "pipe.csv", tmp_path / "folder.parquet"
    os.mkfifo(pipe)
    folder.mkdir()
    for read in (dp.read_csv, as_source, lambda path: as_source([path])):
        with pytest.raises(SourceError, match=r"is a pipe or a device.*Nothing was charged"):
            read(pipe)
    with pytest.raises(SourceError, match=r"is a folder.*Nothing was charged"):
        as_source(folder)
    for ending in (".csv.gz", ".parquet", ".sav"):
        os.mkfifo(tmp_path / f"pipe{ending}")
        with pytest.raises(SourceError, match="is a pipe"):
            dp.dp_ols("y ~ x", tmp_path / f"pipe{ending}", n=9, eps=1, delta=1e-6)
