"""Average treatment effects: errors against AIPW without noise, and coverage.

``python benchmarks/effects.py [runs]`` writes ``results/effects.md``: thirty simulated designs on
which the constants of ``models/treatment`` were tuned, nine that were looked at once they were
frozen, and real tables of either kind, with seeds that were not used in tuning. They need the
data folder. ``python benchmarks/effects.py 40 rare`` prints those whose
name has the word.
"""

from __future__ import annotations

import functools
import math
import sys
import time
import warnings
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from common import RESULTS, data_folder, one_core, write
from scipy.special import expit

import dpmodels as dp

#: Rows of the table whose means are the truth.
TRUTH = 1_000_000


@dataclass(frozen=True)
class Design:
    """One population and one call."""

    name: str
    n: int
    eps: float = 1.0
    p: int = 3  # Covariates, uniform in [-1, 1]
    assigned: str = "mild"
    outcome: str = "linear"
    family: str = "gaussian"
    estimand: str = "ATE"
    how: dict = field(default_factory=dict)  # weights, unit, bounds

    def table(self, n, seed):
        """Return (rows, their conditional mean effect, their propensity)."""
        rng = np.random.default_rng(seed)
        many = 1
        if "unit" in self.how:
            many = 3
        x = rng.uniform(-1, 1, (n, self.p)).repeat(many, axis=0)
        if many > 1:
            x[:, 2] = rng.uniform(-1, 1, len(x))
        e = expit(ASSIGNED[self.assigned](x))
        t = (rng.random(len(x)) < e).astype(int)
        own = rng.normal(0, 0.5, n).repeat(many) if many > 1 else 0.0
        w = np.exp(rng.normal(0, 0.5, len(x))).clip(0.1, 4) if "weights" in self.how else None
        means = OUTCOMES[self.outcome](x)
        y, effect = drawn(self.family, means, t, rng, own)
        frame = pd.DataFrame({f"x{j + 1}": x[:, j] for j in range(self.p)})
        frame = frame.assign(y=y, t=t)
        if w is not None:
            frame["w"] = w * (1 + 0.5 * x[:, 0])
        if many > 1:
            keep = rng.random(len(frame)) < 0.7
            keep[::many] = True  # everybody has a row
            frame["id"] = np.arange(n).repeat(many)
            return frame[keep].reset_index(drop=True), effect[keep], e[keep]
        return frame, effect, e

    @property
    def covariates(self):
        """Names of the covariates."""
        return [f"x{j + 1}" for j in range(self.p)]


@functools.cache
def real_table(file, arm, response, names, family):
    """Return treatment, response and covariates of a real table."""
    data = pd.read_csv(data_folder() / f"{file}.csv.gz", low_memory=False)
    frame = data[names.split()].assign(y=data.eval(response) * 1.0, t=data.eval(arm).astype(int))
    if family == "poisson":
        frame["y"] = frame.y.clip(0, 40)
    return frame.dropna().reset_index(drop=True)


@dataclass(frozen=True)
class Real(Design):
    """Rows drawn from a real table, whose AIPW with propensities cut at .001 is the truth."""

    n: int = 10_000
    file: str = ""
    arm: str = ""  # Treated: an expression of columns
    response: str = ""
    names: str = ""  # Covariates

    def whole(self):
        """Return the whole table."""
        return real_table(self.file, self.arm, self.response, self.names, self.family)

    def table(self, n, seed):
        """Return (rows, nothing, nothing)."""
        frame = self.whole()
        at = np.random.default_rng(seed).integers(0, len(frame), n)
        return frame.iloc[at].reset_index(drop=True), None, None

    @property
    def covariates(self):
        """Names of the covariates."""
        return self.names.split()

    @property
    def bounds(self):
        """Ranges of the table."""
        frame = self.whole()
        return {name: (frame[name].min(), frame[name].max()) for name in [*self.covariates, "y"]}


ASSIGNED = {
    "even": lambda x: 0.0 * x[:, 0],
    "mild": lambda x: 0.2 + 0.8 * x[:, 0] - 0.6 * x[:, 1],
    "poor": lambda x: 0.3 + 1.8 * x[:, 0] - 1.4 * x[:, 1] + 0.8 * x[:, 2],
    "few": lambda x: -2.2 + 0.7 * x[:, 0] - 0.4 * x[:, 1],
    "many": lambda x: 1.6 + 0.7 * x[:, 0],
    "curved": lambda x: -0.5 + 1.6 * x[:, 0] ** 2 + 0.8 * x[:, 0] * x[:, 1] - 0.5 * x[:, 1],
}


def _linear(x):
    m = 0.3 + 0.8 * x[:, 0] - 0.5 * x[:, 1] + 0.4 * x[:, 2]
    return m, m + 0.5 + 0.3 * x[:, 0]


def _curved(x):
    m = 0.2 + 0.9 * x[:, 0] ** 2 + 0.6 * x[:, 0] * x[:, 1] + 0.5 * np.abs(x[:, 2])
    return m, m + 0.5 + 0.5 * x[:, 0] ** 2


def _rare(x):
    m = -2.6 + 0.5 * x[:, 0] - 0.4 * x[:, 1]
    return m, m + 0.4


def _log(x):
    m = 0.4 + 0.4 * x[:, 0] - 0.3 * x[:, 1]
    return m, m + 0.2 + 0.1 * x[:, 2]


OUTCOMES = {"linear": _linear, "curved": _curved, "rare": _rare, "log": _log}


def drawn(family, means, t, rng, own):
    """Return responses, and the mean effect of each row."""
    if family in ("binomial", "poisson"):
        mean0, mean1 = (expit(m) if family == "binomial" else np.exp(m) for m in means)
        mean = np.where(t == 1, mean1, mean0)
        y = rng.random(len(t)) < mean if family == "binomial" else rng.poisson(mean).clip(0, 20)
        return y.astype(int), mean1 - mean0
    noise = {
        "gaussian": lambda: rng.normal(0, 0.7, len(t)),
        "heavy": lambda: rng.standard_t(3, len(t)) * 0.5,
        "skewed": lambda: (rng.exponential(1, len(t)) - 1) * 0.7,
        "uneven": lambda: rng.normal(0, 0.3 + 0.8 * t, len(t)),
    }[family]()
    return np.where(t == 1, means[1], means[0]) + own + noise, means[1] - means[0]


TUNED = (
    Design("linear", 5000),
    Design("linear", 40000),
    Design("trial", 5000, assigned="even"),
    Design("poor overlap", 5000, assigned="poor"),
    Design("poor overlap", 40000, assigned="poor"),
    Design("outcome model wrong", 5000, outcome="curved"),
    Design("outcome model wrong", 40000, outcome="curved"),
    Design("outcome wrong, poor overlap", 40000, outcome="curved", assigned="poor",
           how={"clip": (0.02, 0.98)}),
    Design("propensity model wrong", 20000, assigned="curved"),
    Design("0/1", 20000, family="binomial"),
    Design("0/1, rare", 40000, family="binomial", outcome="rare"),
    Design("count", 20000, family="poisson", outcome="log"),
    Design("ATT", 10000, estimand="ATT"),
    Design("ATT, outcome wrong", 20000, outcome="curved", estimand="ATT"),
    Design("ATT, 0/1, poor overlap", 40000, family="binomial", assigned="poor", estimand="ATT"),
    Design("weights", 20000, how={"weights": "w"}),
    Design("people", 10000, how={"unit": "id"}),
    Design("heavy tails", 20000, family="heavy"),
    Design("one in ten treated", 40000, assigned="few", how={"clip": (0.02, 0.98)}),
    Design("ten covariates", 40000, p=10),
)  # fmt: skip
#: Designs of a second tuning.
ALSO_TUNED = (
    Design("linear, eps 2", 8000, eps=2.0),
    Design("linear, eps 0.5", 40000, eps=0.5),
    Design("skewed", 15000, family="skewed"),
    Design("uneven variance", 12000, family="uneven", assigned="many"),
    Design("ATT, count", 30000, family="poisson", outcome="log", estimand="ATT"),
    Design("ATT, weights", 25000, estimand="ATT", how={"weights": "w"}),
    Design("people, 0/1, outcome wrong", 15000, outcome="curved", family="binomial", how={"unit": "id"}),
    Design("propensity wrong, 0/1", 25000, family="binomial", assigned="curved"),
    Design("ranges estimated", 30000, how={"bounds": None}),
    Design("six covariates, poor overlap", 25000, p=6, assigned="poor"),
)  # fmt: skip

#: Real tables on which constants were tuned: little overlap, or few treated.
REAL_TUNED = (
    Real("widowed", file="adult", arm="marital_status == 'Widowed'", response="hours_per_week",
         names="age education_num"),
    Real("separated", file="adult", arm="marital_status == 'Separated'", response="hours_per_week",
         names="age education_num"),
    Real("profession", file="adult", arm="occupation == 'Prof-specialty'",
         response="hours_per_week", names="age education_num"),
    Real("poverty", file="meps_drugexp", arm="poverty", response="ldrugexp",
         names="age totchr linc"),
    Real("out of work", file="rwm5yr", arm="outwork", response="docvis", family="poisson",
         names="age educ female hhninc"),
    Real("children", file="rwm5yr", arm="kids", response="hhninc", names="age educ married"),
    Real("married", file="rwm5yr", arm="married", response="hhninc", names="age educ kids"),
    Real("single", file="credit_default", arm="MARRIAGE == 2", response="LIMIT_BAL / 1e5",
         names="AGE"),
    Real("late", file="credit_default", arm="PAY_0 >= 2", response="LIMIT_BAL / 1e5",
         names="AGE PAY_2 PAY_3"),
    Real("coast", file="california_housing", arm="Longitude < -121", response="MedHouseVal",
         names="MedInc HouseAge Latitude"),
    Real("limited", file="rand_hie", arm="physlm > 0", response="mdvis", family="poisson",
         names="lncoins disea lpi"),
    Real("part time", file="cps1988_wage", arm="parttime == 'yes'", response="log(wage)",
         names="education experience"),
)  # fmt: skip
#: Real tables looked at once the constants were frozen.
REAL_ASIDE = (
    Real("own child", file="adult", arm="relationship == 'Own-child'", response="hours_per_week",
         names="age education_num"),
    Real("manager", file="adult", arm="occupation == 'Exec-managerial'", response="hours_per_week",
         names="age education_num"),
    Real("divorced", file="adult", arm="marital_status == 'Divorced'", response="hours_per_week",
         names="age education_num"),
    Real("employer's insurance", file="meps_drugexp", arm="hi_empunion", response="ldrugexp",
         names="age totchr linc"),
    Real("listed condition", file="meps_drugexp", arm="priolist", response="ldrugexp",
         names="age totchr linc"),
    Real("employed", file="nmes1988_visits", arm="employed == 'yes'", response="visits",
         family="poisson", names="age school chronic"),
    Real("default", file="credit_default", arm="default", response="BILL_AMT1 / 1e5",
         names="PAY_0 PAY_2 AGE"),
    Real("university", file="credit_default", arm="EDUCATION == 2", response="default",
         family="binomial", names="AGE LIMIT_BAL"),
    Real("high school", file="rwm5yr", arm="educ >= 12", response="hhninc",
         names="age female outwork"),
    Real("rooms", file="california_housing", arm="AveRooms > 5.5", response="MedHouseVal",
         names="MedInc HouseAge Latitude"),
)  # fmt: skip
#: Looked at once the constants were frozen.
ASIDE = (
    Design("0/1, poor overlap", 20000, family="binomial", assigned="poor"),
    Design("ATT, one in ten treated", 30000, estimand="ATT", assigned="few"),
    Design("count, propensity wrong", 20000, family="poisson", outcome="log", assigned="curved"),
    Design("eight covariates, 0/1, eps 2", 15000, eps=2.0, p=8, family="binomial"),
    Design("heavy tails, poor overlap", 20000, family="heavy", assigned="poor"),
    Design("people, ATT", 12000, estimand="ATT", how={"unit": "id"}),
    Design("weights, eps 0.5", 40000, eps=0.5, how={"weights": "w"}),
    Design("trial, skewed", 3000, assigned="even", family="skewed"),
    Design("uneven variance, one in ten treated", 40000, family="uneven", assigned="few"),
)  # fmt: skip


def exact(design, frame):
    """Return AIPW without noise, propensities clipped as in the private call, and its error."""
    x = frame[design.covariates]
    X = np.column_stack([np.ones(len(frame)), (x - x.mean()) / x.std()])
    t, y = frame.t.to_numpy(), frame.y.to_numpy()
    w = frame.w.to_numpy() if "weights" in design.how else np.ones(len(t))
    if "unit" in design.how:
        w = 1.0 / frame.groupby("id").t.transform("size").to_numpy()
    cut = (0.001, 0.999) if isinstance(design, Real) else design.how.get("clip", (0.1, 0.9))
    e = np.clip(expit(X @ newton(X, t, w, "binomial")), *cut)
    family = design.family if design.family in ("binomial", "poisson") else "gaussian"
    inverse = {"binomial": expit, "poisson": np.exp, "gaussian": lambda eta: eta}[family]
    m1, m0 = (inverse(X @ newton(X[t == a], y[t == a], w[t == a], family)) for a in (1, 0))
    if design.estimand == "ATT":
        psi, d = t * (y - m0) - (1 - t) * e / (1 - e) * (y - m0), t
    else:
        psi, d = m1 - m0 + t * (y - m1) / e - (1 - t) * (y - m0) / (1 - e), np.ones(len(t))
    theta = np.sum(w * psi) / np.sum(w * d)
    return theta


def newton(X, y, w, family):
    """Return the coefficients of a weighted generalised linear model."""
    if family == "gaussian":
        root = np.sqrt(w)
        return np.linalg.lstsq(X * root[:, None], y * root, rcond=None)[0]
    b = np.zeros(X.shape[1])
    if family == "poisson":
        b[0] = math.log(np.average(y, weights=w))
    for _ in range(15):
        mean = expit(X @ b) if family == "binomial" else np.exp(X @ b)
        slope = mean * (1 - mean) if family == "binomial" else mean
        b = b + np.linalg.solve((X * (w * slope)[:, None]).T @ X, X.T @ (w * (y - mean)))
    return b


def truth(design):
    """Return the effect in the population."""
    if isinstance(design, Real):
        return float(exact(design, design.whole()))
    frame, effect, e = design.table(TRUTH if "unit" not in design.how else TRUTH // 3, 1)
    w = frame.w.to_numpy() if "weights" in design.how else 1.0
    if "unit" in design.how:
        w = 1.0 / frame.groupby("id").t.transform("size").to_numpy()
    w = w * (e if design.estimand == "ATT" else 1.0)
    return float(np.sum(w * effect) / np.sum(w * np.ones(len(frame))))


def call(design, frame, seed):
    """Return the private fit."""
    schema = {"t": dp.Binary()}
    bounds = {name: (-1, 1) for name in design.covariates} | {"y": (-5, 6)}
    if isinstance(design, Real):
        bounds = design.bounds
    if design.family == "binomial":
        schema["y"] = dp.Binary()
    if design.family == "poisson":
        schema["y"] = dp.Count(40 if isinstance(design, Real) else 20)
    how = dict(design.how)
    if "y" in schema:
        del bounds["y"]
    if "weights" in how:
        bounds["w"] = (0, 6)
    if "bounds" in how:
        del how["bounds"]
        bounds = None
    return dp.dp_ate(
        f"y ~ {' + '.join(design.covariates)}", frame, treatment="t", estimand=design.estimand,
        eps=design.eps, delta=1e-6, schema=schema, bounds=bounds, seed=seed, **how,
    )  # fmt: skip


def run(design, runs, seed):
    """Return the row of a design."""
    target, found = truth(design), []
    for i in range(runs):
        frame, _, _ = design.table(design.n, seed + i)
        plain = exact(design, frame)
        fit = call(design, frame, seed + i)
        low, high = fit.conf_int().loc[design.estimand]
        inside = low <= target <= high
        found.append((plain - target, fit.params[design.estimand] - target, inside, high - low,
                      fit.bse[design.estimand]))  # fmt: skip
    plain, ours, inside, width, se = np.array(found, dtype=float).T
    ratio = math.sqrt(np.mean(ours**2) / np.mean(plain**2))
    return (
        f"| {design.name} | {design.n} | {design.eps:g} | {target:.3f} | "
        f"{math.sqrt(np.mean(plain**2)):.4f} | {math.sqrt(np.mean(ours**2)):.4f} | {ratio:.2f} | "
        f"{ours.mean() / ours.std():.2f} | {np.median(se):.4f} | "
        f"{np.median(width) / 3.92 / math.sqrt(np.mean(plain**2)):.2f} | {inside.mean():.3f} |"
    )


HEAD = [
    "| design | n | eps | truth | RMSE, no noise | RMSE | ratio | bias / sd | median SE | width | "
    "coverage |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
]


def main():
    """Write the report, or print the designs with a word in their name."""
    warnings.simplefilter("ignore")
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    word = sys.argv[2] if len(sys.argv) > 2 else None
    if word is not None:
        print("\n".join(HEAD))
        every = (*TUNED, *ALSO_TUNED, *ASIDE, *REAL_TUNED, *REAL_ASIDE)
        for k, design in enumerate(every):
            if word in design.name or (word == "tuned" and design in TUNED):
                begun, own = time.perf_counter(), 50_000 + 1_000 * k
                print(run(design, runs, own), f"{(time.perf_counter() - begun) / runs:.2f} s", flush=True)
        return
    begun = time.process_time()
    lines = [
        "# Average treatment effects",
        "",
        f"`python benchmarks/effects.py {runs}`, seeded, delta = 1e-6, {runs} runs a line: standard "
        f"error of a coverage about {math.sqrt(0.05 * 0.95 / runs):.3f}. RMSE about the effect in the "
        "population; without noise: AIPW by maximum likelihood at the same bounds of the "
        "propensity. Of real tables both are AIPW with propensities cut at .001, the population the "
        "whole table. Width: median half width over 1.96 RMSE without noise.",
    ]
    for title, designs, seed in (
        ("Designs on which constants were tuned, other seeds", TUNED, 4_900_000),
        ("Designs of a second tuning, other seeds", ALSO_TUNED, 4_700_000),
        ("Designs looked at once they were frozen", ASIDE, 4_500_000),
        ("Real tables on which constants were tuned, other seeds", REAL_TUNED, 4_300_000),
        ("Real tables looked at once they were frozen", REAL_ASIDE, 4_100_000),
    ):
        lines += ["", f"## {title}", "", *HEAD]
        for k, design in enumerate(designs):
            lines.append(run(design, runs, seed + 1_000 * k))
            print(lines[-1], flush=True)
    lines += one_core(begun)
    write(RESULTS / "effects.md", lines)


if __name__ == "__main__":
    main()
