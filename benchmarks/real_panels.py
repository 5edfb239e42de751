"""Fits by person on real panels, at three budgets: what their intervals cover, and what is marked.

    python benchmarks/real_panels.py [--part tuned|aside] [--fits 20] [--cells 3000:1,10000:1,3000:4]

Seeded. A population is a real panel as it stands; its people are drawn with replacement, N of them, with
all their rows; delta = 1e-6. Truth: the fit without privacy of the whole population. Widths (half widths of
intervals over 1.96) and errors are over the error by person without privacy. Rules and constants were chosen
on the tables of ``tuned``; those of ``aside`` were opened when they were frozen (``males`` are the men of
``wagepan``). Marked: not tested, or "long responses may be cut"; a coefficient below .80 counts where it was
free of marks in four fits or more. Needs the folder of data.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from common import RESULTS, data_folder, design_matrix, marked, one_core, outwards, write

import dpmodels as dp

Z = 1.959963984540054
CUT = "clip.large_residuals"


def labelled(d, names):
    """Return the label of each row among indicators."""
    return np.array(names)[d[names].to_numpy().argmax(axis=1)]


@cache
def table(name):
    """Return a panel, people numbered as ``id``."""
    d = pd.read_csv(data_folder() / f"{name}.csv.gz")
    if name == "star":
        grades = [
            pd.DataFrame({
                "id": np.arange(len(d)), "grade": str(k), "math": d[f"math{g}"], "read": d[f"read{g}"],
                "small": (d[f"star{g}"] == "small") * 1.0, "aide": (d[f"star{g}"] == "regular+aide") * 1.0,
                "exper": d[f"experience{g}"], "lunch": (d[f"lunch{g}"] == "free") * 1.0,
                "school": d[f"school{g}"], "female": (d["gender"] == "female") * 1.0,
                "white": (d["ethnicity"] == "cauc") * 1.0, "degree": d[f"degree{g}"],
            })
            for k, g in enumerate("k123")
        ]  # fmt: skip
        d = pd.concat(grades).dropna().sort_values("id", kind="stable").reset_index(drop=True)
        d.loc[d["degree"].isin(["specialist", "phd"]), "degree"] = "master"
        d["hi"] = (d["math"] > d["math"].quantile(0.75)) * 1.0
    person = {"star": "id", "wagepan": "nr", "males": "nr", "rwm5yr": "id", "medpar": "provnum", "colon": "id"}
    if name == "colon":
        d = d.dropna(subset=["differ", "nodes"]).reset_index(drop=True)
        d["t"], d["fu"], d["etype"] = d["time"] / 365.25, (d["rx"] == "Lev+5FU") * 1.0, d["etype"].astype(str)
    d["id"] = pd.factorize(d[person[name]])[0]
    if name == "wagepan":
        sectors = ["agric", "min", "construc", "trad", "tra", "fin", "bus", "per", "ent", "manuf", "pub"]
        d["ind"], d["occ"] = labelled(d, sectors), labelled(d, [f"occ{i}" for i in range(1, 10)])
    if name == "males":
        for word in ("union", "maried", "health"):
            d[word] = (d[word] == "yes") * 1.0
        d["residence"] = d["residence"].fillna("none")
    if name == "rwm5yr":
        d["ill"], d["log_income"] = (d["docvis"] > 0) * 1.0, np.log(np.clip(d["hhninc"], 0.1, None))
        d["edlevel"] = d["edlevel"].astype(int)
    if name == "medpar":
        d = d.sort_values("id", kind="stable").reset_index(drop=True)
    words = [c for c in ("year", "edlevel", "type") if c in d]
    return d.astype(dict.fromkeys(words, str))


@dataclass(frozen=True)
class Case:
    """A panel and a model of it; ranges of numbers that are not those of the table."""

    of: str
    verb: str
    formula: str
    ranges: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)

    def schema(self):
        d, out = table(self.of), {}
        words = set("".join(c if c.isalnum() or c == "_" else " " for c in self.formula).split()) - {"id"}
        for c in [c for c in d.columns if c in words]:
            if c in self.ranges:
                out[c] = self.ranges[c]
            elif pd.api.types.is_numeric_dtype(d[c]):
                out[c] = dp.Real(*outwards(float(d[c].min()), float(d[c].max())))
            else:
                out[c] = dp.Levels(sorted(d[c].unique().tolist()))
        return dp.Schema(**out)


ILL = {"age": (18, 80), "educ": (5, 20)}
WAGE = {"lwage": (-5, 6), "educ": (0, 20), "exper": (0, 30)}
HOURS = {"hours": (0, 5000), "educ": (0, 20), "exper": (0, 30)}
PAID = {"wage": (-5, 6), "exper": (0, 30), "school": (0, 20)}
SCORES = {"math": (300, 800), "read": (300, 800), "exper": (0, 50)}
EVENT, COUNT = {"family": "binomial"}, {"family": "poisson"}
WIDE = "age + I(age**2) + female*married + kids + educ + self + C(year) + C(edlevel)"
YN = dp.Binary()
CASES = {
    "tuned": {
        "feols wage": Case("wagepan", "dp_feols", "lwage ~ union + married + poorhlth + exper | id", WAGE),
        "feols wage wide": Case("wagepan", "dp_feols",
                                "lwage ~ union + married + exper + I(exper**2) + C(occ) | id", WAGE),
        "feols hours": Case("wagepan", "dp_feols", "hours ~ union + married + exper + south | id", HOURS),
        "feols log income": Case("rwm5yr", "dp_feols", "log_income ~ kids + outwork + married + self | id",
                                 {"log_income": (-3, 5)}),
        "feols income": Case("rwm5yr", "dp_feols", "hhninc ~ kids + outwork + married + self | id",
                             {"hhninc": (0, 40)}),
        "feols visits": Case("rwm5yr", "dp_feols", "docvis ~ age + kids + outwork | id",
                             {**ILL, "docvis": (0, 130)}),
        "fepois visits": Case("rwm5yr", "dp_fepois", "docvis ~ age + kids + outwork | id",
                              {**ILL, "docvis": dp.Count(130)}),
        "ols income": Case("rwm5yr", "dp_ols", "hhninc ~ age + educ + female + outwork + married",
                           {**ILL, "hhninc": (0, 40)}),
        "ols income wide": Case("rwm5yr", "dp_ols", f"hhninc ~ {WIDE}", {**ILL, "hhninc": (0, 150)}),
        "ols visits": Case("rwm5yr", "dp_ols", "docvis ~ age + educ + female + outwork + kids",
                           {**ILL, "docvis": (0, 130)}),
        "ols hospital": Case("rwm5yr", "dp_ols", "hospvis ~ age + female + outwork",
                             {**ILL, "hospvis": (0, 55)}),
        "ols wage": Case("wagepan", "dp_ols", "lwage ~ educ + exper + union + married + black", WAGE),
        "ols wage wide": Case("wagepan", "dp_ols", "lwage ~ educ + exper + I(exper**2) + union + married + "
                              "black + hisp + C(ind)", WAGE),
        "ols hours": Case("wagepan", "dp_ols", "hours ~ educ + exper + union + married + C(occ)", HOURS),
        "logit ill": Case("rwm5yr", "dp_glm", "ill ~ age + educ + female + outwork + kids",
                          {**ILL, "ill": YN}, EVENT),
        "logit self": Case("rwm5yr", "dp_glm", "self ~ age + educ + female + kids", {**ILL, "self": YN}, EVENT),
        "logit union": Case("wagepan", "dp_glm", "union ~ educ + exper + black + married + C(occ)",
                            {**HOURS, "union": YN}, EVENT),
        "poisson visits": Case("rwm5yr", "dp_glm", "docvis ~ age + educ + female + outwork + kids",
                               {**ILL, "docvis": dp.Count(130)}, COUNT),
        "poisson wide": Case("rwm5yr", "dp_glm", f"docvis ~ {WIDE}", {**ILL, "docvis": dp.Count(130)}, COUNT),
        "re wage": Case("wagepan", "dp_feols", "lwage ~ union + married + exper", WAGE, {"re": "id"}),
        "re income": Case("rwm5yr", "dp_feols", "hhninc ~ age + outwork + married",
                          {**ILL, "hhninc": (0, 40)}, {"re": "id"}),
    },
    "aside": {
        "star math": Case("star", "dp_ols", "math ~ small + aide + female + white + lunch + C(grade)", SCORES),
        "star read wide": Case("star", "dp_ols", "read ~ small + aide + female + white + lunch + exper + "
                               "C(school) + C(degree) + C(grade)", SCORES),
        "star feols": Case("star", "dp_feols", "math ~ small + aide + exper + lunch + C(grade) | id", SCORES),
        "star logit": Case("star", "dp_glm", "hi ~ small + female + white + lunch + C(grade)",
                           {"hi": YN}, EVENT),
        "star re": Case("star", "dp_feols", "math ~ small + lunch + exper", SCORES, {"re": "id"}),
        "males wide": Case("males", "dp_ols", "wage ~ school + exper + I(exper**2) + union + ethn + maried + "
                           "health + C(industry)", PAID),
        "males feols": Case("males", "dp_feols", "wage ~ union + maried + exper + I(exper**2) + C(residence) "
                            "| id", PAID),
        "males logit": Case("males", "dp_glm", "union ~ school + exper + ethn + maried + C(industry)",
                            {**PAID, "union": YN}, EVENT),
        "medpar los": Case("medpar", "dp_ols", "los ~ hmo + white + died + C(type)", {"los": (0, 120)}),
        "medpar poisson": Case("medpar", "dp_glm", "los ~ hmo + white + died + C(type)",
                               {"los": dp.Count(120)}, COUNT),
        "colon time": Case("colon", "dp_ols", "t ~ fu + age + node4 + nodes + sex + C(etype)",
                           {"t": (0, 10), "age": (18, 100), "nodes": (0, 50)}),
        "colon logit": Case("colon", "dp_glm", "status ~ fu + age + node4 + surg + sex + C(etype)",
                            {"status": YN, "age": (18, 100)}, EVENT),
    },
}  # fmt: skip


def drawn(ids, rng, N):
    """Return the rows of N people drawn with replacement, and their numbers."""
    counts, order = np.bincount(ids), np.argsort(ids, kind="stable")
    first = np.cumsum(counts) - counts
    who = rng.integers(0, len(counts), N)
    rows = np.concatenate([order[first[i] : first[i] + counts[i]] for i in who])
    return rows, np.repeat(np.arange(N), counts[who])


def by_person(W, residual, H, who):
    """Return the sandwich errors of a step ``H^-1 W'r``, by person."""
    S = np.stack([np.bincount(who, w * residual) for w in W.T], axis=1)
    A = np.linalg.pinv(H)
    return np.sqrt(np.diag(A @ (S.T @ S) @ A))


def without_privacy(case, X, y, who):
    """Return (estimates, errors by person); levels without a row in a sample are aliased."""
    size = np.bincount(who)

    def mean(v, w=None):
        if w is None:
            return (np.bincount(who, v) / size)[who]
        return (np.bincount(who, v * w) / np.maximum(np.bincount(who, w), 1e-300))[who]

    if "re" in case.more:
        import statsmodels.api as sm

        X = np.column_stack([X, *(mean(x) for x in X[:, 1:].T)])
        fit = sm.MixedLM(y, X, groups=who).fit()
        b, between = np.asarray(fit.params)[: X.shape[1]], float(np.asarray(fit.cov_re)[0, 0])
        theta = (1 - np.sqrt(fit.scale / (fit.scale + size * between)))[who]
        W = np.stack([x - theta * mean(x) for x in X.T], axis=1)
        return b, by_person(W, y - theta * mean(y) - W @ b, W.T @ W, who)
    if case.verb in ("dp_feols", "dp_fepois"):
        X, counts = X[:, 1:], case.verb == "dp_fepois"
        b, n = np.zeros(X.shape[1]), np.bincount(who, y)[who]
        for _ in range(30 if counts else 1):
            e = np.exp(X @ b) if counts else np.ones(len(y))
            W, expected = np.stack([x - mean(x, e) for x in X.T], axis=1), n * e / np.bincount(who, e)[who]
            residual = y - expected if counts else y - mean(y)
            H = (W * (expected if counts else e)[:, None]).T @ W
            b = b + np.linalg.pinv(H) @ (W.T @ residual)
        return b, by_person(W, residual if counts else residual - W @ b, H, who)
    import statsmodels.api as sm

    family = {"binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}.get(
        case.more.get("family"), sm.families.Gaussian()
    )
    fit = sm.GLM(y, X, family=family).fit()
    mu = fit.mu
    H = (X * family.weights(mu)[:, None]).T @ X  # of a canonical link the variance
    return np.asarray(fit.params), by_person(X, y - mu, H, who)


def cell(case, N, eps, fits):
    """Return figures of a model at one number of people and eps."""
    d, schema = table(case.of), case.schema()
    X, y = design_matrix(d, case.formula.split("|")[0], schema)[:2]
    ids = d["id"].to_numpy()
    truth, _ = without_privacy(case, X, y, ids)
    rows, who = drawn(ids, np.random.default_rng(99), N)
    _, peer = without_privacy(case, X[rows], y[rows], who)
    hit, half, error, marks, untested = [], [], [], [], []
    for seed in range(fits):
        rows, who = drawn(ids, np.random.default_rng([seed, 1]), N)
        frame = d.iloc[rows].reset_index(drop=True).assign(id=who)
        fit = getattr(dp, case.verb)(case.formula, frame, schema=schema, seed=seed, eps=eps, delta=1e-6,
                                     unit="id", **case.more)  # fmt: skip
        low, high = fit.conf_int().to_numpy().T
        gone = fit._record.estimate.untested
        gone = np.zeros(len(low), bool) if gone is None else np.asarray(gone)
        hit.append(np.where(np.isfinite(low), (low <= truth) & (truth <= high), np.nan))
        half.append((high - low) / (2 * Z * peer))
        error.append((fit.params.to_numpy() - truth) / peer)
        untested.append(gone)
        marks.append(gone | marked(fit, CUT))
    hit, half, error, marks = (np.array(v, dtype=float) for v in (hit, half, error, marks))
    free = np.where(marks > 0, np.nan, hit)
    enough = np.isfinite(free).sum(axis=0) >= 4
    return {
        "p": len(truth), "cover": np.nanmean(hit), "least": np.nanmin(np.nanmean(hit, axis=0)),
        "bad": int((np.nanmean(free, axis=0)[enough] < 0.8).sum()),
        "untested": float(np.mean(untested)), "marked": marks.mean(),
        "width": np.nanmedian(np.nanmedian(half, axis=0)),
        "rmse": np.nanmedian(np.sqrt(np.nanmean(error**2, axis=0))),
    }  # fmt: skip


def main():
    """Write the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", default="aside", choices=("tuned", "aside"))
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--cells", default="3000:1,10000:1,3000:4")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start, lines, over = time.process_time(), [], []
    for N, eps in (one.split(":") for one in args.cells.split(",")):
        found = []
        for name, case in CASES[args.part].items():
            c = cell(case, int(N), float(eps), args.fits)
            found.append(c)
            lines.append(
                f"| {name} | {c['p']} | {N} | {eps} | {c['cover']:.3f} / {c['least']:.2f} | {c['bad']} | "
                f"{c['untested']:.2f} | {c['marked']:.2f} | {c['width']:.2f} | {c['rmse']:.2f} |"
            )
            print(lines[-1], flush=True)
        covers = [c["cover"] for c in found]
        width, rmse = (np.exp(np.mean([np.log(c[k]) for c in found])) for k in ("width", "rmse"))
        over.append(
            f"| {N} | {eps} | {len(found)} | {np.mean(covers):.3f} / {min(covers):.2f} | "
            f"{sum(c['bad'] for c in found)} | {np.mean([c['untested'] for c in found]):.2f} | "
            f"{np.mean([c['marked'] for c in found]):.2f} | {width:.2f} | {rmse:.2f} |"
        )
        print(over[-1], flush=True)
    write(
        RESULTS / f"real_panels_{args.part}.md",
        [*__doc__.splitlines(), "", f"{args.fits} fits a cell; over models: geometric means of width and error.",
         "", "| people | eps | models | covers / least model | below .80 unmarked | not tested | marked | "
         "width | error |", "|---" * 9 + "|", *over, "",
         "| model | p | people | eps | covers / least coefficient | below .80 unmarked | not tested | marked | "
         "width | error |", "|---" * 10 + "|", *lines, *one_core(start)],
    )  # fmt: skip


if __name__ == "__main__":
    main()
