"""Codebooks become schemas, and schemas codebooks: CSV, REDCap, Frictionless, Stata and SPSS."""

import functools
import json

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import NotPrivateWarning, SchemaError
from dpmodels.formula.reading import coerce
from dpmodels.formula.schema import Schema
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Binary, Count, Date, Levels, Ordered, Real, Text
from tests.unit.formula.test_reading import SCHEMA

CSV = """variable,type,min,max,values,missing codes,description
id,identifier,,,,,Person
age,integer,18,99,,-9;999,"Age, years"
sex,categorical,,,1=female|2=male,9,Sex
smoker,binary,,,no|yes,,Smokes now
pain,ordinal,,,none|some|much,,
visits,count,0,60,,,Visits
born,date,1920-01-01,2005-12-31,,,
income,,,,,,Income
region,,,,north;south;east,,
"""
WANT = Schema(
    id=Text("Person"),
    age=Real(18, 99, missing=[-9, 999], label="Age, years"),
    sex=Levels(["female", "male"], recode={"1": "female", "2": "male"}, missing=[9], label="Sex"),
    smoker=Binary(["no", "yes"], label="Smokes now"),
    pain=Ordered(["none", "some", "much"]),
    visits=Count(60, label="Visits"),
    born=Date("1920-01-01", "2005-12-31"),
    income=Real(label="Income"),
    region=Levels(["north", "south", "east"]),
)


@pytest.mark.parametrize("sep", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_a_csv_codebook(tmp_path, sep, encoding):
    rows = pd.read_csv(pd.io.common.StringIO(CSV), dtype=str, keep_default_na=False)
    rows.loc[rows.variable == "income", "description"] = "Löhne"
    path = tmp_path / "codebook.csv"
    rows.to_csv(path, sep=sep, index=False, encoding=encoding)
    assert Schema.from_codebook(path) == WANT.update(income=Real(label="Löhne"))


REDCAP = '''"Variable / Field Name","Form Name","Section Header","Field Type","Field Label","Choices, Calculations, OR Slider Labels","Field Note","Text Validation Type OR Show Slider Number","Text Validation Min","Text Validation Max",Identifier?,"Branching Logic (Show field only if...)","Required Field?"
record_id,demographics,,text,"Study ID",,,,,,,,
dob,demographics,,text,"Date of birth",,,date_dmy,1920-01-01,2005-12-31,y,,
visit,demographics,,text,Visit,,,date_ymd,2010-01-01,today,,,
age,demographics,,text,"<b>Age</b> at  visit",,,integer,18,110,,,
weight,demographics,,text,Weight,,,number_1dp_comma_decimal,"30,0","250,0",,,
bmi,demographics,,calc,BMI,"round([weight]/1,1)",,,,,,,
sex,demographics,,radio,Sex,"1, Female | 2, Male | 3, Other, or none",,,,,,,
smoke,"Life style",,yesno,"Smokes?",,,,,,,,
agree,"Life style",,truefalse,Agrees,,,,,,,,
race,"Life style",,checkbox,Race,"1, White | 2, Black | -9, Refused",,,,,,,
pain,"Life style",,slider,Pain,none | some | worst,,,,,,,
edu,"Life style",,dropdown,Education,"0, None | 1, School | 2, College",,,,,,,
notes,"Life style",,notes,Notes,,,,,,,,
info,"Life style",,descriptive,"Read this",,,,,,,,
'''


def test_a_redcap_dictionary(tmp_path):
    (tmp_path / "dictionary.csv").write_text(REDCAP, encoding="utf-8")
    found = Schema.from_codebook(tmp_path / "dictionary.csv")
    assert found["dob"] == Date("1920-01-01", "2005-12-31", label="Date of birth")
    assert found["visit"] == Date(label="Visit")  # today is no public last date
    assert found["age"] == Real(18, 110, label="Age at visit")
    assert found["weight"] == Real(30, 250, decimal=",", label="Weight")
    assert found["bmi"] == Real(label="BMI") and found["pain"] == Real(0, 100, label="Pain")
    assert found["sex"].levels == ("Female", "Male", "Other, or none")
    assert found["smoke"].levels == ("No", "Yes") and "info" not in found
    assert found["race____9"].label == "Race: Refused"
    assert [c for c in found if c.startswith("race")] == ["race___1", "race___2", "race____9"]
    assert found["life_style_complete"].levels[2] == "Complete" and found["notes"] == Text("Notes")
    raw = np.array(["1", "2", 3, "male", "Other, or none", ""], object)
    assert coerce(raw, found["sex"]).tolist() == [0, 1, 2, 1, 2, -1]
    assert coerce(np.array(["0", 1, "Checked"], object), found["race___1"]).tolist() == [0, 1, 1]
    api = REDCAP.splitlines()
    api[0] = ("field_name,form_name,section_header,field_type,field_label,select_choices_or_calculations,"
              "field_note,text_validation_type_or_show_slider_number,text_validation_min,"
              "text_validation_max,identifier,branching_logic,required_field")  # fmt: skip
    (tmp_path / "api.csv").write_text("\n".join(api), encoding="utf-8")
    assert Schema.from_codebook(tmp_path / "api.csv") == found


TABLE = {
    "missingValues": ["", "-99", {"value": "NR", "label": "no reply"}],
    "fields": [
        {"name": "id", "type": "string", "title": "Person"},
        {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 99}},
        {"name": "visits", "type": "integer", "constraints": {"minimum": 0, "maximum": 60}},
        {"name": "income", "type": "number", "decimalChar": ",", "groupChar": "."},
        {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}, "missingValues": ["u"]},
        {"name": "edu", "type": "integer", "categoriesOrdered": True,
         "categories": [{"value": 1, "label": "low"}, {"value": 2, "label": "high"}]},
        {"name": "alive", "type": "boolean", "trueValues": ["j", "ja"], "falseValues": ["n"]},
        {"name": "ok", "type": "boolean"},
        {"name": "born", "type": "date", "format": "%d.%m.%Y",
         "constraints": {"minimum": "1920-01-01", "maximum": "2005-12-31"}},
    ],
}  # fmt: skip


def test_a_table_schema(tmp_path):
    path = tmp_path / "schema.json"
    words = {"missing": [-99, "NR"]}
    want = Schema(
        id=Text("Person"), age=Real(18, 99, **words), visits=Count(60, **words),
        income=Real(decimal=",", thousands=".", **words), sex=Levels(["f", "m"], missing=["u"]),
        edu=Ordered(["low", "high"], recode={"1": "low", "2": "high"}, **words),
        alive=Binary(["n", "j"], recode={"ja": "j"}, **words), ok=Binary(**words),
        born=Date("1920-01-01", "2005-12-31", format="%d.%m.%Y", **words),
    )  # fmt: skip
    for whole in (TABLE, {"name": "data", "resources": [{"path": "x.csv", "schema": TABLE}]}):
        path.write_text(json.dumps(whole))
        assert Schema.from_codebook(path) == want


@pytest.mark.parametrize("ending", ["csv", "json"])
@pytest.mark.parametrize("schema", [WANT, SCHEMA], ids=["codebook", "everything"])
def test_back_and_forth(tmp_path, ending, schema):
    path = tmp_path / f"codebook.{ending}"
    schema.to_codebook(path)
    assert Schema.from_codebook(path) == schema
    with pytest.raises(SchemaError, match=r"\.csv or \.json"):
        schema.to_codebook(tmp_path / "codebook.txt")


def sav(path, rows=True):
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.DataFrame({
        "sex": [1.0, 2.0, 9.0, 1.0], "age": [34.0, 99.0, -1.0, 20.0], "pain": [1.0, 2.0, 3.0, 2.0],
        "name": ["a", "b", "c", "d"], "born": pd.to_datetime(["1980-02-01", "1990-01-01", None, "2000-05-06"]),
        "income": [1.5, np.nan, 2.5, 3.5],
    })  # fmt: skip
    pyreadstat.write_sav(
        frame if rows else frame[:0], path,
        column_labels={"sex": "Sex of person", "age": "Age, years"},
        variable_value_labels={"sex": {1.0: "female", 2.0: "male", 9.0: "refused"},
                               "age": {99.0: "unknown", -1.0: "refused"},
                               "pain": {1.0: "none", 2.0: "some", 3.0: "much"}},
        missing_ranges={"sex": [9.0], "age": [99.0, {"lo": -9.0, "hi": -1.0}]},
        variable_measure={"pain": "ordinal"}, variable_format={"born": "DATE11"},
    )  # fmt: skip
    return path


def test_an_spss_file_needs_no_typing(tmp_path):
    path = sav(tmp_path / "study.sav")
    with pytest.raises(SchemaError, match="public=True"):
        Schema.from_file(path)
    found = Schema.from_file(path, public=True)
    assert found == Schema(
        sex=Levels(["female", "male"], recode={"1": "female", "2": "male"}, missing=[9], label="Sex of person"),
        age=Real(missing=["-9 thru -1", 99], label="Age, years"),
        pain=Ordered(["none", "some", "much"], recode={"1": "none", "2": "some", "3": "much"}),
        name=Text(), born=Date(), income=Real(),
    )  # fmt: skip
    empty = sav(tmp_path / "empty.sav", rows=False)
    assert list(Schema.from_file(empty)) == list(found)
    source = as_source(path)
    assert source.n == 4 and not found.problems(path)
    chunk = next(iter(source.chunks(["sex", "age", "born", "pain"])))
    assert coerce(chunk["sex"], found["sex"]).tolist() == [0, 1, -1, 0]
    np.testing.assert_array_equal(coerce(chunk["age"], found["age"]), [34, np.nan, np.nan, 20])
    born = Date("1980-01-01", "2010-01-01")
    np.testing.assert_array_equal(coerce(chunk["born"], born), [31, 3653, np.nan, 7431])
    np.testing.assert_array_equal(coerce(chunk["pain"], found["pain"]), [0, 1, 2, 1])


def test_a_stata_file_is_a_table(tmp_path, monkeypatch):
    pyreadstat = pytest.importorskip("pyreadstat")
    rng = np.random.default_rng(4)
    n = 900
    frame = pd.DataFrame({
        "y": rng.normal(size=n), "g": rng.integers(1, 4, n), "t": rng.integers(0, 90, n).astype(float),
        "when": pd.Timestamp("2010-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
    })  # fmt: skip
    frame["day"] = frame["when"].dt.date
    path = tmp_path / "study.dta"
    pyreadstat.write_dta(
        frame, path, variable_value_labels={"g": {1: "one", 2: "two", 3: "three"}},
        column_labels=["Outcome", "", "", "", ""],
    )  # fmt: skip
    schema = Schema.from_file(path, public=True).update(
        y=Real(-4, 4), t=Real(0, 90), when=Date("2010-01-01", "2013-01-01"),
        day=Date("2010-01-01", "2013-01-01"),
    )  # fmt: skip
    assert as_source(path).kinds["day"] == as_source(path).kinds["when"] == "datetime"
    block = next(iter(as_source(path).chunks(["day", "when"])))
    assert np.array_equal(coerce(block["day"], schema["day"]), coerce(block["when"], schema["when"]))
    assert schema["g"].levels == ("one", "two", "three")
    monkeypatch.setattr("dpmodels.sources.files.READ_ROWS", 256)
    with pytest.warns(NotPrivateWarning):
        fit = dp.dp_ols("y ~ g + t + when", path, eps=50, delta=1e-4, schema=schema, seed=1)
    with pytest.warns(NotPrivateWarning):
        same = dp.dp_ols("y ~ g + t + when", frame, eps=50, delta=1e-4, schema=schema, seed=1)
    assert fit.params.to_list() == same.params.to_list()


@pytest.mark.parametrize("ending", [".por", ".xpt", ".zsav", ".sav", ".dta"])
def test_every_kind_of_file_is_read_in_blocks_like_its_frame(tmp_path, monkeypatch, ending):
    """Numbers, text, dates and missing cells, more rows than a block; labels of columns."""
    pyreadstat = pytest.importorskip("pyreadstat")
    rng = np.random.default_rng(7)
    n = 700
    days = pd.to_datetime("1980-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), unit="D")
    frame = pd.DataFrame(
        {"Y": rng.normal(size=n).round(4), "SEX": rng.choice([1.0, 2.0, 9.0], n),
         "GRP": rng.choice(["a", "b"], n), "BORN": days.date}
    )  # fmt: skip
    frame.loc[::50, "Y"] = np.nan
    path, labels = tmp_path / f"study{ending}", {"SEX": "Sex of person"}
    write = {
        ".por": functools.partial(pyreadstat.write_por, variable_format={"BORN": "DATE11"}),
        ".xpt": functools.partial(pyreadstat.write_xport, file_format_version=8),
        ".zsav": functools.partial(pyreadstat.write_sav, compress=True),
        ".sav": pyreadstat.write_sav, ".dta": pyreadstat.write_dta,
    }[ending]  # fmt: skip
    if ending == ".dta":
        labels = ["", "Sex of person", "", ""]
    write(frame, str(path), column_labels=labels)
    with pytest.raises(SchemaError, match="public=True"):
        Schema.from_file(path)
    found = Schema.from_file(path, public=True)
    assert found["SEX"].label == "Sex of person" and found["BORN"].kind == "date"
    assert found["GRP"].kind == "text" and found["Y"].interval is None
    schema = found.update(
        Y=Real(-4, 4), SEX=Levels([1, 2], missing=[9]), GRP=Levels(["a", "b"]),
        BORN=Date("1980-01-01", "2005-01-01", unit="years"),
    )  # fmt: skip
    monkeypatch.setattr("dpmodels.sources.files.READ_ROWS", 256)
    assert not schema.problems(path)
    clean = frame.assign(BORN=days)
    with pytest.warns(NotPrivateWarning):
        fits = [dp.dp_ols("Y ~ SEX + GRP + BORN", table, eps=50, delta=1e-4, schema=schema, seed=1)
                for table in (path, clean)]  # fmt: skip
    assert fits[0].params.to_list() == fits[1].params.to_list()
    assert fits[0].nobs == n and np.isfinite(fits[0].params).all()


def codebooks(folder):
    """Ten codebooks of four formats, each of variables that need no typing but one in twenty."""
    rng = np.random.default_rng(0)
    for k in range(10):
        variables = {}
        for j in range(40):
            kind = rng.integers(6)
            variables[f"v{j}"] = [
                Real(0, int(rng.integers(1, 100)), missing=[-9]), Levels(["a", "b", "c"], recode={"1": "a"}),
                Count(int(rng.integers(2, 90))), Binary(["no", "yes"]), Ordered(["low", "high"]),
                Date("1920-01-01", "2005-12-31"),
            ][kind]  # fmt: skip
        variables["income"] = Real()
        schema = Schema(**variables)
        if k % 4 < 2:
            path = folder / f"book{k}.{('csv', 'json')[k % 4]}"
            schema.to_codebook(path)
        elif k % 4 == 2:
            path = folder / f"redcap{k}.csv"
            lines = [REDCAP.splitlines()[0]]
            for name, v in variables.items():
                kind = "radio" if v.codes else "yesno" if v.kind == "binary" else "text"
                word = "date_ymd" if v.kind == "date" else "integer"
                low, high = ("1920-01-01", "2005-12-31") if v.kind == "date" else (0, 90)
                ends = (low, high) if name != "income" else ("", "")
                choices = '"1, a | 2, b"' if kind == "radio" else ""
                lines.append(f"{name},f,,{kind},{name},{choices},,{word},{ends[0]},{ends[1]},,,")
            path.write_text("\n".join(lines) + "\n")
        else:
            pyreadstat = pytest.importorskip("pyreadstat")
            path = folder / f"file{k}.sav"
            coded = {n: {1.0: "a", 2.0: "b"} for n, v in variables.items() if v.codes or v.kind == "binary"}
            # a number without labels has no range there: a file of SPSS says none
            pyreadstat.write_sav(pd.DataFrame({n: [1.0] for n in coded}), path, variable_value_labels=coded)
        yield path


def test_ten_codebooks_need_no_typing(tmp_path):
    formats = set()
    for path in codebooks(tmp_path):
        sav_file = path.suffix == ".sav"
        schema = Schema.from_file(path, public=True) if sav_file else Schema.from_codebook(path)
        done = [v for v in schema.values() if v.codes or v.interval is not None]
        assert len(done) >= 0.95 * len(schema), path
        formats.add((path.suffix, path.name[:4]))
    assert len(formats) == 4


def test_a_schema_prints_one_line_a_variable():
    text = str(WANT)
    assert len(text.splitlines()) == len(WANT)
    assert "age     real: 18 to 99; missing: -9, 999" in text and text.splitlines()[1].endswith("Age, years")
    assert "income  real: range to be declared or estimated" in text
    assert "id      text: levels to be declared" in text
    assert str(Schema()) == "Schema()" and str(Schema(unit="id", x=Real(0, 1))).startswith("one person: id")


def test_problems_of_a_table():
    data = pd.DataFrame({"id": ["a"], "age": pd.array(["x"], "string"), "sex": [1], "smoker": [True], "visits": [1],
                         "born": [3], "regon": ["north"], "more": [1.0]})  # fmt: skip
    said = WANT.problems(data)
    text = "\n".join(said)
    for part in ("age: 'age' is a column of text", "smoker: 'smoker' is a column of truth values",
                 "born: 'born' is a column of numbers", "pain: the table has no such column",
                 "region: the table has no such column. Did you mean 'regon'?", "more: not declared"):  # fmt: skip
        assert part in text, part
    assert not any(line.startswith(("sex:", "visits:", "id:")) for line in said)
    assert not Schema(unit="id", a=Real(0, 1)).problems({"id": [1], "a": [0.5]})


BROKEN = [
    ("c.csv", "a,b\n1,2\n", "column name"),
    ("c.csv", "name,type\n", "lists no variable"),
    ("c.csv", "name,type\nx,rael\n", "unknown type 'rael'. Did you mean 'real'"),
    ("c.csv", "name,type\nx,real\nx,real\n", "occurs twice"),
    ("c.csv", "name,type\n,real\n", "line 2"),
    ("c.csv", "name,recode,levels\nx,a,a|b\n", "y=yes"),
    ("c.json", "{", "not valid JSON"),
    ("c.json", "{}", "list of fields"),
]


@pytest.mark.parametrize(("name", "text", "said"), BROKEN)
def test_what_is_wrong_with_a_codebook_is_said(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(SchemaError, match=said):
        Schema.from_codebook(tmp_path / name)
    with pytest.raises(SchemaError, match="no codebook"):
        Schema.from_codebook(tmp_path / "none.csv")
    with pytest.raises(SchemaError, match="from_codebook"):
        Schema.from_file(tmp_path / name, public=True)


def test_a_file_that_is_none(tmp_path):
    pytest.importorskip("pyreadstat")
    (tmp_path / "x.sav").write_bytes(b"secret rows")
    with pytest.raises(SchemaError, match="cannot be read") as caught:
        Schema.from_file(tmp_path / "x.sav", public=True)
    assert "secret" not in str(caught.value) and caught.value.__context__ is None
