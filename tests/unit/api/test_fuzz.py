"""Random formulas and options: every exception is one of ours, comes before the charge, and says
what to type."""

import random
import time
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, PrivacyBugError, PrivateStageError

N = 60
RNG = np.random.default_rng(0)
DATA = pd.DataFrame({
    "x": RNG.uniform(-1, 1, N), "z": RNG.uniform(0, 5, N), "y": RNG.uniform(-1, 1, N),
    "k": RNG.integers(0, 2, N), "c": RNG.integers(0, 9, N), "g": RNG.choice(list("abc"), N),
    "o": RNG.choice(list("lmh"), N), "t": RNG.uniform(0.1, 10, N), "id": np.arange(N) // 3,
})  # fmt: skip
SCHEMA = {
    "x": dp.Real(-1, 1), "z": dp.Real(0, 5), "y": dp.Real(-1, 1), "k": dp.Binary(),
    "c": dp.Count(9), "g": dp.Levels(list("abc")), "o": dp.Ordered(list("lmh")),
    "t": dp.Real(0, 10),
}  # fmt: skip
VERBS = [
    dp.dp_ols, dp.dp_glm, dp.dp_quantreg, dp.dp_mest, dp.dp_mean, dp.dp_moments, dp.dp_table,
    dp.dp_quantile, dp.dp_test, dp.dp_survfit, dp.dp_survdiff, dp.dp_coxph, dp.dp_feols,
    dp.dp_fepois, dp.dp_polr, dp.dp_multinom, dp.dp_iv, dp.dp_bayes, dp.dp_npreg, dp.dp_pca,
]  # fmt: skip
ATOMS = [
    "x", "z", "y", "k", "c", "g", "o", "t", "1", "0", "-1", "nope", "C(g)", "C(g, Sum)", "I(x**2)",
    "I(x - x)", "log(z)", "log(z + 1)", "sqrt(x)", "exp(t)", "poly(x, 2)", "bs(x, df=4)", "x:z",
    "x*g", "(x + z)**2", "offset(x)", "strata(g)", "i(c, x, ref=2)", "C(c)", "x == 1", "`x`", "g:g",
    "I(1/x)", "scale(x)", "center(z)", "ns(t, 3)", "2.5", "'a'", "x/z", "x %in% g", "", ".", "np.log(z)",
    "Surv(t, k)", "Surv(x, t, k)", "I(x > 0)", "(z - z)", "log(", "x +", "C()", "lag(x)", "1e400",
]  # fmt: skip
SIDES = ["y", "x", "k", "c", "g", "o", "Surv(t, k)", "Surv(k, t)", "log(z)", "y + x", "", "1", "I(y*2)",
         "y ~ x", "cbind(x, y)"]  # fmt: skip
OPTIONS = {
    "eps": [1.0, 1.0, 1.0, 0, -1, 1e-320, 1e30, "1", None, float("nan"), True, 500.0],
    "delta": [1e-6, 1e-6, 1e-6, 0, 1, 0.5, -1, 1e-300, "x", None],
    "seed": [None, None, 1, -1, 1.5, "a", 2**70],
    "method": [None, None, None, 1, "ssp", "scoring", "joint", "table", "nope", ["ssp"], "objpert"],
    "level": [0.95, 0.9, 0, 1, 2, "x", float("nan"), None],
    "relation": ["replace", "add-remove", "x", 3],
    "subset": [None, "x > 0", "x >", 5, "nope == 1", ["x"]],
    "weights": [None, "z", "nope", 3, "g", "x"],
    "bounds": [None, {"x": (0, 1)}, {"x": (1, 0)}, {"q": (0, 1)}, "private", "x", {"x": 3}, 5],
    "schema": [SCHEMA, None, {}, {"x": 3}, 5, "x", [("x", 1)]],
    "unit": [None, "id", "nope", 3, "g"],
    "units": [None, 20, 0, "x"],
    "max_rows": [None, 1, 0, -2, "a"],
    "na": ["zero-row", "drop", None, 3],
    "split": [None, {}, {"a": 1.0}, 3, {"mean": 2}],
    "family": ["binomial", "poisson", "x", None, 3],
    "inference": [True, False, "yes", None],
    "breaks": [4, 1, 2, 0, -1, "x", 1e9, [1, 2], [2, 1], None],
    "times": [[1, 2], [20], [], "x", 3, [float("nan")]],
    "q": [0.5, [0.1, 0.9], 2, "x", None, []],
    "tau": [0.5, [0.2, 0.8], 2, "x", []],
    "mu0": [0, "x", 5], "p": [0.5, {"a": 1}, [0.5], "x"], "test": [None, "t", "chi2", "x", 3],
    "public": [None, 3, "nowhere.csv"], "phi": [1.0, -1, "x"], "design": [None, 3, "x", {}],
    "sort": [None, "x", 3], "on_no_reply": ["return", "raise", "x"], "n": [None, 60, 7, 0, "x"],
    "psus": [None, 3, "x"], "data": [DATA, DATA[:0], DATA[:1], None, 5, "nowhere.csv", []],
}  # fmt: skip


class Purse:
    """A budget without an end, of rows and of people: it only notices."""

    charged = False

    def charge(self, call, guarantee):
        self.charged = True

    def note(self, *said):
        pass


def formula(rng):
    if rng.random() < 0.03:
        return rng.choice([None, 3, "", "~", "y", "~ ~", "y ~ x ~ z", ["y ~ x"], "y ~ x | g | z", "\x00"])
    right = rng.choice([" + ", " + ", " * ", ":", " - ", " "]).join(
        rng.choice(ATOMS) if rng.random() < 0.6 else rng.choice("xzgt")
        for _ in range(rng.choice((1, 1, 2, 2, 3)))
    )
    right += rng.choice(["", "", "", "", " | g", " | x + z", " - 1", " |", " + strata(g)"])
    return f"{rng.choice(SIDES)} ~ {right}" if rng.random() < 0.85 else rng.choice(["~ ", ""]) + right


#: What a verb takes, for calls that go far: sides, ends and options of its own.
SHAPES = {
    "dp_glm": ("k", "", ("family",)), "dp_quantreg": ("y", "", ("tau",)),
    "dp_mean": ("y", "", ()), "dp_moments": ("", "", ("phi",)), "dp_table": ("", "", ()),
    "dp_quantile": ("", "", ("q",)), "dp_test": ("y", "", ("mu0", "p", "test")),
    "dp_survfit": ("Surv(t, k)", "", ("breaks", "times")),
    "dp_survdiff": ("Surv(t, k)", " + g", ("breaks", "times")),
    "dp_coxph": ("Surv(t, k)", "", ("breaks", "times")), "dp_feols": ("y", " | id", ("unit",)),
    "dp_fepois": ("c", " | id", ("unit",)), "dp_polr": ("o", "", ()), "dp_multinom": ("g", "", ()),
    "dp_iv": ("y", " | x + z", ("phi",)), "dp_pca": ("", "", ()),
}  # fmt: skip
FEW = [*OPTIONS][:14]


def call(rng):
    """Half of the calls are anything; half have the shape of their verb and an odd option."""
    verb, asked = rng.choice(VERBS), {"eps": 1.0, "delta": 1e-6, "schema": SCHEMA}
    left, end, own = SHAPES.get(verb.__name__, ("y", "", ()))
    if rng.random() < 0.5:
        text, names = formula(rng), rng.sample([*OPTIONS], rng.choice((0, 0, 1, 1, 2, 3)))
    else:
        atoms = [rng.choice(ATOMS) if rng.random() < 0.3 else rng.choice("xxzgc") for _ in "ab"]
        text = f"{left} ~ {rng.choice([' + ', '*', ':']).join(atoms[: rng.choice((1, 2))])}{end}"
        names = rng.sample([*FEW, *own, *own], rng.choice((0, 0, 0, 1, 2)))
        if verb.__name__ == "dp_moments" and rng.random() < 0.8:
            text = " + ".join(atoms)
        if "unit" in own:
            asked["unit"] = "id"
    for name in names:
        asked[name] = rng.choice(OPTIONS[name])
    asked.setdefault("seed", rng.randrange(10**6))  # the same noise in every run
    return verb, text, asked


def tried(seed):
    """Return what went wrong in one call, or None."""
    verb, text, asked = call(random.Random(seed))
    budget = Purse()
    data = asked.pop("data", DATA)
    given = ", ".join(f"{k}={v!r}" for k, v in asked.items() if v is not SCHEMA)
    said = f"{verb.__name__}({text!r}, {given})"
    begun = time.perf_counter()
    try:
        verb(text, data, budget=budget, **asked)
    except DPModelsError as error:
        if isinstance(error, (PrivacyBugError, PrivateStageError)) or len(str(error)) < 20:
            return f"{seed} {said}: {error!r}"
        wanted = asked.get("on_no_reply") == "raise"
        if budget.charged and not wanted:
            return f"{seed} {said}: charged, then {error!r}"
    except Exception as error:
        return f"{seed} {said}: foreign {error!r}"
    taken = time.perf_counter() - begun
    return f"{seed} {said}: {taken:.1f} s" if taken > 4.0 else None


@pytest.mark.parametrize("part", range(10))
def test_every_exception_is_ours_and_before_the_charge(part):
    """3 000 random calls of twenty verbs; fixed seeds, no chance of a false alarm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = [w for seed in range(300 * part, 300 * (part + 1)) if (w := tried(seed))]
    assert not wrong, "\n".join(wrong)


REFUSED = {
    "a predictor of itself": (dp.dp_ols, "y ~ y", {"schema": None}),
    "nothing but zeros": (dp.dp_multinom, "o ~ I(x - x) - 1", {}),
    "no column": (dp.dp_moments, "1", {}),
    "no column of a mean": (dp.dp_mean, "1 ~ 1", {}),
    "no column of a table": (dp.dp_release, "~ (z - z)", {}),
    "a number with itself": (dp.dp_test, "y ~ y", {}),
    "a number on the right": (dp.dp_test, "~ C(g) + t : 1", {}),
    "constant instrument": (dp.dp_iv, "y ~ x | I(z - z)", {}),
    "collinear instruments": (dp.dp_iv, "y ~ x + z | z + I(2 * z)", {}),
    "collinear regressors": (dp.dp_iv, "y ~ x + I(x + z) + z | z + t + c", {}),
    "level of instruments": (dp.dp_iv, "y ~ x | z", {"level": "x"}),
    "level 2": (dp.dp_iv, "y ~ x | z", {"level": 2}),
    "no level": (dp.dp_iv, "y ~ x | z", {"level": float("nan")}),
    "seed": (dp.dp_ols, "y ~ x", {"seed": -1}),
    "vast eps": (dp.dp_ols, "y ~ x", {"eps": 1e30}),
    "method of a list": (dp.dp_quantile, "x", {"method": ["ssp"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_the_charge(name):
    verb, text, more = REFUSED[name]
    purse = Purse()
    with pytest.raises(DPModelsError) as found:
        verb(text, DATA, **{"eps": 1.0, "delta": 1e-6, "schema": SCHEMA, "budget": purse, **more})
    assert not isinstance(found.value, PrivacyBugError) and not purse.charged


@pytest.mark.parametrize("breaks", [1, 2])
def test_a_cox_fit_of_one_or_two_breaks(breaks, quiet):
    fit = dp.dp_coxph("Surv(t, k) ~ x", DATA, eps=8, delta=1e-6, schema=SCHEMA, breaks=breaks)
    assert len(fit.params) == 1


@pytest.mark.parametrize("n", [1, 2, 5])
def test_two_stages_of_a_few_rows_end_in_a_fit(n, quiet):
    for seed in range(20):
        fit = dp.dp_iv("y ~ x | z", DATA[:n], eps=1, delta=1e-6, schema=SCHEMA, seed=seed)
        assert np.isfinite(fit.params).all()


def test_two_stages_without_a_reply_are_a_fit_without_one(quiet):
    fit = dp.dp_iv("y ~ x | z", DATA, eps=1e-3, delta=1e-12, method="ssp", seed=1)
    assert fit.params.isna().all() and "NO REPLY" in str(fit.summary())


def test_what_is_no_verb_and_a_schema_that_is_a_mapping():
    with pytest.raises(DPModelsError, match="has no plan"):
        dp.plan("y ~ x", SCHEMA, n=9, eps=1, delta=1e-6, verb=["dp_ols"])
    assert "y ~ x" in str(dp.describe("y ~ x", schema=SCHEMA))


@pytest.mark.filterwarnings("ignore")
def test_steps_are_looked_at_before_the_charge():
    """A plan whose steps cannot be drawn is refused while nothing is charged."""
    from dpmodels.door import opened
    from dpmodels.privacy.mechanisms import Gaussian, Step

    plan = dp.plan("y ~ x", dp.Schema(**SCHEMA), n=99, eps=1, delta=1e-6)
    twice = (Step("a", Gaussian(0.1)), Step("a", Gaussian(0.1)))
    from dataclasses import replace

    plan = replace(plan, guarantee=replace(plan.guarantee, steps=twice))
    purse = Purse()
    with pytest.raises(PrivacyBugError):
        opened("a call", plan, purse, None)
    assert not purse.charged
