"""The schema: what may be declared, and its files."""

import math
import pickle

import pandas as pd
import pytest

from dpmodels.errors import SchemaError, SchemaNeededError
from dpmodels.formula.schema import Schema, schema_for
from dpmodels.variables import Binary, Count, Levels, Ordered, Real, Text

SCHEMA = Schema(
    quality=Real(0, 10, label="Quality", unit="points"),
    pH=Real(2.5, 4.5, na=3.3),
    undeclared=Real(),
    region=Levels(["north", "south"], other="elsewhere"),
    grade=Ordered(["low", "mid", "high"], na="mid"),
    codes=Levels([1, 2, 3]),
    smoker=Binary(),
    answer=Binary(["no", "yes"], na=0),
    visits=Count(upper=50),
    visits2=Count(),
    note=Text(),
    **{"odd name": Real(1, 2), 'quo"te': Levels(['a"b', "c\\d", "é\n"])},
)


@pytest.mark.parametrize("form", ["toml", "json"])
def test_round_trip(form, tmp_path):
    text = getattr(SCHEMA, f"to_{form}")()
    again = getattr(Schema, f"from_{form}")(text)
    assert again == SCHEMA
    assert hash(again) == hash(SCHEMA)
    assert list(again) == list(SCHEMA)
    path = tmp_path / f"s.{form}"
    SCHEMA.save(path)
    assert Schema.load(path) == SCHEMA


def test_short_toml_of_the_manual():
    text = (
        '[alcohol]\ntype="real"\nlower=8\nupper=15\n'
        '[region]\ntype="levels"\nlevels=["north", "south"]\nother="elsewhere"\n'
    )
    schema = Schema.from_toml(text)
    assert schema["alcohol"] == Real(8, 15)
    assert schema["region"].codes == ("north", "south", "elsewhere")


def test_pickle_frozen_mapping():
    assert pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA
    with pytest.raises(AttributeError, match="frozen"):
        SCHEMA.x = 1
    assert SCHEMA.update(pH=Real(0, 14))["pH"].interval == (0.0, 14.0)
    assert SCHEMA["pH"].interval == (2.5, 4.5)
    assert "quality" in SCHEMA
    with pytest.raises(SchemaError, match="Did you mean 'quality'"):
        SCHEMA["qualty"]


def test_repr_is_a_schema():
    small = Schema(a=Real(0, 1), b=Levels(["x", "y"]), c=Count(3))
    scope = {c.__name__: c for c in (Schema, Real, Levels, Count)}
    assert eval(repr(small), scope) == small


def test_attach_survives_slicing_and_schema_is_read_back():
    df = pd.DataFrame({"quality": [1.0, 2.0]})
    assert Schema.from_frame_attrs(df) is None
    SCHEMA.attach(df)
    assert Schema.from_frame_attrs(df[:1]) == SCHEMA


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Real(5, 1), r"Did you mean Real\(1, 5\)"),
        (lambda: Real(1, 1), "smaller"),
        (lambda: Real(0, math.inf), "finite"),
        (lambda: Real(math.nan, 1), "finite"),
        (lambda: Real(0), "one bound only"),
        (lambda: Real(upper=3), "one bound only"),
        (lambda: Real("0", "1"), "finite number"),
        (lambda: Real(0, 1, na=2), "outside"),
        (lambda: Levels(["a", "a", "b"]), r"a level is listed twice \(at places 1 and 2\)"),
        (lambda: Levels(["a"]), "at least two"),
        (lambda: Levels("ab"), "list"),
        (lambda: Levels([None, "a"]), "text or a number"),
        (lambda: Levels(["a", "b"], na="c"), "not one of its levels"),
        (lambda: Count(upper=0), "smaller"),
        (lambda: Count(upper=-3), "smaller"),
        (lambda: Binary(["a", "b", "c"]), "exactly two"),
        (lambda: Binary(na=2), "0 or 1"),
        (lambda: Schema(x=7), "variable 'x'.*Real"),
        (lambda: Schema(x={"type": "reel"}), "Did you mean 'real'"),
        (lambda: Schema(x={"type": "real", "lowr": 1}), "Did you mean 'lower'"),
        (lambda: Schema(x=(3, 1)), "variable 'x'"),
        (lambda: Schema.from_toml("[x"), "not valid TOML"),
        (lambda: Schema.from_json("[1]"), "one table per variable"),
    ],
)
def test_bad_declarations_say_what_to_type(build, says):
    with pytest.raises(SchemaError, match=says) as caught:
        build()
    assert caught.value.__context__ is None


COLUMNS = {"quality": "numeric", "alcohol": "numeric", "colour": "text", "ok": "bool"}


def test_schema_for_combines():
    schema = schema_for(
        COLUMNS, Schema(quality=Real(0, 10)), {"alcohol": (8, 15)}, ["quality", "alcohol", "ok"]
    )
    assert schema == Schema(quality=Real(0, 10), alcohol=Real(8, 15), ok=Binary())
    assert list(schema) == ["quality", "alcohol", "ok"]
    assert schema_for(COLUMNS, None, "private", ["alcohol"]) == Schema(alcohol=Real())


def test_text_needs_levels_and_the_template_is_complete():
    with pytest.raises(SchemaNeededError) as caught:
        schema_for(
            COLUMNS,
            None,
            None,
            ["quality", "alcohol", "colour"],
            formula="quality ~ alcohol + colour",
            verb="dp_ols",
        )
    text = str(caught.value)
    assert 'dp_ols needs declared levels for 1 variable of "quality ~ alcohol + colour"' in text
    template = text[text.index("schema = ") :].replace("...", "0, 1", 1)
    template = template.replace("lower=...", "lower=0").replace("upper=...", "upper=1")
    scope = {}
    import dpmodels as dp

    exec(template.replace("\n      ", "\n"), {"dp": dp}, scope)
    assert set(scope["schema"]) == {"quality", "alcohol", "colour"}


def test_levels_written_in_the_formula_are_enough():
    got = schema_for(
        COLUMNS, None, None, ["quality", "colour"], formula='quality ~ C(colour, levels=["r", "w"])'
    )
    assert got["colour"] == Levels(["r", "w"])
    got = schema_for(
        COLUMNS, None, None, ["quality", "colour"], formula="quality ~ hashed(colour, levels=8)"
    )
    assert got["colour"] == Text()


@pytest.mark.parametrize(
    ("bounds", "needed", "says"),
    [
        ({"alcool": (8, 15)}, ["alcohol"], "Did you mean 'alcohol'"),
        ({"alcohol": (15, 8)}, ["alcohol"], r"Did you mean Real\(8, 15\)"),
        ({"alcohol": 3}, ["alcohol"], "pair"),
        ({"alcohol": (1, 2, 3)}, ["alcohol"], "pair"),
        ([1, 2], ["alcohol"], "mapping"),
        ("privat", ["alcohol"], "private"),
        (None, ["alcool"], "Did you mean 'alcohol'"),
    ],
)
def test_bad_bounds(bounds, needed, says):
    with pytest.raises(SchemaError, match=says):
        schema_for(COLUMNS, None, bounds, needed)


def test_template_of_a_formula():
    text = Schema.template("quality ~ log(alcohol) + scale(pH)")
    assert "quality" in text and "alcohol" in text and "pH" in text


def test_a_mapping_will_do_for_a_schema(quiet):
    import pandas as pd

    import dpmodels as dp

    data = pd.DataFrame({"x": [0.5] * 100, "y": [1.0] * 100})
    facts = {"x": dp.Real(0, 1), "y": dp.Real(0, 2)}
    call = {"eps": 1, "delta": 1e-6, "seed": 1}
    one = dp.dp_ols("y ~ x", data, schema=facts, **call)
    assert one.params.equals(dp.dp_ols("y ~ x", data, schema=dp.Schema(**facts), **call).params)
    with pytest.raises(dp.errors.SchemaError, match="mapping from names to variables"):
        dp.dp_ols("y ~ x", data, schema=[dp.Real(0, 1)], **call)


def test_variables_are_given_by_name():
    with pytest.raises(SchemaError, match=r"Schema\(\*\*\{'hours per week'"):
        Schema({"hours per week": Real(1, 99)})
