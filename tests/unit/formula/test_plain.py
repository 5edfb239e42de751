"""What the small parser reads, formulaic reads alike; the rest it leaves alone."""

import itertools
import random
import subprocess
import sys

import pytest

from dpmodels.errors import FormulaError
from dpmodels.formula.parser import laid_by_library, parsed_by_library, plain_layout, plain_terms
from dpmodels.formula.words import Cat, Node

NAMES = ("a", "b", "c", "_u", "x1", "log(a)", "I( a+b )", "f(g(a), 1.5)", "I(b ** 2)")
ODD = ("a.b", "1.0", "2", "00", "in", "é", "(a + b)", "f(a)(b)", "f(a b)", "log (a)", "if", "None",
       "`a b`", "C(g, levels=['u'])", "f(a)[0]", "{a + b}", "a**2", "a / b", "a %in% b", "-", ".",
       "- 0", "1:a", "0 * a", "np.log(a)", "a b", "1e3", "'a'", "a +", "| b")  # fmt: skip
LEFT = ("y ~ ", "~ ", "", "y~-", "log(y) ~ + ", "a + b ~ ", "a * b ~ ", "- y ~ ", "y - y ~ ")


def sums(rng, odd):
    """Yield formulas without end: products of names between signs, some odd pieces if asked."""
    while True:
        pieces = []
        for _ in range(rng.randint(1, 7)):
            names = ODD if odd and rng.random() < 0.2 else NAMES
            piece = rng.choice(names) if rng.random() < 0.8 else rng.choice("01")
            sign = "+" if piece == "0" else rng.choice("+++-:*")
            if "0" in (piece, *pieces[-1:]) or "1" in (piece, *pieces[-1:]):
                sign = rng.choice("+-") if piece != "0" else "+"
            pieces += [sign, piece]
        blank = rng.choice(["", " ", "  ", "\n "])
        yield rng.choice(LEFT) + blank.join(pieces[1:])


def test_plain_formulas_are_read_as_formulaic_reads_them():
    rng, read = random.Random(1), 0
    for text in itertools.islice(sums(rng, odd=False), 2000):
        for by_degree in (True, False):
            terms = plain_terms(text, by_degree)
            read += terms is not None
            assert terms is None or terms == parsed_by_library(text, None, by_degree), text
    assert read > 3000  # nearly all of them are plain


def test_odd_formulas_are_left_to_formulaic_or_read_alike():
    rng, left = random.Random(2), 0
    for text in itertools.islice(sums(rng, odd=True), 1000):
        terms = plain_terms(text, True)
        left += terms is None
        assert terms is None or terms == parsed_by_library(text, None, True), text
    assert left > 300


@pytest.mark.parametrize("odd", ODD)
def test_what_is_not_plain_is_not_guessed(odd):
    text = f"y ~ a + {odd} " if odd[0] not in "-|" else f"y ~ a {odd}"
    assert plain_terms(text, True) is None or odd in ("if", "None")


@pytest.mark.parametrize("text", ["y ~ a ~ b", "1 ~ a", "0 + y ~ a", "y ~ a + - b", "y ~ a :: b",
                                  "y ~ * a", "y ~ log(a", "y ~ log)a(", "y ~ a b"])  # fmt: skip
def test_formulas_with_a_fault_keep_the_words_of_the_library(text):
    assert plain_terms(text, True) is None


def test_numbers_are_laid_out_as_formulaic_lays_them_out():
    rng, node = random.Random(3), Node((0.0, 1.0), lambda env: env)
    laid = 0
    for text in itertools.islice(sums(rng, odd=False), 120):
        parsed = plain_terms(text, True)
        if parsed is None or not parsed.rhs:
            continue
        factors = {t: node for term in parsed.rhs for t, number in term if not number}
        assert plain_layout(parsed.rhs, factors) == laid_by_library(parsed.rhs, factors), text
        laid += 1
    assert laid > 80


def test_factors_are_laid_out_by_formulaic():
    terms = plain_terms("y ~ g", True).rhs
    assert plain_layout(terms, {"g": Cat(("u", "v"), lambda env: env)}) is None
    assert plain_layout(((("2", True), ("a", False)),), {"a": Node(None, lambda env: env)}) is None


def test_an_empty_side_is_still_refused():
    import dpmodels as dp

    with pytest.raises(FormulaError, match="nothing on the right"):
        dp.plan("y ~ ", n=10, bounds={"y": (0, 1)}, eps=1.0, delta=1e-6)


def test_a_plain_fit_imports_neither_formulaic_nor_the_optimisers():
    code = """
import sys, warnings
import numpy as np, pandas as pd
import dpmodels as dp
x = np.linspace(-1, 1, 500)
frame = pd.DataFrame({"x": x, "z": x**2, "y": 0.5 * x})
bounds = {"x": (-1, 1), "z": (0, 1), "y": (-1, 1)}
str(dp.dp_ols("y ~ x * z + I(x ** 2)", frame, bounds=bounds, eps=5.0, delta=1e-6))
found = [m for m in ("formulaic", "patsy", "scipy.optimize", "scipy.stats", "scipy.linalg")
         if m in sys.modules]
assert found == [], found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
