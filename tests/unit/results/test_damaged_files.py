"""Files that are not as they were written: one error of the package, no hang, whatever is wrong."""

import contextlib
import copy
import json
import time
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DamagedError, DPModelsError, DPModelsWarning, FormulaError, SchemaError
from dpmodels.formula import parser as formulaic_terms
from dpmodels.formula.words import capped_powers
from dpmodels.results import Fit

#: What stands in place of a value: another type, another size, nonsense.
ODD = (None, "x", -1, 10**400, [], {}, [[]], True, "nan", 1.5)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 3000)
    return pd.DataFrame({"x": x, "y": np.clip(x + rng.normal(0, 0.2, 3000), -2, 2)})


CALL = {"eps": 2, "delta": 1e-6, "bounds": {"x": (-1, 1), "y": (-2, 2)}}


@pytest.fixture(scope="module")
def saved(frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return dp.dp_ols("y ~ x", frame, seed=1, **CALL).to_dict()


def places(value, path=()):
    """Every place of a nested value."""
    yield path
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def changed(value, path, new, *, drop=False):
    out = copy.deepcopy(value)
    if not path:
        return new
    at = out
    for key in path[:-1]:
        at = at[key]
    if drop:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return out


@pytest.mark.filterwarnings("ignore:this saved fit has no checksum")
def test_a_changed_fit_is_read_or_refused_by_an_error_of_the_package(saved):
    """Half of 1344 changes had raised KeyError, TypeError, RecursionError and others."""
    rng = np.random.default_rng(3)
    text = json.loads(Fit.from_dict(saved).to_json())
    del text["checksum"]  # as in files before 0.2.1: with it every change is refused
    every = [(path, odd, False) for path in places(text) for odd in ODD]
    every += [(path, None, True) for path in places(text) if path]
    refused = read = 0
    for k in rng.permutation(len(every))[:700]:
        path, odd, drop = every[k]
        try:
            fit = Fit.from_json(json.dumps(changed(text, path, odd, drop=drop)))
        except DPModelsError:
            refused += 1
        else:
            read += 1
            str(fit.summary()), repr(fit), fit.conf_int()
    assert refused > 200 and read > 10


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "", "null", '"x"', "[1]", "\x00"])
def test_text_that_is_no_fit(text, tmp_path):
    with pytest.raises(DPModelsError, match="not a saved dpmodels fit"):
        Fit.from_json(text)
    path = tmp_path / "fit.json"
    path.write_bytes(b"\xff\xfe" + text.encode())
    with pytest.raises(DamagedError, match=r"damaged.*fit.save\(path\)"):
        dp.load(path)
    with pytest.raises(DPModelsError, match="there is no file"):
        dp.load(tmp_path / "none")
    with pytest.raises(SchemaError):
        dp.Schema.from_json(text)


def test_a_changed_release_is_refused_by_an_error_of_the_package(frame, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        rel = dp.dp_release(frame, seed=1, **CALL, accept_no_estimate=True)
    rel.save(tmp_path / "r")
    (facts,) = tmp_path.glob("*.json")
    text = json.loads(facts.read_text())
    rng = np.random.default_rng(4)
    every = [(path, odd) for path in places(text) for odd in ODD]
    refused = 0
    for k in rng.permutation(len(every))[:120]:
        facts.write_text(json.dumps(changed(text, *every[k])))
        try:
            dp.load_release(tmp_path / "r")
        except DPModelsError:
            refused += 1
    assert refused > 30


POWERS = (
    "y ~ (x + z)**99999",
    "y ~ (x + {z})^2999",
    "y ~ ((x + z)**99)**99",
    "y ~ (x + z)**" + "9" * 5000,
)


@pytest.mark.parametrize("formula", POWERS)
def test_a_power_of_a_sum_ends(formula, saved):
    """A saved file with such a formula had hung whoever loaded it."""
    bounds = {"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)}
    start = time.process_time()
    plan = dp.plan(formula, bounds=bounds, n=1000, eps=1, delta=1e-6)
    assert plan.design.names in (("Intercept", "x", "z", "x:z"), ("Intercept", "x"))
    with contextlib.suppress(DPModelsError):  # its terms may be those that were saved
        Fit.from_dict(changed(saved, ("design", "formula"), formula))
    assert time.process_time() - start < 10.0


@pytest.mark.parametrize(
    "formula",
    ["y ~ (a + b + c)**3", "y ~ (a + b*c)**3 + log(a)", "y ~ (C(a) + b)^3", "y ~ (a/b)**3",
     "y ~ {a**3} + I(b**5) + poly(a, 3)", "y ~ (a + b + c + d)**4 - a:b", "y ~ a**3 + b",
     "y ~ (a + log(b + 1))**5 + `x (y)**3`", "y ~ ((a + b)**3 + c)**3", "y ~ (a + b)**2 + c"],
)  # fmt: skip
def test_powers_written_out_are_those_of_the_library(formula, monkeypatch):
    ours = formulaic_terms._parsed.__wrapped__(formula, None, "formulaic", True)
    monkeypatch.setattr(formulaic_terms, "capped_powers", lambda text, others=0: text)
    assert formulaic_terms._parsed.__wrapped__(formula, None, "formulaic", True) == ours


def test_powers_of_arithmetic_stay():
    text = "y ~ {x**99} + I((x + z)**99) + log(x**5) + `a**7`"
    assert capped_powers(text) == text


def test_powers_that_ask_for_too_much_are_refused():
    names = " + ".join(f"x{i}" for i in range(30))
    with pytest.raises(FormulaError, match="more than 20000 terms"):
        capped_powers(f"y ~ ({names})**20")
    deep = "(" * 40 + "a + b" + ")**3" * 40
    with pytest.raises(FormulaError, match="one power says the same"):
        capped_powers("y ~ " + deep)
