"""What the labels of a file mean, and dates and limits as files write them."""

import decimal
import itertools
import json

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import SchemaError
from dpmodels.formula.codebooks import time_kind
from dpmodels.formula.reading import coerce
from dpmodels.formula.schema import Schema
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Date, Levels, Ordered, Real, Text

nan = np.nan


def sav(path, cells, labels, measures=None, missing=None, write="write_sav"):
    """Write a file of one column "v"; return its schema."""
    pyreadstat = pytest.importorskip("pyreadstat")
    more = {} if measures is None else {"variable_measure": {"v": measures}}
    more |= {} if missing is None else {"missing_ranges": {"v": missing}}
    file = path / ("a.dta" if write == "write_dta" else "a.sav")
    getattr(pyreadstat, write)(
        pd.DataFrame({"v": cells}), file, variable_value_labels={"v": labels}, **more
    )
    return Schema.from_file(file, public=True)


@pytest.mark.parametrize("order", list(itertools.permutations([1.0, 2.0, 3.0]))[1:4])
@pytest.mark.parametrize("measure", ["ordinal", "nominal"])
def test_levels_stand_in_the_order_of_their_codes(tmp_path, order, measure):
    labels = {code: {1.0: "low", 2.0: "mid", 3.0: "high"}[code] for code in order}
    found = sav(tmp_path, [1.0, 2.0, 3.0], labels, measure)["v"]
    assert found.levels == ("low", "mid", "high")
    assert type(found) is (Ordered if measure == "ordinal" else Levels)
    assert coerce(np.array([3.0, 1.0]), found).tolist() == [2, 0]


@pytest.mark.parametrize(
    ("labels", "measure", "is_number"),
    [
        ({0.0: "none", 10.0: "full"}, None, True),
        ({0.0: "none", 10.0: "full"}, "ordinal", True),
        ({0.0: "none", 5.0: "so so", 10.0: "full"}, None, True),
        ({18.0: "18 or less", 99.0: "99 or more"}, "scale", True),
        ({1.0: "one", 2.0: "two", 3.0: "three"}, "scale", True),
        ({0.0: "no", 1.0: "yes"}, None, False),
        ({1.0: "yes", 5.0: "no"}, "nominal", False),
        ({11.0: "a", 12.0: "b", 21.0: "c", 22.0: "d"}, None, False),
    ],
)
def test_a_scale_with_labels_at_its_ends_stays_a_number(tmp_path, labels, measure, is_number):
    cells = [0.0, 3.0, 7.0]
    schema = sav(tmp_path, cells, labels, measure)
    assert isinstance(schema["v"], Real) is is_number
    said = schema.problems(pd.DataFrame({"v": cells}))
    whole = len(labels) == max(labels) - min(labels) + 1
    assert bool(said) is not (is_number or whole)
    if said:
        assert said[0].startswith("v: ") and "read as missing" in said[0]
    if is_number:
        assert coerce(np.array(cells), schema["v"]).tolist() == cells


@pytest.mark.parametrize(
    ("missing", "gone"),
    [
        ([{"lo": -1e308, "hi": -1.0}], [-99, -1]),
        ([{"lo": 90.0, "hi": 99.0}], [90, 95, 99]),
        ([{"lo": 90.0, "hi": 1.7e308}, -1.0], [-1, 90, 95, 99, 150]),
        ([-99.0, 95.0], [-99, 95]),
    ],
)
def test_ranges_of_missing_codes_are_read(tmp_path, missing, gone):
    cells = np.array([-99.0, -1.0, 0.0, 89.5, 90.0, 95.0, 99.0, 150.0])
    want = np.where(np.isin(cells, gone), nan, cells)
    schema = sav(tmp_path, cells, {}, None, missing)
    for column in (
        cells,
        cells.astype(object),
        cells.astype(str),
        pd.Series(cells, dtype="Float64"),
    ):
        declared = dp.Real(decimal=".", missing=schema["v"].missing)
        np.testing.assert_array_equal(coerce(column, declared), want)
    source = as_source(tmp_path / "a.sav")
    np.testing.assert_array_equal(next(iter(source.chunks(["v"])))["v"], want)
    assert Schema.from_toml(schema.to_toml()) == schema
    schema.to_codebook(tmp_path / "back.csv")
    assert Schema.from_codebook(tmp_path / "back.csv") == schema


def test_a_range_of_missing_codes_in_a_factor_and_in_text(tmp_path):
    labels = {1.0: "a", 2.0: "b", 97.0: "refused"}
    found = sav(tmp_path, [1.0, 2.0], labels, "nominal", [{"lo": 90.0, "hi": 99.0}])["v"]
    assert found == Levels(["a", "b"], recode={"1": "a", "2": "b"}, missing=["90 thru 99"])
    with_other = Levels(["a", "b"], other="else", recode={"1": "a"}, missing=["90 thru 99"])
    for cells in ([1, 97, 95, 40], ["1", "97", " 95.0", "40"], [1.0, 97.0, 95.0, 40.0]):
        assert coerce(np.array(cells, object), with_other).tolist() == [0, -1, -1, 2]
    with pytest.raises(SchemaError, match="lies within the missing codes 0 to 5"):
        Levels([3, 7], missing=["0 thru 5"])
    text = sav(tmp_path, ["a", "XX"], {}, None, ["XX"])["v"]
    assert text == Text(missing=["XX"])
    codes = coerce(np.array(["a", "XX", "XX ", None], object), text)
    assert codes[0] > 0 and (codes[1:] == -1).all()


DIGITS = [20200131, 20201231, 20201301]
WANT = [30.0, 365.0, nan]


def digits(kind):
    pa = pytest.importorskip("pyarrow")
    return {
        "numpy": np.array(DIGITS), "floats": np.array([*DIGITS[:2], nan]),
        "int32": np.array(DIGITS, np.int32), "objects": np.array(DIGITS, object),
        "text": np.array(list(map(str, DIGITS)), object), "pandas": pd.Series(DIGITS, dtype="Int64"),
        "Arrow": pa.array(DIGITS), "Arrow, missing": pa.array([*DIGITS[:2], None]),
        "categories": pd.Series(DIGITS).astype("category"), "decimals": pa.array(map(decimal.Decimal, DIGITS), pa.decimal128(20, 2)),
        "a list": DIGITS,
    }[kind]  # fmt: skip


@pytest.mark.parametrize("kind", ["numpy", "floats", "int32", "objects", "text", "pandas", "Arrow",
                                  "Arrow, missing", "categories", "decimals", "a list"])  # fmt: skip
def test_whole_numbers_are_dates_by_their_digits(kind):
    declared = Date("2020-01-01", "2021-01-01", format="%Y%m%d")
    source = as_source({"v": digits(kind)})
    assert not Schema(v=declared).problems({"v": digits(kind)})
    np.testing.assert_array_equal(coerce(next(iter(source.chunks(["v"])))["v"], declared), WANT)


def test_whole_numbers_are_dates_in_files(tmp_path):
    declared = Date("2020-01-01", "2021-01-01", format="%Y%m%d")
    frame = pd.DataFrame({"v": DIGITS, "y": np.zeros(3)})
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    pytest.importorskip("pyreadstat").write_sav(frame, tmp_path / "a.sav")
    for name in ("a.csv", "a.parquet", "a.sav"):
        assert len(Schema(v=declared).problems(tmp_path / name)) == (2 if name == "a.csv" else 1)
        cells = next(iter(as_source(tmp_path / name).chunks(["v"])))["v"]
        np.testing.assert_array_equal(coerce(cells, declared), WANT)


def test_a_number_has_lost_its_first_zero():
    declared = Date("2020-01-01", "2021-01-01", format="%d%m%Y")
    for cells in (np.array([1022020, 31122020]), np.array(["1022020", "31122020"], object)):
        np.testing.assert_array_equal(coerce(cells, declared), [31.0, 365.0])


def test_numbers_without_digits_of_a_date_are_refused_with_advice():
    for format in (None, "%d.%m.%Y"):
        said = Schema(v=Date("2020-01-01", "2021-01-01", format=format)).problems(
            {"v": np.array([1])}
        )
        assert len(said) == 1 and "format='%Y%m%d'" in said[0]


@pytest.mark.parametrize(
    ("shape", "kind"),
    [("E8601DN10", "datetime"), ("DTDATE9", "datetime"), ("MONYY7", "date"), ("MOYR8", "date"),
     ("QYR6", "date"), ("WKYR8", "date"), ("DTMONYY7", "datetime"), ("YYMMDD10", "date"),
     ("YYQ6", "date"), ("WEEKDATX", "date"), ("DTIME8", "time"), ("B8601DN8", "datetime"),
     ("F8.2", ""), ("COMMA12", ""), ("MONTH", ""), ("WKDAY9", "")],
)  # fmt: skip
def test_formats_of_dates(shape, kind):
    class Meta:
        original_variable_types = {"v": shape}

    assert time_kind(Meta, "v") == kind


def test_a_month_of_spss_is_a_date(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    days = pd.to_datetime(["2020-01-01", "2020-03-01"])
    for shape in ("MOYR8", "QYR6", "ADATE10"):
        pyreadstat.write_sav(
            pd.DataFrame({"v": days}), tmp_path / "a.sav", variable_format={"v": shape}
        )
        assert Schema.from_file(tmp_path / "a.sav", public=True)["v"] == Date()
        cells = next(iter(as_source(tmp_path / "a.sav").chunks(["v"])))["v"]
        assert coerce(cells, Date("2020-01-01", "2021-01-01")).tolist() == [0.0, 60.0]


def redcap(path, choices, label="x"):
    head = (
        'Variable / Field Name,Field Type,Field Label,"Choices, Calculations, OR Slider Labels"\n'
    )
    (path / "d.csv").write_text(head + f'v,radio,"{label}","{choices}"\n')
    return Schema.from_codebook(path / "d.csv")["v"]


@pytest.mark.parametrize(
    ("choices", "levels"),
    [
        ("1, <b>Yes</b> | 2, <span style='color:red'>No</span>", ("Yes", "No")),
        ("1, A|B | 2, C, or D", ("A|B", "C, or D")),
        ("1, A | B | 2, C", ("A | B", "C")),
        ("1,Yes|2,No", ("Yes", "No")),
        ("1, <5 years | 2, 5 &ndash; 9 years | 3, >9 &amp; older", ("<5 years", "5 \u2013 9 years", ">9 & older")),
    ],
)  # fmt: skip
def test_choices_of_redcap_with_html_or_a_pipe(tmp_path, choices, levels):
    found = redcap(tmp_path, choices, "<p>How <i>old</i>?</p>")
    assert found.levels == levels and found.label == "How old ?"
    assert dict(found.recode)["2"] == levels[1]


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"type": "number", "constraints": {"minimum": "5", "maximum": "10"}}, "minimum = '5' is not a number"),
        ({"type": "number", "constraints": {"minimum": "low", "maximum": 9}}, "minimum = 'low' is not a number"),
        ({"type": "integer", "constraints": {"minimum": 0, "maximum": "many"}}, "maximum = 'many' is not a number"),
        ({"type": "number", "constraints": {"minimum": True}}, "minimum = True is not a number"),
        ({"type": "number", "bareNumber": False}, "bareNumber = false"),
        ({"type": "date", "constraints": {"minimum": "1.1.2020", "maximum": "2021-01-01"}}, "lower='1.1.2020' is not a date"),
    ],
)  # fmt: skip
def test_limits_that_are_none_are_refused_with_file_and_field(tmp_path, field, said):
    text = json.dumps({"fields": [{"name": "v", **field}]})
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(SchemaError) as caught:
        Schema.from_codebook(tmp_path / "t.json")
    assert str(caught.value).startswith("t.json: v: ") and said in str(caught.value)


@pytest.mark.parametrize(
    "row", ["v,real,zero,10", "v,integer,0,ten", "v,count,,many", "v,date,soon,2021-01-01"]
)
def test_limits_of_a_csv_codebook_that_are_text_are_refused(tmp_path, row):
    (tmp_path / "c.csv").write_text(f"name,type,min,max\n{row}\n")
    with pytest.raises(SchemaError, match=r"^c.csv: v: .*is not a (number|date)"):
        Schema.from_codebook(tmp_path / "c.csv")
