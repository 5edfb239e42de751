"""No error, warning, log line or printout of the front end holds a private cell.

Every cell of the data is a sentinel. Calls are fuzzed: good formulas, broken ones, wrong schemas,
columns of the wrong type. Whatever is raised must be the same, word for word, as with other data.
"""

import contextlib
import io
import logging
import pickle
import random
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest

from dpmodels.errors import DPModelsError
from dpmodels.formula import coerce, describe
from dpmodels.formula.build import build_design
from dpmodels.formula.parser import needed_variables
from dpmodels.formula.schema import Schema, schema_for
from dpmodels.variables import Binary, Count, Levels, Real

SECRET_TEXT = "Zq7SENTINELxw"
SECRET_NUMBER = 918273.6455
MARKS = (SECRET_TEXT, "918273")


class Odd:
    """A cell that raises whatever is done to it, quoting the secret."""

    def _fail(self, *args):
        raise ValueError(SECRET_TEXT)

    __float__ = __int__ = __str__ = __eq__ = __bool__ = __len__ = __iter__ = _fail
    __repr__ = __index__ = __lt__ = __gt__ = __add__ = _fail
    __hash__ = None


NUMBERS = [SECRET_NUMBER, -SECRET_NUMBER, SECRET_NUMBER * 1e290, np.inf, -np.inf, np.nan, 0.0, 1.0]
OBJECTS = [
    SECRET_TEXT,
    SECRET_NUMBER,
    None,
    np.nan,
    Odd(),
    b"\xff",
    "",
    "1.5",
    [SECRET_TEXT],
    10**400,
]
CLEAN = [0.5, 1.0, 2.0, 3.0]


def column(kind, n, rng, secret):
    """A column of a public type: full of sentinels, or harmless."""
    numbers = NUMBERS if secret else CLEAN
    if kind == "float":
        return pd.Series([rng.choice(numbers) for _ in range(n)], dtype=float)
    if kind == "float32":
        return pd.Series([rng.choice(numbers[:2] + numbers[3:]) for _ in range(n)], dtype="float32")
    if kind == "nullable":
        return pd.Series([rng.choice(numbers) for _ in range(n)], dtype="Float64")
    if kind == "int":
        return pd.Series([918273 if secret else 1] * n)
    if kind == "object":
        cells = np.empty(n, dtype=object)
        for i in range(n):
            cells[i] = rng.choice(OBJECTS if secret else ["a", "b"])
        return pd.Series(cells, dtype=object)
    if kind == "category":
        return pd.Series(
            [rng.choice([SECRET_TEXT, "a"] if secret else ["a", "b"]) for _ in range(n)],
            dtype="category",
        )
    return pd.Series(
        [rng.choice([SECRET_TEXT, None] if secret else ["a", None]) for _ in range(n)],
        dtype="string",
    )


PUBLIC_KIND = {"float": "numeric", "float32": "numeric", "nullable": "numeric", "int": "numeric",
               "object": "text", "category": "category", "string": "text"}  # fmt: skip
NAMES = ["y", "x", "z", "v", "b", "c", "u", "odd name", "g", "h", "k"]


def random_schema(rng):
    out = {}
    for name in NAMES:
        pick = rng.random()
        if pick < 0.45:
            out[name] = Real(rng.choice([-2, 0, 0.5, 1]), rng.choice([2, 5, 100]))
        elif pick < 0.55:
            out[name] = Real()
        elif pick < 0.6:
            out[name] = rng.choice([Binary(), Count(9), Count(), Binary(["a", "b"])])
        elif pick < 0.9:
            out[name] = rng.choice(
                [Levels(["a", "b"]), Levels(["a", "b", "c"], other="o"), Levels([1, 2], na=1)]
            )
    return Schema(**out)


PIECES = [
    *"()+*~{}:`'q. /0|\\",
    *(
        "**",
        " + scale(x)",
        " + C(x)",
        " + bs(x, df=4)",
        " + x.mean()",
        " + poly(x, 2)",
        " + {x[0]}",
    ),
    *(" + hashed(g, levels=3)", " + cut(x, breaks=[1, 2])", " + log(z)", " + I(1/z)"),
    " + offset(z)",
]


def mutate(text, rng):
    """Break a formula: typos, deletions, things from the caller's program, private functions."""
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        at = rng.randrange(len(text) + 1)
        piece = rng.choice(PIECES)
        text = (
            text[:at] + piece + text[at + rng.choice([0, 0, 1, 3]) :]
            if len(piece) == 1
            else text + piece
        )
    return text


def outcome(call):
    """Everything a user could see of a call, as text; and the kind of its end."""
    log, handler = io.StringIO(), None
    seen = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    ended = "done"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.redirect_stdout(seen), contextlib.redirect_stderr(seen):
            try:
                call(seen)
            except DPModelsError as error:
                ended = f"{type(error).__name__}: {error}"
                chain = error
                while chain is not None:
                    seen.write(str(chain) + repr(chain) + repr(chain.args))
                    seen.write("".join(traceback.format_exception(chain)))
                    assert chain.__context__ is None or isinstance(chain.__context__, DPModelsError)
                    chain = chain.__cause__ or chain.__context__
    logging.getLogger().removeHandler(handler)
    messages = [str(w.message) for w in caught]
    return ended, seen.getvalue() + log.getvalue() + "".join(messages), messages


def one_call(formula, schema, kinds, options, data):
    """The path of a fit through the front end."""

    def call(seen):
        names = {c: PUBLIC_KIND[k] for c, k in kinds.items()}
        needed = needed_variables(formula, names, subset=options.get("subset"))
        full = schema_for(names, schema, options.get("bounds"), needed, formula=formula)
        design = build_design(
            formula, full, na=options["na"], subset=options.get("subset"), response_ok=options["ok"]
        )
        columns = {v: coerce(data[v], design.schema[v]) for v in design.variables}
        out = np.empty((design.q, len(data["y"])))
        design.fill(columns, out)
        matrix = design.matrix(data, options["outside"])
        assert matrix.shape == (len(data["y"]), design.p)
        filled = design.with_bounds({name: (0, 1) for name in design.unknown})
        filled.fill(columns, out)
        bounds = filled.intervals()
        good = ~np.isnan(out[-1])
        assert (out[:, good] >= bounds[:, :1]).all() and (out[:, good] <= bounds[:, 1:]).all()
        seen.write(repr(design) + str(design.fingerprint) + repr(pickle.dumps(filled)))
        seen.write(str(describe(formula, full)))

    return call


def fuzz(calls, seed, tools):
    rng = random.Random(seed)
    ends = {}
    for _ in range(calls):
        formula = mutate(tools.random_formula(rng), rng)
        schema = random_schema(rng) if rng.random() < 0.25 else tools.schema
        kinds = {
            name: rng.choice(["float"] * 4 + ["float32", "nullable", "int", "object"])
            if name not in tools.factors
            else rng.choice(["object", "category", "string"])
            for name in NAMES
        }
        options = {
            "na": rng.choice(["zero-row", "zero-row", "declared", "impute-midpoint"]),
            "ok": rng.choice(["real"] * 9 + ["event", "levels"]),
            "subset": rng.choice([None] * 6 + ["x > 2", "g == 'a' or x < 3", "x > x.mean()"]),
            "bounds": rng.choice([None] * 12 + [{"x": (0.1, 3)}, {"x": (3, 0)}, {"q": (0, 1)}]),
            "outside": rng.choice(["clip", "nan", "extrapolate"]),
        }
        n = rng.choice([0, 1, 7])
        results = []
        for secret in (True, False):
            data = {c: column(k, n, rng, secret) for c, k in kinds.items()}
            ended, text, messages = outcome(one_call(formula, schema, kinds, options, data))
            assert not messages, (formula, messages)
            for mark in MARKS:
                assert mark not in text, (formula, kinds)
            results.append(ended)
        assert results[0] == results[1], formula
        key = results[0].split(":")[0]
        ends[key] = ends.get(key, 0) + 1
    return ends


def test_sentinels_are_found_by_the_search():
    """The search itself works: a leak would be seen."""

    def leak(seen):
        try:
            float(SECRET_TEXT)
        except ValueError as error:
            raise DPModelsError("bad cell") from error

    with pytest.raises(AssertionError):
        outcome(leak)
    assert SECRET_TEXT in outcome(lambda seen: print(SECRET_TEXT))[1]
    assert SECRET_TEXT in outcome(lambda seen: warnings.warn(SECRET_TEXT, stacklevel=1))[1]
    assert SECRET_TEXT in outcome(lambda seen: logging.getLogger("x").error(SECRET_TEXT))[1]


def test_sentinels_500_calls(tools):
    """Seed 1; deterministic."""
    ends = fuzz(250, 1, tools)
    assert ends["done"] > 40
    assert sum(ends.values()) - ends["done"] > 40
    assert {"FormulaError", "FormulaPrivacyError", "SchemaError", "SchemaNeededError"} <= set(ends)


@pytest.mark.slow
def test_sentinels_ten_thousand_calls(tools):
    """Seed 2; deterministic: 1 074 of 5 000 calls are not refused, so that the search is not empty."""
    ends = fuzz(5000, 2, tools)
    assert ends["done"] > 1000
