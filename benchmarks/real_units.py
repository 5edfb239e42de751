"""Hazards, panels and choices on real tables: do intervals cover the population's own coefficients?

    python benchmarks/real_units.py [fits] [case ...]

Seeded. A population is a real table as it stands (deaths and recurrences of ``colon``, people of
``rwm5yr`` and ``wagepan``, houses of ``rand_hie``); its people are drawn with replacement, 10 000
of them, eps = 1, delta = 1e-6, ranges declared generously. Truth: the fit without privacy of the
whole population. Width: half width of the interval over 1.96 errors without privacy (by person). A
coefficient that a fit names (not determined, or resting on few rows) is left out of that fit; how
often is said beside. Needs the data folder.
"""

import sys
import time
import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import expansions as peers
import numpy as np
import pandas as pd
from common import RESULTS, data_folder, one_core, write

import dpmodels as dp

FITS = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 60
ASKED = sys.argv[2:]
N, EPS, Z = 10_000, 1.0, 1.959963984540054
CALL: dict[str, Any] = {"eps": EPS, "delta": 1e-6}


@cache
def table(name):
    """Return a real table, people numbered as ``id``."""
    d = pd.read_csv(data_folder() / f"{name}.csv.gz")
    if name == "colon":
        d["t"], d["fu"] = d["time"] / 365.25, (d["rx"] == "Lev+5FU") * 1.0
        return d.dropna(subset=["differ", "nodes"]).reset_index(drop=True)
    if name == "wagepan":
        d["id"] = pd.factorize(d["nr"])[0]
        d["region"] = np.select([d["south"] == 1, d["nrtheast"] == 1, d["nrthcen"] == 1],
                                ["south", "northeast", "north"], "west")  # fmt: skip
    if name == "rwm5yr":
        d["id"] = pd.factorize(d["id"])[0]
        d["ill"] = (d["docvis"] > 0) * 1.0
        d["much"] = np.array(["none", "few", "some", "many"])[
            np.digitize(d["docvis"], [1, 3, 8])
        ]
        d["tri"] = np.array(list("abc"))[np.digitize(d["docvis"], [1, 4])]
        d["level"] = d["edlevel"].astype(int).astype(str)
        d["log_income"] = np.log(np.clip(d["hhninc"], 0.1, None))
    return d


@dataclass(frozen=True)
class Case:
    """A population and a model of it.

    Attributes
    ----------
    of : (str, dict)
        Table, and what rows of it are the population.
    verb, formula : str
    schema : dict
        Declared columns.
    """

    of: tuple[str, dict[str, Any]]
    verb: str
    formula: str
    schema: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self):
        return [s.strip() for s in self.formula.split("~")[1].split("|")[0].split("+")]

    @property
    def response(self):
        return self.formula.split("~")[0].strip()

    @property
    def by_person(self):
        return "unit" in self.more

    def population(self):
        d = table(self.of[0])
        for name, value in self.of[1].items():
            d = d[d[name] == value]
        return d.reset_index(drop=True)


ILL = {"age": (18, 80), "female": (0, 1), "outwork": (0, 1), "married": (0, 1), "kids": (0, 1),
       "educ": (5, 20), "self": (0, 1)}  # fmt: skip
WORK = {"union": (0, 1), "married": (0, 1), "poorhlth": (0, 1), "south": (0, 1), "educ": (0, 20),
        "exper": (0, 30), "black": (0, 1)}  # fmt: skip
COLON = {"t": (0, 10), "fu": (0, 1), "age": (18, 100), "node4": (0, 1), "surg": (0, 1),
         "obstruct": (0, 1), "nodes": (0, 50), "sex": (0, 1), "differ": (1, 3),
         "status": dp.Binary()}  # fmt: skip
PERSON = {"unit": "id"}
CASES = {
    "cox deaths": Case(("colon", {"etype": 2}), "dp_coxph",
                       "Surv(t, status) ~ fu + age + node4 + obstruct + sex", COLON),
    "cox recurrences, skewed nodes": Case(("colon", {"etype": 1}), "dp_coxph",
                                          "Surv(t, status) ~ fu + age + nodes + differ", COLON),
    "cox, strata(sex)": Case(("colon", {"etype": 1}), "dp_coxph",
                             "Surv(t, status) ~ fu + node4 + surg + strata(sex)",
                             {**COLON, "sex": dp.Levels([0, 1])}),
    "feols wage": Case(("wagepan", {}), "dp_feols",
                       "lwage ~ union + married + poorhlth + exper | id",
                       {**WORK, "lwage": (-5, 6)}, PERSON),
    "feols log income": Case(("rwm5yr", {}), "dp_feols",
                             "log_income ~ kids + outwork + married + self | id",
                             {**ILL, "log_income": (-3, 5)}, PERSON),
    "feols income": Case(("rwm5yr", {}), "dp_feols", "hhninc ~ kids + outwork + married + self | id",
                         {**ILL, "hhninc": (0, 40)}, PERSON),
    "feols visits": Case(("rwm5yr", {}), "dp_feols", "docvis ~ age + kids + outwork | id",
                         {**ILL, "docvis": (0, 130)}, PERSON),
    "fepois visits": Case(("rwm5yr", {}), "dp_fepois", "docvis ~ age + kids + outwork | id",
                          {**ILL, "docvis": dp.Count(130)}, PERSON),
    "ols of people, income": Case(("rwm5yr", {}), "dp_ols",
                                  "hhninc ~ age + educ + female + outwork + married",
                                  {**ILL, "hhninc": (0, 40)}, PERSON),
    "ols of people, wage": Case(("wagepan", {}), "dp_ols",
                                "lwage ~ educ + exper + union + married + black",
                                {**WORK, "lwage": (-5, 6)}, PERSON),
    "logit of people": Case(("rwm5yr", {}), "dp_glm", "ill ~ age + educ + female + outwork + kids",
                            {**ILL, "ill": dp.Binary()}, {**PERSON, "family": "binomial"}),
    "poisson of people": Case(("rwm5yr", {}), "dp_glm",
                              "docvis ~ age + educ + female + outwork + kids",
                              {**ILL, "docvis": dp.Count(130)}, {**PERSON, "family": "poisson"}),
    "polr visits": Case(("rwm5yr", {"year": 1988}), "dp_polr", "much ~ age + educ + female + outwork",
                        {**ILL, "much": dp.Ordered(["none", "few", "some", "many"])}),
    "logit of people, rare": Case(("rwm5yr", {}), "dp_glm", "self ~ age + educ + female + kids",
                                  {**ILL, "self": dp.Binary()}, {**PERSON, "family": "binomial"}),
    "random intercepts, wage": Case(("wagepan", {}), "dp_feols", "lwage ~ union + married + exper",
                                    {**WORK, "lwage": (-5, 6)}, {**PERSON, "re": "id"}),
    "polr schooling": Case(("rwm5yr", {"year": 1988}), "dp_polr", "level ~ age + female + hhninc",
                           {**ILL, "hhninc": (0, 40), "level": dp.Ordered(list("1234"))}),
    "multinom visits": Case(("rwm5yr", {"year": 1988}), "dp_multinom", "tri ~ age + female",
                            {**ILL, "tri": dp.Levels(list("abc"))}),
    "multinom region": Case(("wagepan", {"year": 1987}), "dp_multinom",
                            "region ~ educ + union + black",
                            {**WORK, "region": dp.Levels(["north", "northeast", "south", "west"])}),
}  # fmt: skip


def drawn(case, whole, rng):
    """Return the rows of N people drawn with replacement."""
    if not case.by_person:
        return whole.iloc[rng.integers(0, len(whole), N)].reset_index(drop=True)
    counts = whole.groupby("id").size().reindex(range(whole["id"].max() + 1), fill_value=0)
    order = np.argsort(whole["id"].to_numpy(), kind="stable")
    first = np.cumsum(counts.to_numpy()) - counts.to_numpy()
    who = rng.choice(np.flatnonzero(counts.to_numpy()), N)
    rows = np.concatenate([order[first[i] : first[i] + counts.iat[i]] for i in who])
    d = whole.iloc[rows].reset_index(drop=True)
    return d.assign(id=np.repeat(np.arange(N), counts.to_numpy()[who]))


def by_person(case, d):
    """Return (estimates, errors by person) of a regression of rows."""
    import statsmodels.api as sm

    X = sm.add_constant(d[case.names].astype(float), has_constant="add")
    y = d[case.response]
    family = {"binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}.get(
        case.more.get("family"), sm.families.Gaussian()
    )
    fit = sm.GLM(y, X, family=family).fit(cov_type="cluster", cov_kwds={"groups": d["id"]})
    return np.asarray(fit.params), np.asarray(fit.bse)


def fixed(case, d, counts):
    """Return within estimates, or those of counts, with errors by person."""
    X = d[case.names].to_numpy(float)
    y, who = d[case.response].to_numpy(float), d["id"].to_numpy()

    def mean(v, w):
        return (np.bincount(who, v * w) / np.maximum(np.bincount(who, w), 1e-300))[who]

    one, b = np.ones(len(y)), np.zeros(X.shape[1])
    n = np.bincount(who, y)[who]
    for _ in range(30 if counts else 1):
        e = np.exp(X @ b) if counts else one
        W = np.stack([x - mean(x, e) for x in X.T], axis=1)
        share = e / np.bincount(who, e)[who]
        omega = n * share if counts else one
        residual = y - n * share if counts else y - mean(y, one)
        H = (W * omega[:, None]).T @ W
        step = np.linalg.solve(H, W.T @ residual)
        b = b + step
    if not counts:
        residual = y - mean(y, one) - W @ b
    S = np.stack([np.bincount(who, w * residual) for w in W.T], axis=1)
    A = np.linalg.inv(H)
    return b, np.sqrt(np.diag(A @ (S.T @ S) @ A))


def without_privacy(case, d):
    """Return (estimates, errors), in the order of the private fit."""
    if case.verb == "dp_coxph":
        from statsmodels.duration.hazard_regression import PHReg

        names = [n for n in case.names if not n.startswith("strata")]
        more = {"strata": d["sex"]} if len(names) < len(case.names) else {}
        fit = PHReg(d["t"], d[names], status=d["status"], ties="efron", **more).fit()
        return np.asarray(fit.params), np.asarray(fit.bse)
    if "re" in case.more:
        import statsmodels.api as sm

        X = d[case.names].astype(float)
        means = X.groupby(d["id"]).transform("mean").add_prefix("mean of ")
        X = sm.add_constant(X.join(means))
        fit = sm.MixedLM(d[case.response], X, groups=d["id"]).fit()
        return np.asarray(fit.params)[: X.shape[1]], np.asarray(fit.bse)[: X.shape[1]]
    if case.verb in ("dp_feols", "dp_fepois"):
        return fixed(case, d, case.verb == "dp_fepois")
    if case.verb == "dp_polr":
        levels = list(case.schema[case.response].levels)
        return peers.ordered(d[case.names].astype(float), d[case.response], levels)
    if case.verb == "dp_multinom":
        from statsmodels.api import MNLogit

        X = np.column_stack([np.ones(len(d)), d[case.names].to_numpy(float)])
        fit = MNLogit(pd.Categorical(d[case.response]).codes.astype(int), X).fit(disp=0)
        return np.asarray(fit.params).T.ravel(), np.asarray(fit.bse).T.ravel()
    return by_person(case, d)


def row(name):
    """Return a line of the report."""
    case = CASES[name]
    whole = case.population()
    truth, _ = without_privacy(case, whole)
    _, peer = without_privacy(case, drawn(case, whole, np.random.default_rng(99)))
    columns = {k: v for k, v in case.schema.items() if k in case.formula}
    found, said = [], ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FITS):
            d = drawn(case, whole, np.random.default_rng([seed, 1]))
            fit = getattr(dp, case.verb)(
                case.formula, d, schema=columns, seed=seed, **CALL, **case.more
            )
            low, high = fit.conf_int().to_numpy().T
            open_ = np.zeros(len(low), bool)
            if fit._record.estimate.untested is not None:
                open_ = np.asarray(fit._record.estimate.untested)
            low, high = np.where(open_, np.nan, low), np.where(open_, np.nan, high)
            found.append((low, high, fit.params.to_numpy()))
        plan = dp.plan(case.formula, dp.Schema(**columns), n=N, verb=case.verb, **CALL,
                       **({**case.more, "units": N} if case.by_person else {}))  # fmt: skip
        said = plan.scales.get("noise of the information", float("nan"))
    low, high, at = (np.array(one) for one in zip(*found, strict=True))
    seen = np.isfinite(low)
    covers = np.where(seen, (low <= truth) & (truth <= high), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a coefficient that is named in every fit
        covers = np.nanmean(covers, axis=0)
        width = np.nanmedian((high - low) / (2 * Z * peer), axis=0)
    bias = (at.mean(axis=0) - truth) / peer
    cells = [
        " ".join(f"{v:.2f}" for v in covers),
        " ".join(f"{v:.1f}" for v in width), " ".join(f"{v:.1f}" for v in bias),
        " ".join(f"{v:.2f}" for v in 1.0 - seen.mean(axis=0)),
    ]  # fmt: skip
    line = f"| {name} | {said:.2f} | " + " | ".join(cells) + " |"
    print(line, flush=True)
    return line


def main():
    """Write the report."""
    start = time.process_time()
    lines = [
        *__doc__.splitlines(), "", f"{FITS} fits a case.", "",
        "| case | forecast | covers | width | bias | named |", "|---|---|---|---|---|---|",
        *(row(name) for name in (ASKED or CASES)),
    ]  # fmt: skip
    if not ASKED:
        write(RESULTS / "real_units.md", [*lines, *one_core(start)])


if __name__ == "__main__":
    main()
