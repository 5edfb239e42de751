"""A raw file is read like the clean one: to the last digit, from every source. Seeds are fixed."""

import bz2
import gzip
import json
import lzma
import zipfile

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.__main__ import main
from dpmodels.errors import DPModelsError, NotPrivateWarning, SchemaError, SourceError
from dpmodels.formula.reading import coerce
from dpmodels.sources import lines
from dpmodels.sources.tasks import as_source

pytestmark = pytest.mark.filterwarnings(f"ignore::{NotPrivateWarning.__module__}.NotPrivateWarning")

N = 5000
PAY = {"eps": 1.0, "delta": 1e-6}
FORMULA = "y ~ age + smoker + region + since"
CLEAN = dp.Schema(
    y=dp.Real(0, 10),
    age=dp.Real(18, 90),
    smoker=dp.Levels(["no", "yes"]),
    region=dp.Levels(["Größe", "sud"]),
    since=dp.Real(0, 4018 / 365.2425),
)
DIRTY = dp.Schema(
    y=dp.Real(0, 10),
    age=dp.Real(18, 90, missing=[-9, 99]),
    smoker=dp.Levels(["no", "yes"], recode={"j": "yes", "1": "yes"}, missing=["unbekannt"]),
    region=dp.Levels(["Größe", "sud"]),
    since=dp.Date("2010-01-01", "2021-01-01", format="%d.%m.%Y", unit="years"),
)


def tables(seed=5):
    """The clean table, and the dirty one as text."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 88, N).astype(float)
    gone = rng.random(N) < 0.05
    smoker = rng.integers(0, 2, N)
    unknown = rng.random(N) < 0.03
    region = rng.integers(0, 2, N)
    days = rng.integers(0, 4018, N)
    y = np.clip(0.05 * age + smoker + rng.normal(0, 1, N), 0, 10).round(3)
    date = pd.Timestamp("2010-01-01") + pd.to_timedelta(days, unit="D")
    clean = pd.DataFrame({
        "y": y, "age": np.where(gone, np.nan, age), "since": days / 365.2425,
        "smoker": pd.Series(np.array(["no", "yes"])[smoker]).where(~unknown, None),
        "region": np.array(["Größe", "sud"])[region],
    })  # fmt: skip
    no, yes = ["no", " NO", "No ", "no"], ["yes", "Yes ", "j", "1"]
    spelled = [(yes if s else no)[k] for s, k in zip(smoker, rng.integers(0, 4, N), strict=True)]
    codes = np.where(rng.random(N) < 0.5, "-9", "99")
    dirty = pd.DataFrame({
        "y": [f"{v:.3f}".replace(".", ",") for v in y],
        "age": np.where(gone, codes, [f" {int(v)} " for v in age]),
        "since": date.strftime("%d.%m.%Y"),
        "smoker": pd.Series(spelled).where(~unknown, "Unbekannt "),
        "region": np.array([["Größe ", "SUD"], ["größe", "sud"]])[rng.integers(0, 2, N), region],
    })  # fmt: skip
    return clean, dirty


def dirty_file(path, dirty, encoding="latin-1"):
    path.write_bytes(dirty.to_csv(sep=";", index=False).encode(encoding))
    return path


def numbers(fit):
    return fit.params.to_list(), fit.bse.to_list()


def signed(schema):
    """The schema of text in a frame: the decimal sign is said of each number."""
    return schema.update(y=dp.Real(0, 10, decimal=","),
                         age=dp.Real(18, 90, missing=[-9, 99], decimal=","))  # fmt: skip


@pytest.fixture(scope="module")
def want():
    clean, dirty = tables()
    return numbers(dp.dp_ols(FORMULA, clean, schema=CLEAN, seed=3, **PAY)), dirty


def test_a_dirty_file_fits_like_the_clean_table(tmp_path, want):
    path = dirty_file(tmp_path / "raw.csv", want[1])
    source = dp.read_csv(path, sep=";", decimal=",", encoding="latin-1")
    fit = dp.dp_ols(FORMULA, source, schema=DIRTY, seed=3, **PAY)
    assert numbers(fit) == want[0]
    said = fit.design.schema["y"].to_dict()
    assert said["decimal"] == ","  # a saved fit states how cells were read
    fit.to_json(tmp_path / "fit.json")
    assert dp.load(tmp_path / "fit.json").design.schema == fit.design.schema
    assert '"decimal": ","' in json.dumps(json.loads(fit.to_json()))


def test_so_does_every_other_source(tmp_path, want):
    dirty, schema = want[1], signed(DIRTY)
    made = {"frame": dirty, "dict": dict(dirty), "list": dirty.to_dict("list")}
    made["parts"] = [dirty[:1000], dirty[1000:]]
    made["category"] = dirty.astype({"smoker": "category", "region": "category"})
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq

        made["arrow"] = pa.table(dict(dirty))
        pq.write_table(made["arrow"], tmp_path / "raw.parquet")
        made["parquet"] = tmp_path / "raw.parquet"
    except ImportError:
        pass
    try:
        import polars as pl

        made["polars"], made["lazy"] = pl.from_pandas(dirty), pl.from_pandas(dirty).lazy()
    except ImportError:
        pass
    try:
        import duckdb

        connection = duckdb.connect()
        connection.register("raw", dirty)
        made["duckdb"] = connection.table("raw")
    except ImportError:
        pass
    try:
        import dask.dataframe as dd

        made["dask"] = dd.from_pandas(dirty, npartitions=3)
    except ImportError:
        pass
    for name, data in made.items():
        fit = dp.dp_ols(FORMULA, data, schema=schema, seed=3, **PAY)
        assert numbers(fit) == want[0], name


def test_dates_that_are_dates_are_the_same_numbers(want):
    clean, dirty = tables()
    frame = clean.assign(since=pd.to_datetime(dirty["since"], format="%d.%m.%Y"))
    schema = CLEAN.update(since=DIRTY["since"])
    assert numbers(dp.dp_ols(FORMULA, frame, schema=schema, seed=3, **PAY)) == want[0]


def test_the_command_line_reads_the_file(tmp_path, want, capsys):
    path = dirty_file(tmp_path / "raw.csv", want[1])
    DIRTY.save(tmp_path / "schema.toml")
    call = ["fit", FORMULA, "--data", str(path), "--schema", str(tmp_path / "schema.toml"),
            "--eps", "1", "--delta", "1e-6", "--out", str(tmp_path / "fit.json"), "--sep", ";",
            "--decimal", ",", "--encoding", "latin-1", "--option", "seed=3"]  # fmt: skip
    assert main(call) == 0
    assert numbers(dp.load(tmp_path / "fit.json")) == want[0]
    capsys.readouterr()
    assert main([*call[:-8], *call[-2:]]) != 0  # without the flags
    assert "--sep" in capsys.readouterr().err


STUDY = """
[study]
title = "Raw"
[data]
n = 5000
sep = ";"
decimal = ","
encoding = "latin-1"
[budget]
eps = 1.0
delta = 1e-6
[[release]]
name = "raw"
verb = "ols"
formula = "y ~ age + smoker + region + since"
share = 1.0
"""


def test_a_study_reads_the_file(tmp_path, want, monkeypatch):
    text = STUDY + "".join(f"\n[schema.{line[1:]}" if line.startswith("[") else f"\n{line}"
                           for line in DIRTY.to_toml().splitlines())  # fmt: skip
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    path = dirty_file(tmp_path / "raw.csv", want[1])
    study = dp.Study.read(tmp_path / "study.toml")
    assert study.check().ok, study.check().problems
    assert study.rehearse(tmp_path / "rehearsal").complete
    from dpmodels.privacy import noise

    with monkeypatch.context() as patch:  # the noise of the seed, as a study takes none
        made = noise.make_noise
        patch.setattr("dpmodels.door.make_noise", lambda seed: made(3))
        ran = study.run(path, ledger=tmp_path / "a.ledger", out=tmp_path / "out")
    assert numbers(ran["raw"]) == want[0]
    with pytest.raises(SourceError, match="how a CSV file is written"):
        study.run(want[1], ledger=tmp_path / "b.ledger", out=tmp_path / "out2")


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip"])
def test_compressed_files(tmp_path, want, ending):
    raw = want[1][:200].to_csv(sep="\t", index=False).encode("cp1252")
    path = tmp_path / f"raw.txt.{ending}"
    if ending == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("raw.txt", raw)
    else:
        packed = {"gz": gzip, "bz2": bz2, "xz": lzma}[ending].compress(raw)
        path.write_bytes(packed)
    source = dp.read_csv(path, sep="\t", encoding="cp1252", decimal=",")
    found = np.concatenate([coerce(c["y"], dp.Real(decimal=",")) for c in source.chunks(["y"])])
    assert np.array_equal(found, [float(v.replace(",", ".")) for v in want[1]["y"][:200]])


REFUSED = [
    (b"a;b;c\n1;2;3\n", {}, r"sep=';'"),
    (b"a\tb\n1\t2\n", {}, r"sep='\\t'"),
    (b"a|b\n1|2\n", {"sep": ";", "decimal": "."}, r"sep='\|'"),
    (b"a,b\n1,2\n", {"sep": "\t"}, "sep=','"),
    ("größe,b\n1,2\n".encode("latin-1"), {}, "encoding='latin-1'"),
    ("größe,b\n1,2\n".encode(), {"encoding": "latin-1"}, "Leave encoding out"),
    (b"a,b\n", {"encoding": "utf-16"}, "line by line"),
    (b"a,b\n", {"encoding": "no such"}, "line by line"),
    (b"a,b\n", {"sep": ",", "decimal": ","}, "cut in two"),
    (b"a,b\n", {"sep": ";;"}, "one character"),
    (b"a,b\n", {"decimal": "x"}, "decimal= is one of"),
    (b"a,b\n", {"na": "-9"}, "list of words"),
    (b"a,b\n", {"quotechar": ","}, "must differ"),
    ("a,b\n".encode("utf-16"), {}, "not a header"),
]


@pytest.mark.parametrize(("raw", "options", "said"), REFUSED)
def test_a_file_that_is_read_wrongly_is_refused_by_its_header(tmp_path, raw, options, said):
    (tmp_path / "t.csv").write_bytes(raw)
    with pytest.raises(DPModelsError, match=said):
        dp.read_csv(tmp_path / "t.csv", **options)


def test_semicolons_ask_for_the_decimal_sign(tmp_path):
    (tmp_path / "t.csv").write_text("y;x\n1,5;2\n")
    schema = {"y": dp.Real(0, 2), "x": dp.Real(0, 3)}
    budget = dp.Budget(eps=1, delta=1e-5)
    with budget, pytest.raises(SchemaError, match=r"decimal=.\.."):
        dp.dp_ols("y ~ x", dp.read_csv(tmp_path / "t.csv", sep=";"), schema=schema, **PAY)
    assert not len(budget.charges)


def test_words_for_missing_cells(tmp_path):
    (tmp_path / "t.csv").write_text("g,x\nNone,-9\nmild,1\nNA,2\n")
    levels = dp.Levels(["None", "mild"])
    schema = {"g": levels, "x": dp.Real(0, 3)}
    with pytest.raises(SchemaError, match="na="):
        dp.dp_ols("x ~ g", tmp_path / "t.csv", schema=schema, **PAY)
    source = dp.read_csv(tmp_path / "t.csv", na=["-9"])
    chunk = next(iter(source.chunks(["g", "x"])))
    assert coerce(chunk["g"], levels).tolist() == [0, 1, -1]
    assert np.isnan(coerce(chunk["x"], dp.Real(0, 3))[0])
    with pytest.raises(SchemaError, match="are read as one value"):
        dp.dp_ols("x ~ g", source, schema={**schema, "g": dp.Levels(["-9", "b"])}, **PAY)


ENCODED = ["latin-1", "cp1252", "iso8859-5", "koi8-r", "cp437", "gb18030", "shift_jis", "big5", "euc_kr"]


@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("size", [3, 64, 1 << 20])
def test_a_line_is_decoded_by_itself(tmp_path, monkeypatch, encoding, size):
    """Bytes of no letter at the end of a line take nothing of the next one."""
    monkeypatch.setattr(lines, "_BYTES", size)
    rng = np.random.default_rng(8)
    rows = [bytes(rng.integers(32, 256, rng.integers(0, 12)).astype(np.uint8)) for _ in range(60)]
    rows = [row.replace(b'"', b"x").replace(b";", b"y") for row in rows]
    path = tmp_path / "t.csv"
    path.write_bytes(b"a;b\n" + b"".join(row + b";1\n" for row in rows))
    source = dp.read_csv(path, sep=";", decimal=".", encoding=encoding, na=[])
    assert sum(source.lengths()) == 60
    found = [v for c in source.chunks(["a"]) for v in np.asarray(c["a"], dtype=object)]
    for cell, row in zip(found, rows, strict=True):
        text = (row + b";1").decode(encoding, "replace")
        if text.count(";") == 1 and "\r" not in text:
            want = text.partition(";")[0]
            assert (cell or "") == want or (cell is not None and cell != cell and not want), row


def test_a_line_without_an_end_takes_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_LONGEST_LINE", 1000)
    monkeypatch.setattr(lines, "_BYTES", 300)
    for last in (b"", b"\n3,4\n"):
        (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n" + b"9" * 100_000 + b",7" + last)
        for encoding in ("utf-8", "latin-1", "gb18030"):
            source = dp.read_csv(tmp_path / "t.csv", encoding=encoding)
            cells = [coerce(c["b"], dp.Real()) for c in source.chunks(["b"])]
            want = [2.0, np.nan] + ([4.0] if last else [])
            np.testing.assert_array_equal(np.concatenate(cells), want)


def test_quotes(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n'x;y';1\n'it''s';2\nplain\";3\n'open;4\n")
    source = dp.read_csv(tmp_path / "t.csv", sep=";", decimal=".", quotechar="'")
    cells = [v for c in source.chunks(["a"]) for v in np.asarray(c["a"], dtype=object)]
    assert cells[:3] == ["x;y", "it's", 'plain"'] and len(cells) == 4
    source = dp.read_csv(tmp_path / "t.csv", sep=";", decimal=".", quotechar=None)
    cells = [v for c in source.chunks(["a"]) for v in np.asarray(c["a"], dtype=object)]
    assert cells[1:] == ["'it''s'", 'plain"', "'open"]


def test_features_of_people_read_the_signs_of_the_file(tmp_path):
    (tmp_path / "t.csv").write_text("id;bill\n1;1,5\n1;2,5\n2;3,0\n")
    visits = dp.read_csv(tmp_path / "t.csv", sep=";", decimal=",")
    people = dp.per_person(visits, "id", paid=("sum", "bill"))
    assert next(iter(people.chunks(["paid"])))["paid"].tolist() == [4.0, 3.0]


def test_the_source_can_be_read_again_and_shows_no_cell(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1;secret\n")
    source = as_source(dp.read_csv(tmp_path / "t.csv", sep=";", decimal="."))
    assert "secret" not in repr(source) and source.rescannable
