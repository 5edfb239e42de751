"""Random combinations of verb, formula, options, relation and unit, and hostile tables for them.

A combination is a number: the same one whenever it is asked for. Tables have missing and infinite
cells, levels that were not declared, missing weights and offsets, rows beyond every radius among
short ones, and levels that one row in a thousand has; or, ``clean``, none that is missing.
"""

import functools
import warnings
from dataclasses import dataclass, field

import numpy as np

import dpmodels as dp
from dpmodels.errors import DPModelsError, DPModelsWarning

G, H = ["u", "v", "w", "rare"], ["k", "l", "seldom"]
MANY = [f"m{i:02d}" for i in range(17)]
NUMBERS = {"a": (-1.0, 1.0), "b": (-2.0, 1.0), "c": (0.0, 9.0)}
TERMS = ["a", "b", "c", "g", "h", "a:b", "I(a**2)", "I(b**2)", "g:h", "g:a", "many", "a:c", "b:c"]
#: verb -> (response, method, options that are drawn from)
VERBS = {
    "dp_ols": ("y", "ssp", [{}, {"vcov": "iid"}, {"vcov": "hetero"}, {"stages": 1}, {"stages": 2},
                            {"ranges": "uncertain"}, {"scoring": True}]),
    "dp_glm": ("e", "scoring", [{}, {"link": "probit"}, {"fit_stats": True}]),
    "dp_glm, counts": ("n", "scoring", [{"family": "poisson"}, {"family": "negative_binomial"},
                                        {"family": "poisson", "fit_stats": True}]),
    "dp_glm, amounts": ("c", "scoring", [{"family": "gamma"}]),
    "dp_quantreg": ("y", "scoring", [{"tau": 0.5}, {"tau": 0.2}, {"tau": [0.2, 0.8]}]),
    "dp_mest": ("y", "scoring", [{"loss": "huber"}, {"loss": "expectile", "tau": 0.8}]),
    "dp_polr": ("o", "scoring", [{}, {"link": "probit"}]),
    "dp_multinom": ("o", "scoring", [{}]),
    "dp_coxph": ("Surv(t, e)", "scoring", [{}, {"breaks": 3}, {"concordance": True}]),
    "dp_survfit": ("Surv(t, e)", "table", [{}, {"breaks": 3}, {"breaks": 40}]),
    "dp_survfit, causes": ('Surv(t, o, cause="all")', "table", [{"breaks": 3}]),
    "dp_survdiff": ("Surv(t, e)", "logrank", [{"breaks": 5}]),
    "dp_moments": ("", "ssp", [{"stages": 1}, {"stages": 2}]),
    "dp_moments, joint": ("", "joint", [{}]),
    "dp_mean": ("", "clipped", [{}]),
    "dp_table": ("", "joint", [{}, {"quantiles": [0.5]}]),
    "dp_quantile": ("", "tree", [{"points": 64}]),
    "dp_quantile, one": ("", "em", [{}]),
    "dp_test": ("", "score", [{}]),
    "dp_bayes": ("e", "sums", [{}, {"variance": "shared"}]),
    "dp_npreg": ("y", "functional", [{}]),
    "dp_pca": ("", "gptr", [{}]),
    "dp_feols": ("y", "scoring", [{}, {"re": "id"}]),
    "dp_fepois": ("n", "scoring", [{}]),
}  # fmt: skip
#: The models of which most of a package is made are drawn more often.
OFTEN = ["dp_ols"] * 6 + ["dp_glm"] * 4 + ["dp_glm, counts"] * 3 + ["dp_quantreg"] * 2 + ["dp_mest"] * 2
SCHEMA = dp.Schema(
    y=dp.Real(-3, 3), far=dp.Real(200, 206), e=dp.Levels(["no", "yes"]), n=dp.Count(6), o=dp.Ordered(["l", "m", "h"]),
    t=dp.Real(0, 12), w=dp.Real(0, 3), f=dp.Real(-1, 1), g=dp.Levels(G), h=dp.Levels(H),
    many=dp.Levels(MANY), **{k: dp.Real(*v) for k, v in NUMBERS.items()},
)  # fmt: skip


@dataclass(frozen=True)
class Combination:
    """One call, and how its tables are drawn."""

    number: int
    verb: str
    method: str
    formula: str
    n: int
    eps: float
    relation: str
    unit: str | None
    options: dict = field(hash=False)
    features: dict | None = field(default=None, hash=False)

    @functools.cached_property
    def plan(self):
        """The plan of the call; None: it is refused, without data."""
        people = {}
        if self.unit:
            people = {"unit": "id", "rows_per_unit": 3}
            people |= {"units": self.n // 3} if self.relation == "replace" else {}
        if self.relation == "add-remove" and self.verb not in ("dp_pca", "dp_mean"):
            people["n_guess"] = self.n // 3 if self.unit else self.n
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DPModelsWarning)
                return dp.plan(self.formula, SCHEMA, n=self.n, eps=self.eps, delta=1e-4,
                               method=self.method, verb=self.verb, relation=self.relation,
                               **people, **self.options)  # fmt: skip
        except (DPModelsError, ValueError):
            return None

    def source(self, columns):
        """What the stage reads of columns: these, or what the rows of each person come to."""
        return columns if self.features is None else dp.per_person(columns, "id", **self.features)

    def columns(self, *, clean):
        """A table; clean: no cell of it is missing."""
        return table(np.random.default_rng(self.number + 1), self.n, clean, self.unit)


def combination(number, n=None):
    """The combination of a number; ``n``: of so many rows."""
    rng = np.random.default_rng(number)
    name = str(rng.choice(OFTEN if rng.random() < 0.6 else list(VERBS)))
    response, method, options = VERBS[name]
    verb = name.split(",")[0]
    some = [str(t) for t in rng.choice(TERMS, int(rng.integers(1, 7)), replace=False)]
    if rng.random() < 0.4:  # factors alone: by cell
        some = [t for t in some if set(t) <= set("gh:")] or [["g", "h", "g * h", "many"][rng.integers(4)]]
    right = " + ".join(some)
    chosen = dict(options[rng.integers(len(options))])
    weighted = verb in ("dp_ols", "dp_glm", "dp_quantreg", "dp_mest", "dp_mean", "dp_table", "dp_quantile")
    if weighted and rng.random() < 0.25:
        chosen["weights"] = "w"
    if verb == "dp_glm" and rng.random() < 0.25:
        chosen["offset"] = "f"
    person = verb in ("dp_feols", "dp_fepois") or (verb in ("dp_ols", "dp_glm", "dp_quantreg", "dp_mest", "dp_moments") and rng.random() < 0.2)
    formula = f"{response} ~ {right}"
    if verb in ("dp_moments", "dp_mean", "dp_pca"):
        formula = "a + b + y ~ 1"
    if verb == "dp_table":
        formula = ["~ g * h", "~ g", "a ~ g", "a + b ~ h", "~ many"][rng.integers(5)]
    if verb == "dp_quantile":
        formula = "~ a + b" if method == "tree" else "a ~ 1"
    if verb == "dp_test":
        formula = ["a ~ 1", "a ~ e", "~ e", "~ g + h", "~ a + b"][rng.integers(5)]
    if verb == "dp_npreg":
        formula = "y ~ a"
    if verb == "dp_bayes":
        formula = "e ~ a + b + c"
    if verb in ("dp_survfit", "dp_survdiff"):
        formula = f"{response} ~ {['g', 'h'][rng.integers(2)]}"
    if verb == "dp_feols" and "re" not in chosen:
        formula += " | id"
    if verb == "dp_fepois":
        formula += " | id"
    relation = "add-remove" if rng.random() < 0.35 else "replace"
    eps = float(rng.choice([4.0, 40.0, 400.0, 4e4]))
    n = n or int(rng.choice([24, 60, 130]))
    if response == "y" and verb in ("dp_ols", "dp_quantreg", "dp_mest"):
        if rng.random() < 0.3:  # a constant is given back through the columns that add up to it
            formula += " + g - 1"
        if rng.random() < 0.3:
            formula = formula.replace("y ~", "far ~")
    features = None
    if person and verb not in ("dp_feols", "dp_fepois"):  # their own draws: no other case moves
        features = features_of(np.random.default_rng([number, 1]))
    return Combination(number, verb, method, formula, n, eps, relation, "id" if person else None, chosen, features)


def features_of(rng):
    """Per-person features in place of all columns, every second time; None: the rows themselves."""
    if rng.random() < 0.5:
        return None
    out = {name: (str(rng.choice(["sum", "min", "max", "first", "any"])), name) for name in (*NUMBERS, "f", "w", "t")}
    out |= {name: (str(rng.choice(["min", "max", "first"])), name) for name in ("y", "far")}
    out |= {name: ("first", name) for name in ("e", "o", "g", "h", "many")}
    return {**out, "n": "count" if rng.random() < 0.5 else ("count", "a")}


def combinations(first, count, n=None, features=False):
    """So many combinations that are not refused; ``features``: those of features of people."""
    out = []
    while len(out) < count:
        one = combination(first, n)
        first += 1
        if (one.features or not features) and one.plan is not None:
            out.append(one)
    return out


def words(rng, levels, n, clean, odds):
    out = np.array(levels, dtype=object)[rng.choice(len(levels), n, p=odds)]
    if not clean:
        out[rng.random(n) < 0.06] = "undeclared"
        out[rng.random(n) < 0.04] = None
    return out


def number(rng, lower, upper, n, clean):
    """Short rows, ends, and (unless clean) whatever a cell can be."""
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    out = middle + half * rng.uniform(-0.05, 0.05, n)
    far = rng.random(n) < 0.15
    out[far] = rng.choice([lower, upper], far.sum())
    if not clean:
        wild = rng.random(n) < 0.08
        out[wild] = rng.choice([np.nan, np.inf, -np.inf, 1e300, -1e9, 5e-324], wild.sum())
    return out


def table(rng, n, clean, unit=None):
    """Columns of everything that a combination may name."""
    out = {name: number(rng, *v, n, clean) for name, v in NUMBERS.items()}
    out["y"] = number(rng, -3.0, 3.0, n, clean)
    out["t"] = np.abs(number(rng, 0.1, 12.0, n, clean))
    out["f"] = number(rng, -1.0, 1.0, n, clean)
    out["w"] = number(rng, 0.0, 3.0, n, clean)
    out["n"] = np.round(number(rng, 0.0, 6.0, n, clean))
    out["e"] = words(rng, ["no", "yes"], n, clean, [0.7, 0.3])
    out["o"] = words(rng, ["l", "m", "h"], n, clean, [0.3, 0.5, 0.2])
    out["g"] = words(rng, G, n, clean, [0.5, 0.3, 0.199, 0.001])
    out["h"] = words(rng, H, n, clean, [0.6, 0.399, 0.001])
    out["many"] = words(rng, MANY, n, clean, np.r_[np.full(16, 0.999 / 16), 0.001])
    place = int(rng.integers(n))
    out["g"][place], out["h"][place], out["many"][place] = G[-1], H[-1], MANY[-1]  # one of each
    out["far"] = number(rng, 200.0, 206.0, n, clean)
    if unit:
        out["id"] = np.sort(rng.integers(0, max(n // 3, 1), n)).astype(float)[rng.permutation(n)]
        if not clean:
            out["id"][rng.random(n) < 0.03] = np.nan
    return out
