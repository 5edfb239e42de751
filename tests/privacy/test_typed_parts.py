"""Parts of a table are read by the types of the table: a cell decides how it is read itself.

Each part is typed by its own cells, as readers do: numbers, or text where one cell is none. A
neighbour has one odd cell in one row. The exact sums of a pass may move by what that row moves.
"""

import importlib.util
import io

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import SourceError
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.sources.people import count_people
from dpmodels.sources.rows import Rows
from dpmodels.sources.tables import TypedPart, types_of
from dpmodels.sources.tasks import as_source
from dpmodels.sums.cells import gram_over
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import unit_scale
from dpmodels.units import Person
from dpmodels.variables import Levels, Real

DASK = importlib.util.find_spec("dask") is not None
KINDS = {"y": "numeric", "g": "numeric"}
ROWS = 60
#: "01" is the level 1 where it was read as a number, and no level where it is text.
LEVELS = Schema(y=Real(-1, 1), g=Levels(["1", "2"]))
ODD = ("x", "", "1e400", "nan", "True", "0x1")


def part(seed, odd=None):
    rng = np.random.default_rng(seed)
    cells = [f"0{g}" for g in rng.integers(1, 3, ROWS)]
    if odd is not None:
        cells[7] = odd
    lines = [f"{y:.3f},{g}" for y, g in zip(rng.uniform(-1, 1, ROWS), cells, strict=True)]
    return pd.read_csv(io.StringIO("\n".join(["y,g", *lines])), keep_default_na=False)


def tables(odd):
    """The parts, each typed by its own cells, in the three ways a table can come in parts."""
    frames = [part(0), part(1, odd), part(2)]

    def sums(task):
        return [dp.partial_sums(task, i, frame) for i, frame in enumerate(frames)]

    yield "elsewhere", dp.Elsewhere(KINDS, n=3 * ROWS, sums=sums)
    yield "list", frames
    yield "function", lambda: iter(frames)
    if DASK:
        import dask
        import dask.dataframe as dd

        with dask.config.set({"dataframe.convert-string": False}):
            made = [dask.delayed(frame) for frame in frames]
            yield "dask", dd.from_delayed(made, meta=frames[0].iloc[:0], verify_meta=False)


def integers(table):
    design = build_design("y ~ g", LEVELS)
    source = as_source(table)
    rows = Rows(source, 3 * ROWS, executor=getattr(source, "executor", None))
    return gram_over(rows, design, RowMap(unit_scale(design), np.full(design.q, 1.0))).integers()


@pytest.mark.parametrize("odd", ODD)
def test_one_odd_cell_moves_its_own_row_alone(odd):
    """A row of unit entries adds at most 2^40 to an entry; 60 rows had moved with it."""
    before, after = dict(tables(None)), dict(tables(odd))
    for name in before:
        moved = np.abs(integers(before[name]) - integers(after[name])).max() / 2.0**40
        assert 0.0 <= moved <= 1.0, (name, moved)
        assert integers(before[name])[0, 0] >= (3 * ROWS - 1) * 2**40, name


def test_a_part_of_numbers_is_refused_where_the_table_has_text():
    """What the text was cannot be known any more, and the message says nothing of the cells."""
    frames = [part(1, "x"), part(0)]
    kind = types_of(as_source(frames[0]))["g"]  # "text" or "object", by the release of pandas
    with pytest.raises(SourceError, match=f"column 'g' has the type '{kind}' in the first table"):
        as_source(frames)

    def sums(task):
        return [dp.partial_sums(task, i, frame) for i, frame in enumerate(frames)]

    table = dp.Elsewhere({"y": "numeric", "g": "text"}, n=2 * ROWS, sums=sums)
    with pytest.raises(SourceError, match=r"'text' in the whole table and 'numeric' in a later"):
        integers(table)


def test_categories_of_numbers_are_no_text():
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"g": pd.Series(["01", "2"]).astype("category")})
    numbers = pd.DataFrame({"g": pd.Series([1, 2]).astype("category")})
    assert types_of(as_source(frame)) == {"g": "category"}
    for other in (numbers, {"g": numbers["g"]}, pa.table({"g": pa.array([1]).dictionary_encode()})):
        assert types_of(as_source(other)) == {"g": "category of numbers"}
        with pytest.raises(SourceError, match="as_known"):
            list(TypedPart(as_source(other), {"g": "category"}).chunks(["g"]))
    assert types_of(as_source({"g": frame["g"]})) == {"g": "category"}


def test_a_part_from_a_file_is_read_as_it_is_written(tmp_path):
    path = tmp_path / "part.csv"
    path.write_text("g\n01\nx\n")
    (chunk,) = TypedPart(as_source(path), {"g": "text"}).chunks(["g"])
    assert [str(cell) for cell in chunk["g"]] == ["01", "x"]
    (chunk,) = TypedPart(as_source(path), {"g": "numeric"}).chunks(["g"])
    assert np.asarray(chunk["g"], float)[0] == 1.0


@pytest.mark.parametrize("odd", ["x", None, 2.5])
def test_ids_of_a_part_that_one_cell_has_typed_are_refused(odd):
    """12 people had become 34: of text, "7" is another person than 7, and 2^53 + 1 is no float."""
    big = 2**53 + np.arange(12)
    first = pd.DataFrame({"pid": big, "x": 0.0})
    second = pd.DataFrame({"pid": big, "x": 0.0})
    assert count_people(as_source([first, second]), Person("pid")) == 12
    cells = big.astype(object)
    cells[3] = odd
    typed = pd.Series(cells, dtype=object) if odd == "x" else pd.Series(cells).astype(float)
    for parts in ([first, second.assign(pid=typed)], lambda: iter([first, second.assign(pid=typed)])):
        with pytest.raises(SourceError, match="one person would be two"):
            count_people(as_source(parts), Person("pid"))
