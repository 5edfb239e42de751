"""Every way of reading private state is refused without data, with something to paste."""

import re
import traceback

import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import FormulaError, FormulaPrivacyError
from dpmodels.formula.build import build_design, build_mean_design
from dpmodels.formula.parser import needed_variables
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import REGISTERED, register_rowwise
from dpmodels.variables import Binary, Levels, Real, Text

SCHEMA = Schema(
    quality=Real(0, 10),
    alcohol=Real(8, 15),
    pH=Real(2.5, 4.5),
    z=Real(-1, 1),
    u=Real(),
    region=Levels(["north", "south", "east"]),
    two=Levels(["no", "yes"]),
    b=Binary(),
    note=Text(),
)

# expression -> what the refusal must offer
PRIVATE = {
    "scale(alcohol)": "I((alcohol - 11.5) / 3.5)",
    "scale(u)": "I((u - ...) / ...)",
    "standardize(alcohol)": "I((alcohol - 11.5) / 3.5)",
    "center(alcohol)": "I(alcohol - 11.5)",
    "scale(alcohol, center=True)": "center=11.5, scale=3.5",
    "poly(alcohol, 2)": "legendre(alcohol, 2)",
    "bs(alcohol, df=5)": "bs(alcohol, knots=[10.33, 12.67])",
    "bs(u, df=5)": "u = dp.Real(lower=..., upper=...)",
    "bs(u, knots=[1])": "u = dp.Real(lower=..., upper=...)",
    "legendre(u, 3)": "u = dp.Real(lower=..., upper=...)",
    "unit(u)": "u = dp.Real(lower=..., upper=...)",
    "cut(u, breaks=[1, 2])": "u = dp.Real(lower=..., upper=...)",
    "cut(alcohol, 3)": "cut(alcohol, breaks=[10.3333, 12.6667])",
    "cr(alcohol, df=3)": "cr(alcohol, knots=[11.5])",
    "ns(alcohol, df=3)": "ns(alcohol, knots=[",
    "cc(alcohol, df=3)": "ns(alcohol, knots=[...])",
    "cs(alcohol)": "legendre(alcohol, 3)",
    "C(alcohol)": "cut(alcohol, breaks=",
    "C(u)": "dp.Levels([...])",
    "C(note)": "hashed(note, levels=32)",
    "I(alcohol - alcohol.mean())": "public constant",
    "{alcohol / np.std(alcohol)}": "public constant",
    "alcohol.rank()": "public constant",
    "np.sort(alcohol)": "public constant",
    "I(alcohol > np.median(alcohol))": "public constant",
    "lag(alcohol)": "Make the column before the call",
    "np.cumsum(alcohol)": "alcohol_cumsum",
    "max(alcohol)": "public constant",
    "alcohol.values": "functions of the language",
    "{alcohol[0]}": "Use the variable itself",
    "{alcohol[::-1]}": "Use the variable itself",
    "{(lambda t: t)(alcohol)}": "register_rowwise",
    "{[t for t in alcohol]}": "register_rowwise",
    "{alcohol if 1 else pH}": "register_rowwise",
    "mystery(alcohol)": "register_rowwise",
    "{__import__('os').system('ls')}": "register_rowwise",
    "scale(alcohol, center=dp.private(eps=0.1), scale=1)": "public constant",
    "bs(alcohol, knots=dp.private(eps=0.1))": "public constant",
}


@pytest.mark.parametrize("expression", PRIVATE)
def test_private_state_is_refused_with_a_fix(expression):
    formula = f"quality ~ {expression} + pH"
    with pytest.raises(FormulaPrivacyError) as caught:
        needed_variables(formula, list(SCHEMA))
        build_design(formula, SCHEMA)
    text = str(caught.value)
    assert PRIVATE[expression] in text
    assert "term `" in text and formula in text
    assert caught.value.__context__ is None and caught.value.__cause__ is None


@pytest.mark.parametrize(
    "formula",
    [
        "quality ~ scale(alcohol) + pH",
        "quality~center( alcohol )+pH",
        "quality ~ bs(alcohol, df=5) * region",
        "quality ~ poly(alcohol, 2)",
        "quality ~ standardize(alcohol)",
    ],
)
def test_the_pasted_fix_compiles(formula):
    with pytest.raises(FormulaPrivacyError) as caught:
        build_design(formula, SCHEMA)
    fixed = re.search(r"^ +(quality.*)$", str(caught.value), re.M)
    assert fixed is not None
    design = build_design(fixed.group(1), SCHEMA)
    assert design.unknown == ()


BAD = {
    "quality ~ alcool": "Did you mean 'alcohol'",
    "qualty ~ alcohol": "Did you mean 'quality'",
    "quality ~ alcohol + nonsense_name": "is not a",
    "quality ~ 0": "right-hand side",
    "quality ~ alcohol - alcohol - 1": "right-hand side",
    "quality ~": "nothing on the right",
    "": "empty",
    "   ": "empty",
    "alcohol + pH": "no response",
    "~ alcohol": "no response",
    "quality + pH ~ alcohol": "exactly one response",
    "1 ~ alcohol": "",
    "quality ~ alcohol ~ pH": "",
    "quality ~ alcohol | pH": "|",
    "[quality ~ alcohol]": "",
    "quality ~ log(alcohol": "",
    "quality ~ {f'{alcohol}'}": "",
    "quality ~ alcohol + * pH": "osition",
    "quality ~ alcohol + (pH": "osition",
    "quality ~ I(alcohol ** )": "",
    "quality ~ {alcohol +}": "position",
    "two ~ alcohol": "Name the event",
    "region ~ alcohol": "Name the event",
    "quality ~ log(z)": "has range [-1, 1]",
    "quality ~ sqrt(z)": "has range [-1, 1]",
    "quality ~ log1p(z)": "log1p(clip(z",
    "quality ~ I(1 / z)": "contains 0",
    "quality ~ {alcohol / (pH - 3)}": "contains 0",
    "quality ~ I(z**-1)": "positive base",
    "quality ~ I(z**0.5)": "positive base",
    "quality ~ I(alcohol**pH)": "not a constant",
    "quality ~ I(alcohol % 2)": "operator",
    "quality ~ I(alcohol // 2)": "operator",
    "quality ~ exp(exp(alcohol))": "not finite",
    "quality ~ I(alcohol**400)": "not finite",
    "quality ~ bs(alcohol, knots=[7, 12])": "[10.3333, 12.6667]",
    "quality ~ bs(alcohol, knots=[12, 10])": "increasing",
    "quality ~ bs(alcohol, knots=[10, 10])": "increasing",
    "quality ~ bs(alcohol, degree=-1)": "whole number",
    "quality ~ bs(alcohol, knot=[10])": "Did you mean 'knots'",
    "quality ~ bs(alcohol, knots=[10], extrapolation='extend')": "clipped",
    "quality ~ bs(alcohol, lower_bound=15, upper_bound=8)": "lower_bound < upper_bound",
    "quality ~ cut(alcohol, breaks=[1, 2])": "inside",
    "quality ~ cut(alcohol, breaks=[12, 10])": "increasing",
    "quality ~ legendre(alcohol)": "whole number",
    "quality ~ legendre(3, 2)": "constant",
    "quality ~ unit(I(3))": "constant",
    "quality ~ C(region, contr.som)": "Did you mean 'contr.sum'",
    "quality ~ C(region, contr.treatment('nort'))": "Did you mean 'north'",
    "quality ~ C(region, levels=['north', 'nord'])": "Did you mean 'north'",
    "quality ~ C(region, levels=['north', 'north'])": "listed twice",
    "quality ~ C(region, [[1, 0], [0, 1]])": "3 rows",
    "quality ~ {region == 'nrth'}": "Did you mean 'north'",
    "quality ~ {region > 'north'}": "== !=",
    "quality ~ {region + 1}": "no numeric value",
    "quality ~ log(region)": "no numeric value",
    "quality ~ hashed(alcohol, levels=4)": "cut(x",
    "quality ~ hashed(note)": "whole number",
    "quality ~ note": "no numeric value",
    "quality ~ log(alcohol, 2)": "1 argument",
    "quality ~ clip(alcohol, 3, 1)": "a <= b",
    "quality ~ clip(alcohol, pH, 10)": "constant",
    "quality ~ scale(alcohol, center=1, scale=0)": "0",
    "quality ~ {legendre(alcohol, 2) + 1}": "several columns",
    "quality ~ I(alcohol and pH)": "comparisons",
    "quality ~ {not alcohol}": "comparison",
    "quality ~ alcohol:offset(pH)": "separate term",
    "quality ~ {1e999 * alcohol}": "finite",
    "quality ~ .": None,
}


@pytest.mark.parametrize("formula", [f for f, says in BAD.items() if says is not None])
def test_bad_formulas_say_what_to_type(formula):
    with pytest.raises(FormulaError) as caught:
        needed_variables(formula, list(SCHEMA))
        build_design(formula, SCHEMA)
    text = str(caught.value)
    assert BAD[formula] in text
    assert "\x1b" not in text
    assert caught.value.__context__ is None
    assert len(text) > 20


def test_unsupported_syntax_names_its_position():
    with pytest.raises(FormulaError, match=r"position \d+"):
        build_design("quality ~ {alcohol +}", SCHEMA)


def test_arguments_of_build_design():
    for kwargs, says in [
        ({"na": "drop"}, "zero-row"),
        ({"na": "raise"}, "zero-row"),
        ({"engine": "R"}, "patsy"),
        ({"order": "x"}, "statsmodels"),
        ({"subset": "alcohol"}, "comparison"),
        ({"subset": "alcohol > alcohol.mean()"}, "public constant"),
        ({"subset": "alcool > 3"}, "alcool"),
        ({"weights": "z"}, "Real(0, w_max)"),
        ({"weights": "u"}, "Real(0, w_max)"),
        ({"response_ok": "event"}, "event"),
        ({"response_ok": "levels"}, "declared levels"),
    ]:
        with pytest.raises(FormulaError, match=re.escape(says)):
            build_design("quality ~ alcohol", SCHEMA, **kwargs)
    with pytest.raises(FormulaError, match="event='ya'"):
        build_design("two ~ alcohol", SCHEMA, response_ok="event", event="ya")
    with pytest.raises(FormulaError, match="3 levels"):
        build_design("region ~ alcohol", SCHEMA, response_ok="event")
    with pytest.raises(FormulaError, match="variables on the left"):
        build_mean_design("quality ~ alcohol", SCHEMA)


def test_midpoint_imputation_with_an_unknown_range_is_possible_after_purchase():
    design = build_design("quality ~ u", SCHEMA, na="impute-midpoint")
    assert design.unknown == ("u",)


def test_register_rowwise_refuses_bad_registrations():
    for name, func, interval in [
        ("log", abs, (0, 1)),
        ("a b", abs, (0, 1)),
        ("ok_name", 3, (0, 1)),
        ("ok_name", abs, (1, 0)),
        ("ok_name", abs, (0, float("inf"))),
    ]:
        with pytest.raises(FormulaError):
            register_rowwise(name, func, interval)
    assert "ok_name" not in REGISTERED


def test_no_expression_is_ever_evaluated(tmp_path):
    target = tmp_path / "touched"
    for text in (
        f"open({str(target)!r}, 'w')",
        f"__import__('pathlib').Path({str(target)!r}).touch()",
        f"I(exec(\"open({str(target)!r}, 'w')\"))",
        f"C(region, open({str(target)!r}, 'w'))",
        f"bs(alcohol, knots=open({str(target)!r}, 'w'))",
    ):
        for engine in ("formulaic", "patsy"):
            with pytest.raises(FormulaError) as caught:
                build_design(f"quality ~ {text}", SCHEMA, engine=engine)
            assert "".join(traceback.format_exception(caught.value))
    assert not target.exists()


def test_names_of_the_callers_program_are_unknown():
    secret = 3.0
    with pytest.raises(FormulaError, match=r"'secret' in .* is not a column"):
        build_design("quality ~ I(alcohol * secret)", SCHEMA)
    assert secret == 3.0


@pytest.mark.parametrize(
    ("subset", "says"),
    [
        ("x >= 0", "for every row"),
        ("0 <= x < 50", "for every row"),
        ("g == 'a' and x > 10", None),
        ("g == 'a' and x / 2 < 60", "for every row"),
        ("x != -9", "for every row"),
        ("x == -9", "for no row"),
        ("x > 100", "for no row"),
        ("x > 0", None),
        ("x < 100", None),
        ("x == 0", None),
        ("~(x >= 100)", None),
    ],
)
def test_a_subset_that_declared_ranges_decide_is_refused_before_the_charge(subset, says):
    """Values are clipped before ``subset=`` sees them: a code of -9 would stay, as a 0."""
    table = pd.DataFrame({"x": [-9.0, 50.0, 90.0] * 400, "y": [0.0, 0.5, 1.0] * 400, "g": "a"})
    schema = dp.Schema(x=dp.Real(0, 100), y=dp.Real(0, 1), g=dp.Levels(["a", "b"]))
    call = {"eps": 1.0, "delta": 1e-6, "schema": schema, "subset": subset}
    budget = dp.Budget(eps=2.0, delta=1e-5)
    if says is None:
        assert dp.plan("y ~ x", schema, n=1200, eps=1, delta=1e-6, subset=subset).design is not None
        return
    with pytest.raises(FormulaError, match=f"holds {says}.*moved to the ends"):
        dp.dp_ols("y ~ x", table, budget=budget, **call)
    assert budget.eps_spent() == 0
