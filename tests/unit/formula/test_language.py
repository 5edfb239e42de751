"""What each word of the language computes, row by row, and what it does with odd cells."""

import math
import pickle
import time

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import FormulaError
from dpmodels.formula.build import build_design, build_mean_design
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import REGISTERED, register_rowwise
from dpmodels.variables import Binary, Count, Levels, Real, Text

SCHEMA = Schema(
    y=Real(0, 10),
    x=Real(1, 5),
    z=Real(-2, 2),
    w=Real(0, 4),
    u=Real(),
    n=Count(upper=9),
    b=Binary(),
    g=Levels(["a", "b", "c"]),
    o=Levels(["a", "b"], other="rest"),
    e=Levels(["no", "yes"]),
    note=Text(),
    m=Real(0, 10, na=4),
    f=Levels(["p", "q"], na="q"),
    **{"odd name": Real(0, 1), "pH-value": Real(0, 14)},
)


def column(tools, text, cells, design=None):
    """First column after the intercept of ``y ~ text``."""
    design = design or build_design(f"y ~ {text}", SCHEMA)
    df = pd.DataFrame(
        {**{v: [1.0] * len(next(iter(cells.values()))) for v in design.variables}, **cells}
    )
    return tools.fill(design, df)


def test_cut(tools):
    design = build_design("y ~ cut(x, breaks=[2, 3])", SCHEMA)
    assert design.names[1:] == (
        "cut(x, breaks=[2, 3])[T.(2, 3]]",
        "cut(x, breaks=[2, 3])[T.(3, 5]]",
    )
    out = column(tools, "", {"x": [0.0, 2.0, 2.1, 3.0, 3.1, 99.0, np.nan]}, design)
    assert out[1:3, :6].tolist() == [[0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]
    assert np.isnan(out[-1]).tolist() == [False] * 6 + [True]
    named = build_design("y ~ cut(x, breaks=[1, 2, 5], labels=['low', 'high'])", SCHEMA)
    assert named.names[-1].endswith("[T.high]")


def test_hashed(tools):
    design = build_design("y ~ hashed(note, levels=4)", SCHEMA)
    out = column(tools, "", {"note": ["s", "t", None, "s", "u"]}, design)
    assert design.p == 4
    assert np.isnan(out[-1]).tolist() == [False, False, True, False, False]
    assert np.array_equal(out[:-1, 0], out[:-1, 3])
    assert set(np.unique(out[1:-1])) <= {0.0, 1.0}
    again = build_design("y ~ hashed(g, levels=4)", SCHEMA)
    assert again.p == 4


def test_numeric_words(tools):
    x = np.array([1.0, 2.0, 4.0, 5.0])
    for text, want in {
        "unit(x)": (x - 3) / 2,
        "scale(x, center=2, scale=4)": (x - 2) / 4,
        "scale(x, center=False, scale=4)": x / 4,
        "center(x, 2)": x - 2,
        "clip(x, 2, 3)": np.clip(x, 2, 3),
        "minimum(x, 3)": np.minimum(x, 3),
        "np.maximum(x, 3)": np.maximum(x, 3),
        "logistic(x)": 1 / (1 + np.exp(-x)),
        "I(x**-2)": x**-2.0,
        "{(x > 1) & (x < 5)}": [0, 1, 1, 0],
        "{x == 1 or x == 5}": [1, 0, 0, 1],
        "{not x > 2}": [1, 1, 0, 0],
        "{1 < x <= 4}": [0, 1, 1, 0],
        "I(x**0 + 1 - 1)": [1, 1, 1, 1],
    }.items():
        out = column(tools, text, {"x": x})
        assert np.allclose(out[1], want, rtol=0, atol=1e-14), text


def test_levels_in_conditions(tools):
    cells = {"g": ["a", "b", "c", "zz", None]}
    for text, want in {
        "{g == 'b'}": [0, 1, 0],
        "{g != 'b'}": [1, 0, 1],
        "{g in ['a', 'c']}": [1, 0, 1],
        "{g not in ['a']}": [0, 1, 1],
    }.items():
        out = column(tools, text, cells)
        assert out[1, :3].tolist() == want
        assert np.isnan(out[-1]).tolist() == [False] * 3 + [True] * 2


def test_unknown_ranges():
    design = build_design(
        "y ~ u + log(u) + sin(u) + u:g + {u > 3} + clip(u, 0, 1) + I(1 / u)", SCHEMA
    )
    assert design.unknown == (
        "u",
        "log(u)",
        "1 / u" if "1 / u" in design.names else "I(1 / u)",
        "u:g[T.b]",
        "u:g[T.c]",
    )
    assert math.isnan(design.row_norm())


def test_cells_outside_a_domain_are_missing_when_the_range_is_unknown(tools):
    cells = {"u": [1.0, 0.0, -1.0, np.inf, np.nan]}
    for text, missing in {
        "log(u)": [0, 1, 1, 0, 1],
        "sqrt(u)": [0, 0, 1, 0, 1],
        "I(1 / u)": [0, 1, 0, 0, 1],
        "I(u**-1)": [0, 1, 1, 0, 1],
        "log1p(u)": [0, 0, 1, 0, 1],
        "I(u - u)": [0, 0, 0, 1, 1],
        "u:g": [0, 0, 0, 0, 1],
    }.items():
        out = column(tools, text, {**cells, "g": ["a"] * 5})
        assert np.isnan(out[-1]).astype(int).tolist() == missing, text


def test_with_bounds_clips_the_column(tools):
    design = build_design("y ~ u * z", SCHEMA)
    assert design.unknown == ("u", "u:z")
    filled = design.with_bounds({"u": (-1, 1), "u:z": (-3, 3)})
    assert filled.unknown == ()
    out = column(tools, "", {"u": [-9.0, 0.5, np.inf], "z": [2.0, 2.0, 2.0]}, filled)
    assert out[1].tolist() == [-1, 0.5, 1]
    assert out[3].tolist() == [-3, 1, 3]
    assert filled.row_norm() == pytest.approx(math.sqrt(1 + 1 + 4 + 9))
    assert filled.fingerprint != design.fingerprint
    again = pickle.loads(pickle.dumps(filled))
    assert again == filled
    assert len(pickle.dumps(filled)) < 4000
    with pytest.raises(FormulaError, match="Did you mean 'u:z'"):
        design.with_bounds({"uz": (0, 1)})


def test_without_bounds_forgets_declared_ranges_but_not_forms():
    design = build_design("y ~ x + g + bs(z, knots=[0]) + {x > 2} + b + x:g", SCHEMA)
    bare = design.without_bounds()
    assert bare.unknown == ("x", "x:g[T.b]", "x:g[T.c]", "y")
    assert pickle.loads(pickle.dumps(bare)) == bare


def test_subset_weights_offset(tools):
    design = build_design("y ~ x + offset(z)", SCHEMA, subset="x > 2 and g != 'c'", weights="w")
    assert set(design.variables) == {"y", "x", "z", "g", "w"}
    df = pd.DataFrame(
        {
            "y": [3.0, 3, 3, 3, 3],
            "x": [3.0, 1, 3, 3, 3],
            "z": [1.0, 1, 1, 9, 1],
            "g": ["a", "a", "c", "b", "a"],
            "w": [4.0, 4, 4, 1, np.nan],
        }
    )
    out = tools.fill(design, df)
    assert np.isnan(out[-1]).tolist() == [False, True, True, False, True]
    assert out[:, 0].tolist() == [2, 6, 4]
    assert out[:, 3].tolist() == [1, 3, 1]
    assert design.response.interval == (-4, 24)
    assert design.intervals().tolist() == [[0, 2], [0, 10], [-4, 24]]
    assert design.row_norm() == pytest.approx(2 * math.sqrt(26))
    assert pickle.loads(pickle.dumps(design)) == design


@pytest.mark.parametrize("na", ["zero-row", "declared", "impute-midpoint"])
def test_missing_policies(na, tools):
    design = build_design("y ~ x + m + f + o + log(u)", SCHEMA, na=na)
    df = pd.DataFrame(
        {
            "y": [1.0] * 6,
            "x": [np.nan, 3, 3, 3, 3, 3],
            "m": [1.0, np.nan, 1, 1, 1, 1],
            "f": ["p", "p", None, "p", "p", "p"],
            "o": ["a", "a", "a", None, "what", "a"],
            "u": [2.0, 2, 2, 2, 2, -1],
        }
    )
    filled = design.with_bounds({"log(u)": (0, 4)})
    out = tools.fill(filled, df)
    bad = np.isnan(out[-1]).tolist()
    row = {n: i for i, n in enumerate(filled.names)}
    assert out[row["o[T.rest]"], 4] == 1.0  # other= takes every undeclared level
    if na == "zero-row":
        assert bad == [True, True, True, True, False, True]
    if na == "declared":
        assert bad == [True, False, False, False, False, True]
        assert out[row["m"], 1] == 4.0
        assert out[row["f[T.q]"], 2] == 1.0
        assert out[row["o[T.rest]"], 3] == 1.0
    if na == "impute-midpoint":
        assert bad == [False] * 6
        assert out[row["x"], 0] == 3.0
        assert out[row["log(u)"], 5] == 2.0


def test_event_and_class_responses(tools):
    df = pd.DataFrame(
        {"e": ["no", "yes", "maybe", None], "g": ["a", "c", "b", "?"], "x": [1.0] * 4}
    )
    event = build_design("e ~ x", SCHEMA, response_ok="event")
    assert event.response.kind == "event" and event.levels == ("no", "yes")
    assert np.array_equal(tools.fill(event, df)[-1], [0, 1, np.nan, np.nan], equal_nan=True)
    other = build_design("e ~ x", SCHEMA, response_ok="event", event="no")
    assert np.array_equal(tools.fill(other, df)[-1], [1, 0, np.nan, np.nan], equal_nan=True)
    assert pickle.loads(pickle.dumps(other)) == other
    classes = build_design("g ~ x", SCHEMA, response_ok="levels")
    assert classes.response.kind == "class" and classes.levels == ("a", "b", "c")
    assert np.array_equal(tools.fill(classes, df)[-1], [0, 2, 1, np.nan], equal_nan=True)
    assert build_design("b ~ x", SCHEMA, response_ok="event").response.kind == "event"
    assert build_design("{y > 5} ~ x", SCHEMA, response_ok="event").response.kind == "event"


def test_mean_design(tools):
    design = build_mean_design("x + log(w + 1) + z ~ 1", SCHEMA)
    assert design.response is None and design.names == ("x", "log(w + 1)", "z")
    df = pd.DataFrame({"x": [2.0, np.nan], "w": [0.0, 1.0], "z": [1.0, 1.0]})
    out = tools.fill(design, df)
    assert out[:, 0].tolist() == [2, 0, 1]
    assert np.isnan(out[0, 1])
    assert pickle.loads(pickle.dumps(design)) == design


def test_one_sided_and_odd_names(tools):
    design = build_design("~ `odd name` + `pH-value`:x + g", SCHEMA, one_sided_ok=True)
    assert design.names[1] == "odd name"
    out = column(tools, "", {"odd name": [0.5, 9.0], "g": ["b", None]}, design)
    assert out[1, 0] == 0.5
    assert np.isnan(out[0]).tolist() == [False, True]
    assert pickle.loads(pickle.dumps(design)) == design
    quoted = build_design("y ~ Q('odd name') + log(`pH-value` + 1)", SCHEMA)
    assert quoted.names[1] == "Q('odd name')"


def test_matrix_for_prediction():
    design = build_design("y ~ x*g + log(w + 1)", SCHEMA)
    new = pd.DataFrame({"x": [2.0, 9.0, 3.0], "g": ["a", "b", "what"], "w": [0, 0, 0]})
    clip = design.matrix(new)
    assert clip.shape == (3, 7)
    assert clip[0, design.names.index("x")] == 2
    assert clip[1, design.names.index("x")] == 5
    assert np.isnan(clip[2]).all()
    assert design.matrix(new, "extrapolate")[1, design.names.index("x")] == 9
    assert np.isnan(design.matrix(new, "nan")[1]).all()
    one = design.matrix({"x": 2, "g": "a", "w": 0})
    assert one.shape == (1, design.p)
    assert design.matrix({"x": [1, 2], "g": ["a", "b"], "w": [0, 1]}).shape == (2, design.p)
    with pytest.raises(FormulaError, match="no column 'w'"):
        design.matrix({"x": [1], "g": ["a"]})
    with pytest.raises(FormulaError, match="outside"):
        design.matrix(new, "drop")
    bought = build_design("y ~ u", SCHEMA).with_bounds({"u": (0, 1)})
    assert bought.matrix({"u": [5.0]})[0, 1] == 1
    assert bought.matrix({"u": [5.0]}, "extrapolate")[0, 1] == 5


def test_registered_functions(tools):
    register_rowwise("softplus", lambda x: np.logaddexp(0, x), lambda a: (0, a[1] + 1))
    register_rowwise("touchy", lambda x: np.array([math.log(v) for v in x]), (-1, 1))
    register_rowwise("wrong_shape", lambda x: 3.0, (-1, 5))
    try:
        design = build_design("y ~ softplus(z) + touchy(u)", SCHEMA)
        assert design.columns[1].interval == (0, 3)
        out = column(tools, "", {"z": [0.0, 99.0, 0.0], "u": [1.0, -1.0, 99.0]}, design)
        assert out[1].tolist() == pytest.approx([math.log(2), np.logaddexp(0, 2), math.log(2)])
        assert np.isnan(out[-1]).tolist() == [False, True, False]  # only the row that fails
        assert out[2, 2] == 1.0  # clipped to what was claimed
        out = column(tools, "wrong_shape(z)", {"z": [0.0, 1.0]})
        assert out[1].tolist() == [3, 3]
    finally:
        for name in ("softplus", "touchy", "wrong_shape"):
            del REGISTERED[name]


def test_describe_shows_everything_and_no_data():
    shown = dp.describe(
        "y ~ bs(x, knots=[2, 3]) * C(g, contr.helmert) + u",
        dp.Schema(y=dp.Real(0, 10), x=dp.Real(1, 5), g=dp.Levels(list("abcdef")), u=dp.Real()),
    )
    text = str(shown)
    for part in ("Row norm bound", "unknown", "Ranges to be estimated", "row norm 5 for 6 levels"):
        assert part in text
    frame = shown.to_frame()
    assert list(frame.columns) == ["column", "term", "kind", "lower", "upper", "term_norm"]
    assert len(frame) == shown.design.q
    assert "<table" in shown._repr_html_()
    assert pickle.loads(pickle.dumps(shown)).design == shown.design
    short = dp.describe("y ~ x", bounds={"y": (0, 1), "x": (0, 300)})
    assert short.design.row_norm() == pytest.approx(math.hypot(1, 300))
    assert "classes" not in str(dp.describe("g ~ x", SCHEMA))
    with pytest.raises(dp.errors.SchemaNeededError, match="Paste"):
        dp.describe("y ~ x")


def test_fingerprint_and_order_of_variables():
    a, b = build_design("y ~ x + g", SCHEMA), build_design("y ~ x + g", SCHEMA)
    assert a == b and a.fingerprint == b.fingerprint
    assert a.variables == ("y", "x", "g")
    assert list(a.kinds) == ["y", "x", "g"]
    assert build_design("y ~ x + g", SCHEMA.update(x=Real(1, 6))).fingerprint != a.fingerprint
    assert build_design("y ~ x + g", SCHEMA, na="declared").fingerprint != a.fingerprint


def test_subset_reads_cells_before_weights():
    """The cell of a variable is its row of the buffer, which weights multiply."""
    schema = dp.Schema(y=dp.Real(0, 1), x=dp.Real(0, 1), w=dp.Real(0, 1))
    design = build_design("y ~ x", schema, weights="w", subset="x > 0.5")
    cells = {"y": np.array([0.5, 0.5]), "x": np.array([0.6, 0.4]), "w": np.array([0.04, 1.0])}
    out = np.empty((3, 2))
    design.fill({v: cells[v] for v in design.variables}, out)
    np.testing.assert_allclose(out[:, 0], [0.2, 0.12, 0.1])
    assert np.isnan(out[-1, 1])


def test_a_cell_is_mapped_alike_wherever_it_stands():
    """Bit by bit: under add-remove the rows behind the changed one move by one place.

    Checks what the machine at hand does in its vectorised loops; rows that a chunk begins or ends
    with included.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0.01, 9.9, size=(3000, 2)), columns=["a", "b"])
    frame["y"] = rng.normal(size=3000)
    schema = dp.Schema(a=dp.Real(0.01, 10), b=dp.Real(0.01, 10), y=dp.Real(-9, 9))
    design = build_design(
        "y ~ log(a) + log1p(b) + exp(a) + expm1(b) + sqrt(a) + I(a**3) + I(b**1.7) + sin(a) + cos(b)"
        " + a:b + tanh(a) + bs(a, knots=[2.5, 5.0, 7.5]) + poly(b, 3, raw=True) + legendre(a, 4)",
        schema,
    )
    whole = design.matrix(frame)
    whole = np.asarray(whole)
    for start, stop in ((1, 3000), (2, 3000), (3, 2999), (5, 12), (7, 8), (13, 1000)):
        part = np.asarray(design.matrix(frame.iloc[start:stop]))
        assert np.array_equal(part, whole[start:stop])


@pytest.mark.parametrize("engine", ["formulaic", "patsy"])
@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y ~ " + "*".join(f"x{i}" for i in range(20)), "more than 20000 terms"),
        ("y ~ (" + "*".join(f"x{i}" for i in range(20)) + ")", "more than 20000 terms"),
        ("y ~ " + "*".join(f"(x{i} + x{i + 1})" for i in range(19)), "more than 20000 terms"),
        ("y ~ x0 / (" + " * ".join(f"x{i}" for i in range(20)) + ")", "more than 20000 terms"),
        ("y ~ g:h:k", "more than 50000 columns"),
        ("y ~ x0 + C(g) * h * k", "more than 50000 columns"),
    ],
)
def test_a_product_too_long_to_write_out_is_refused_at_once(formula, said, engine):
    """It took from 18 seconds to the end of all memory; a second or less now."""
    if engine == "patsy":
        pytest.importorskip("patsy")
    levels = dp.Levels([f"l{i}" for i in range(60)])
    numbers = {f"x{i}": dp.Real(0, 1) for i in range(20)}
    schema = dp.Schema(y=dp.Real(0, 1), g=levels, h=levels, k=levels, **numbers)
    began = time.perf_counter()
    with pytest.raises(FormulaError, match=said):
        build_design(formula, schema, engine=engine)
    assert time.perf_counter() - began < 5.0
