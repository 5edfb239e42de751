"""Adapters: every kind of table gives the same columns, and says what is public without a cell."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import SourceError
from dpmodels.formula.reading import coerce
from dpmodels.sources.tables import READ_ROWS
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Binary, Levels, Real, Text


def frame(n=200):
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    x[3] = np.nan
    x[5] = np.inf
    return pd.DataFrame(
        {
            "x": x,
            "k": rng.integers(0, 5, n),
            "b": rng.uniform(size=n) < 0.5,
            "g": rng.choice(["u", "v"], n),
        }
    )


#: Before DuckDB 1.5 a relation ends with its connection.
CONNECTIONS = []


def tables(tmp_path):
    import duckdb
    import polars as pl
    import pyarrow as pa

    data = frame()
    data.to_parquet(tmp_path / "t.parquet")
    data.iloc[:100].to_parquet(tmp_path / "a.parquet")
    data.iloc[100:].to_parquet(tmp_path / "b.parquet")
    data.to_csv(tmp_path / "t.csv", index=False)
    data.to_csv(tmp_path / "t.csv.gz", index=False)
    connection = duckdb.connect()
    CONNECTIONS.append(connection)
    connection.register("t", data)
    return {
        "pandas": data,
        "subclass": type("Mine", (pd.DataFrame,), {})(data),
        "dict": {c: data[c].to_numpy() for c in data},
        "polars": pl.from_pandas(data),
        "lazy": pl.from_pandas(data).lazy(),
        "arrow": pa.Table.from_pandas(data, preserve_index=False),
        "duckdb": connection.sql("select * from t"),
        "parquet": tmp_path / "t.parquet",
        "two parquet files": [tmp_path / "a.parquet", str(tmp_path / "b.parquet")],
        "csv": str(tmp_path / "t.csv"),
        "csv.gz": tmp_path / "t.csv.gz",
        "list": [data.iloc[:7], data.iloc[7:]],
        "function": lambda: iter([data.iloc[:50], data.iloc[50:]]),
        "iterator": iter([data]),
        "reader": pa.Table.from_pandas(data, preserve_index=False).to_reader(),
    }


VARIABLES = {"x": Real(-9, 9), "k": Real(0, 5), "b": Real(0, 1), "g": Levels(["u", "v"])}


def read(source):
    chunks = list(source.chunks(list(VARIABLES)))
    return {
        name: np.concatenate([coerce(chunk[name], kind) for chunk in chunks])
        for name, kind in VARIABLES.items()
    }


def test_all_sources_give_the_same_cells(tmp_path):
    data = frame()
    for name, table in tables(tmp_path).items():
        source = as_source(table)
        assert set(source.kinds) >= set(VARIABLES), name
        cells = read(source)
        finite = np.isfinite(data["x"].to_numpy())
        assert cells["x"][finite] == pytest.approx(data["x"][finite].to_numpy()), name
        assert np.isnan(cells["x"][3]), name
        assert cells["k"].tolist() == data["k"].tolist(), name
        assert cells["b"].tolist() == data["b"].astype(float).tolist(), name
        assert cells["g"].tolist() == (data["g"] == "v").astype(int).tolist(), name
        if source.rescannable:
            again = read(source)
            assert again["k"].tolist() == cells["k"].tolist(), name


def test_public_facts_without_a_cell(tmp_path):
    made = tables(tmp_path)
    kinds = as_source(made["pandas"]).kinds
    numbers = {"x": "numeric", "k": "numeric", "b": "bool"}
    assert kinds in ({**numbers, "g": "text"}, {**numbers, "g": "object"})  # text of pandas 2
    assert as_source(made["parquet"]).kinds == {**numbers, "g": "text"}
    assert set(as_source(made["csv"]).kinds.values()) == {"unknown"}
    lengths = {name: as_source(t).n for name, t in made.items() if name != "iterator"}
    for name in ("pandas", "dict", "polars", "arrow", "parquet", "two parquet files", "list"):
        assert lengths[name] == 200, name
    for name in ("lazy", "csv", "function"):
        assert lengths[name] is None, name
    assert not as_source(made["iterator"]).rescannable
    assert not as_source(made["reader"]).rescannable


def test_reads_are_cut_into_chunks():
    source = as_source({"x": np.zeros(READ_ROWS + 5)})
    assert [len(c["x"]) for c in source.chunks(["x"])] == [READ_ROWS, 5]


def test_a_broken_file_is_refused_without_its_content(tmp_path):
    secret = tmp_path / "bad.parquet"
    secret.write_bytes(b"PAR1 zq-sentinel-zq")
    with pytest.raises(SourceError) as caught:
        as_source(secret)
    assert caught.value.__context__ is None
    assert "zq-sentinel" not in str(caught.value)
    for path, words in [("t.kind", "must end in"), ("none.csv", "no file"), ("t.xlsx", "pd.read_excel")]:
        (tmp_path / path).write_text("") if path[0] == "t" else None
        with pytest.raises(SourceError, match=words):
            as_source(tmp_path / path)


def test_parts_of_different_shape_are_refused(tmp_path):
    one, two = frame(10), frame(10).rename(columns={"k": "kk"})
    one.to_parquet(tmp_path / "1.parquet")
    two.to_parquet(tmp_path / "2.parquet")
    with pytest.raises(SourceError, match="same columns"):
        as_source([tmp_path / "1.parquet", tmp_path / "2.parquet"])
    source = as_source([one, two])
    with pytest.raises(SourceError, match="no column 'k'"):
        list(source.chunks(["x", "k"]))


def test_a_progress_bar_shows_rows_only(capsys):

    pytest.importorskip("tqdm")
    data = frame(5000)
    data["y"] = data["k"] + 0.1
    with pytest.warns(dp.errors.NotPrivateWarning):
        dp.dp_ols(
            "y ~ k",
            data,
            eps=2,
            delta=1e-6,
            bounds={"k": (0, 4), "y": (0, 5)},
            progress=True,
            seed=1,
        )
    shown = capsys.readouterr().err
    assert "reading" in shown
    assert "30.0k" in shown  # six passes over 5000 rows, and no other number


def test_a_dataset_of_files_is_read_in_their_order(quiet, tmp_path):
    pa, ds = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30_000, 2)), columns=["x", "y"])
    for i in range(3):
        part = frame.iloc[10_000 * i : 10_000 * (i + 1)]
        part.to_parquet(tmp_path / f"{i}.parquet", row_group_size=3000)
    dataset = ds.dataset(tmp_path)
    assert as_source(dataset).n == 30_000
    call = {"eps": 1, "delta": 1e-6, "bounds": {"x": (-4, 4), "y": (-4, 4)}, "seed": 1}
    expected = dp.dp_ols("y ~ x", frame, **call).params
    pd.testing.assert_series_equal(dp.dp_ols("y ~ x", dataset, **call).params, expected)
    union = ds.dataset([dataset, ds.dataset(pa.Table.from_pandas(frame, preserve_index=False))])
    assert dp.dp_ols("y ~ x", union, **call).nobs == 60_000


def test_a_dataset_of_text_files_is_refused(tmp_path):
    ds = pytest.importorskip("pyarrow.dataset")
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    text = ds.dataset(tmp_path, format="csv")
    for data in (text, ds.dataset([text, text])):
        with pytest.raises(SourceError, match="paths of the CSV files"):
            as_source(data)


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (pd.Series([1.0, 2.0], name="x"), "to_frame"),
        ([{"x": 1, "y": 2}, {"x": 2, "y": 3}], "DataFrame"),
        ({"x": 1.5, "y": 2}, "DataFrame"),
    ],
)
def test_what_is_no_table_is_refused_with_a_remedy(data, remedy):
    with pytest.raises(SourceError, match=remedy):
        as_source(data)


CHUNKED = "x,g,b,y\n" + "".join(f"{i % 9},0{i % 3},{i % 2 == 0},{i}.5\n" for i in range(300))


def parts_of(text):
    """A source of parts whose types pandas guesses part by part, as a generator hides it."""
    import io

    return as_source(lambda: (part for part in pd.read_csv(io.StringIO(text), chunksize=100)))


@pytest.mark.parametrize("cell", ["zq-secret", "", "True", "1e400", "1+2j", "2020-01-01", "007"])
@pytest.mark.parametrize("column", range(4))
def test_one_cell_of_a_part_changes_no_other_row(column, cell):
    """pandas makes text of a part with one odd cell: the others must be read as before."""
    lines = CHUNKED.splitlines()
    cells = lines[250].split(",")
    cells[column] = cell
    lines[250] = ",".join(cells)
    variables = {
        "x": [Real(), Levels(["1", "2", "03"]), Levels([1, 2])],
        "g": [Real(), Levels(["0", "1", "02"]), Text()],
        "b": [Real(), Binary(), Binary(["False", "True"]), Levels(["True", "False"])],
        "y": [Real(), Levels(["0.5", "1.5"]), Text()],
    }
    tables = [parts_of(CHUNKED), parts_of("\n".join(lines) + "\n")]
    for name, kinds in variables.items():
        for kind in kinds:
            before, after = (
                np.concatenate([coerce(c[name], kind) for c in t.chunks([name])]) for t in tables
            )
            assert len(before) == 300 and (before != 0).any()
            differ = ~((before == after) | (np.isnan(before) & np.isnan(after)))
            assert set(np.flatnonzero(differ)) <= {249}, (name, kind)


def test_readers_that_guess_types_part_by_part_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(CHUNKED)
    json = tmp_path / "t.json"
    frame(20).to_json(json, orient="records", lines=True)
    call = {"eps": 1, "delta": 1e-6, "bounds": {"x": (0, 9), "y": (0, 300)}}
    budget = dp.Budget(eps=3, delta=1e-5)
    with pd.read_csv(path, chunksize=100) as reader:
        for data in (reader, [reader], lambda: pd.read_csv(path, chunksize=100)):
            with pytest.raises(SourceError, match="Pass the path"):
                dp.dp_ols("y ~ x", data, budget=budget, **call)
    with pd.read_json(json, lines=True, chunksize=10) as reader, pytest.raises(SourceError):
        as_source(reader)
    assert budget.charges == ()
    assert as_source(path).rescannable  # what the message says to do


def test_parts_of_other_types_are_refused_or_read_cell_by_cell():
    numbers, halves = pd.DataFrame({"x": [1, 2]}), pd.DataFrame({"x": [1.5, np.nan]})
    text = pd.DataFrame({"x": ["01", "2"]})
    both = as_source([numbers, halves])
    got = np.concatenate([coerce(c["x"], Levels(["1", "2"])) for c in both.chunks(["x"])])
    assert got.tolist() == [0, 1, -1, -1] and both.n == 4
    got = np.concatenate([coerce(c["x"], Real()) for c in as_source([halves, text]).chunks(["x"])])
    assert np.array_equal(got, [1.5, np.nan, 1, 2], equal_nan=True)
    same = next(iter(as_source([numbers, numbers]).chunks(["x"])))["x"]
    assert same.dtype == np.int64  # of one type: as it is, whole numbers exact
    with pytest.raises(SourceError, match="the same types") as caught:
        as_source([text, numbers])
    assert "01" not in str(caught.value)
    with pytest.raises(SourceError, match="the same types"):
        list(as_source(iter([text, numbers])).chunks(["x"]))
    dates = pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])})
    with pytest.raises(SourceError, match="'datetime'"):
        as_source([numbers, dates])


def csv_cells(path, text):
    path.write_bytes(text)
    chunks = list(as_source(path).chunks(["x", "g", "t"]))
    return {
        name: np.concatenate([coerce(c[name], kind) for c in chunks])
        for name, kind in {"x": Real(), "g": Levels(["a", "b,c"]), "t": Text()}.items()
    }


ODD_LINES = [
    b'"1,a,2',
    b'1,"a,2',
    b'1,a,"',
    b"1,a\r2,b,3",
    b"1\r,a,2",
    b"",
    b"   ",
    b"1,a,2,3,4",
    b"1,a,2,,,",
    b"1",
    b"\x00",
    b"1,a\x002,3",
    b"\xe2\x82",
    b'1,"a"b,2',
    b'1,"b,c",2',
    b'""""',
    b'5" disk,a,2',
    b"#,;,\t",
    b"\xef\xbb\xbf1,a,2",
    b"1,a,\r",
    b'1,a,"' + b"z" * 140_000 + b'"',
]


@pytest.mark.parametrize("line", ODD_LINES, ids=range(len(ODD_LINES)))
@pytest.mark.parametrize("place", [0, 40, 99])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_of_a_csv_file_is_a_row_whatever_stands_in_it(tmp_path, line, place, end):
    """An unclosed quote swallowed rows, a lone carriage return added one, a long line raised."""
    lines = [b"%d,%s,%d" % (i, [b"a", b'"b,c"'][i % 2], i) for i in range(100)]
    before = csv_cells(tmp_path / "a.csv", end.join([b"x,g,t", *lines]))
    lines[place] = line
    after = csv_cells(tmp_path / "b.csv", end.join([b"x,g,t", *lines]) + end)
    others = np.arange(100) != place
    for name, cells in before.items():
        assert len(after[name]) == 100, name
        np.testing.assert_array_equal(cells[others], after[name][others])


def test_cells_of_a_csv_line(tmp_path):
    text = b'x,g,t\n1,"b,c",2\n2,a\n3,a,2,\n4,a,2,5\n"5",a,q\n6,"a,2\nNA,"NA",\n'
    got = csv_cells(tmp_path / "a.csv", text)
    assert np.array_equal(got["x"], [1, 2, 3, np.nan, 5, np.nan, np.nan], equal_nan=True)
    assert got["g"].tolist() == [1, 0, 0, -1, 0, -1, -1]
    assert (got["t"] == -1).tolist() == [False, True, False, True, False, True, True]


@pytest.mark.parametrize("head", [b"x,y\r1,777\r2,3\r", b'x,"y\n1,777\n', b"x,\x00y\n1,777\n", b""])
def test_a_header_that_is_no_line_is_refused_without_its_content(tmp_path, head):
    (tmp_path / "a.csv").write_bytes(head)
    with pytest.raises(SourceError) as caught:
        as_source(tmp_path / "a.csv")
    assert "777" not in str(caught.value) and caught.value.__context__ is None


def test_random_lines_are_read_as_they_are_alone(tmp_path):
    """Seed 0: lines of the characters that matter; each row is that of a file of one line."""
    rng = np.random.default_rng(0)
    marks = [b"a", b"1", b",", b",", b'"', b'"', b"\r", b" ", b"\xc3", b"\xa9", b"\0", b"NA"]
    lines = [b"".join(rng.choice(marks, rng.integers(0, 9)).tolist()) for _ in range(400)]
    whole = csv_cells(tmp_path / "a.csv", b"x,g,t\n" + b"\n".join(lines) + b"\n")
    for i, line in enumerate(lines):
        alone = csv_cells(tmp_path / "b.csv", b"x,g,t\n" + line + b"\n")
        for name, cells in whole.items():
            np.testing.assert_array_equal(alone[name], cells[i : i + 1], err_msg=repr(line))


def test_a_changed_page_of_parquet_is_noticed(tmp_path, quiet):
    """Where the writer wrote checksums: a flipped bit had been another cell, without a word."""
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    ds = pytest.importorskip("pyarrow.dataset")
    path = tmp_path / "t.parquet"
    cells = np.full(5000, 0.123456789)
    pq.write_table(pa.table({"x": cells, "y": cells}), path, use_dictionary=False,
                   compression="none", write_page_checksum=True)  # fmt: skip
    raw = bytearray(path.read_bytes())
    raw[raw.find(cells[:4].tobytes()) + 100] ^= 1
    path.write_bytes(bytes(raw))
    call = {"eps": 1, "delta": 1e-6, "bounds": {"x": (0, 1), "y": (0, 1)}}
    for table in (path, ds.dataset(path)):
        with pytest.raises(dp.errors.PrivateStageError, match="withheld"):
            dp.dp_mean("x + y ~ 1", table, **call)


def test_a_source_that_fails_after_the_charge_says_that_it_stands(quiet):
    calls = []

    def parts():
        calls.append(1)
        yield pd.DataFrame({"x": np.zeros(50), "y": np.zeros(50)})
        if len(calls) < 3:
            yield pd.DataFrame({"x": np.zeros(9), "y": np.zeros(9)})

    budget = dp.Budget(eps=2, delta=1e-5)
    call = {"eps": 1, "delta": 1e-6, "bounds": {"x": (0, 1), "y": (0, 1)}}
    with pytest.raises(dp.errors.SourceError, match=r"another number of rows.*The charge stands$"):
        dp.dp_mean("x + y ~ 1", parts, budget=budget, **call)
    assert len(budget.charges) == 1
