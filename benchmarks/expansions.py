"""Hazards, panels and choices: coverage and width of intervals, against fits without privacy.

    python benchmarks/expansions.py [fits] [design ...]

Seeded. Designs of the specification: *cox* (three covariates, Weibull times, censored uniformly),
*feols* and *fepois* (uneven panels, a covariate that goes with the person's effect), *re* and
*re-plain* (random intercepts on the same panels with and without person means: the truth is the fit
of 300 000 people at the weights that each fit released), *polr* and
*multinom* (rows drawn from ``winequality.csv.gz``, whose own fit is the truth; skipped without the
data folder). Width: half width of the interval over 1.96 standard errors of the fit without privacy.
"""

import sys
import time
import warnings
from functools import cache

import numpy as np
import pandas as pd
from common import RESULTS, data_folder, one_core, write

import dpmodels as dp

FITS = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 200
ASKED = sys.argv[2:] or ["cox", "feols", "re", "re-plain", "fepois", "polr", "multinom"]
SETTINGS = [(10_000, 1.0), (5000, 1.0), (10_000, 0.3)]
Z = 1.959963984540054
BETA = np.array([0.5, -0.4, 0.3])
PANEL = np.array([0.3, 0.2, -0.1])
#: Shares of the variance at which the truth of random intercepts is known; between them straight.
WEIGHTS = np.array([0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1])


def cohort(rng, n):
    """Return the Cox simulation."""
    x = np.array(
        [rng.random(n) < 0.4, np.clip(rng.normal(size=n), -3, 3), rng.uniform(-1, 1, n)], float
    )
    dies = 8.0 * (rng.exponential(size=n) / np.exp(BETA @ x)) ** (1 / 1.3)
    leaves = rng.uniform(2, 12, n)
    seen, dead = np.minimum(dies, leaves), (dies <= leaves) * 1.0
    return pd.DataFrame({"t": seen, "d": dead, **dict(zip(["x1", "x2", "x3"], x, strict=True))})


def panel(rng, n, poisson=False):
    """Return the panel simulation, a row a person and year."""
    T = 1 + np.minimum(rng.poisson(rng.gamma(1.5, 3.0, n)), 11)
    who = np.repeat(np.arange(n), T)
    order = np.argsort(rng.random((n, 12)), axis=1)
    year = np.concatenate([own[:t] for own, t in zip(order, T, strict=True)]).astype(float)
    m, a, s = len(who), rng.normal(size=n), rng.normal(size=n)
    x1 = (rng.random(m) < 0.3 + 0.2 * (a[who] > 0)) * 1.0
    x2 = 0.7 * a[who] + rng.normal(size=m)
    x3 = 0.5 * s[who] + 0.05 * year + 0.3 * rng.normal(size=m)
    eta = PANEL @ np.array([x1, x2, x3])
    if poisson:
        y = rng.poisson(np.exp(0.5 * a[who] + eta - 0.2)).clip(max=50) * 1.0
    else:
        y = eta + a[who] + 0.6 * rng.standard_t(4, size=m)
    return pd.DataFrame({"id": who, "y": y, "x1": x1, "x2": x2, "x3": x3})


@cache
def wine(levels):
    """Return the table of wines: four classes in order, or three."""
    d = pd.read_csv(data_folder() / "winequality.csv.gz")
    cuts, names = ([5, 6, 7], "abcd") if levels == 4 else ([6, 7], "abc")
    return pd.DataFrame({
        "q": np.array(list(names))[np.digitize(d["quality"], cuts)],
        "a": (d["alcohol"] - 11.5) / 2, "v": (d["volatile_acidity"] - 0.8) / 0.4,
        "p": (d["pH"] - 3.3) / 0.3,
    })  # fmt: skip


def peer_cox(d):
    """Return (estimates, errors) without privacy."""
    from statsmodels.duration.hazard_regression import PHReg

    fit = PHReg(d["t"], d[["x1", "x2", "x3"]], status=d["d"], ties="efron").fit()
    return np.asarray(fit.params), np.asarray(fit.bse)


def within(d, columns):
    """Return columns less the means of people."""
    return (d[columns] - d.groupby("id")[columns].transform("mean")).to_numpy()


def peer_feols(d):
    """Return within estimates, errors by person."""
    X, y = within(d, ["x1", "x2", "x3"]), within(d, ["y"])[:, 0]
    A = np.linalg.inv(X.T @ X)
    b = A @ (X.T @ y)
    s = pd.DataFrame(X * (y - X @ b)[:, None]).groupby(d["id"].to_numpy()).sum().to_numpy()
    return b, np.sqrt(np.diag(A @ (s.T @ s) @ A))


def gls(d, share, means):
    """Return (estimates, errors by person) of generalised least squares at a share of variance."""
    who, y = d["id"].to_numpy(), d["y"].to_numpy()
    T = np.bincount(who)

    def mean(column):
        return (np.bincount(who, column) / T)[who]

    X = d[["x1", "x2", "x3"]].to_numpy()
    own = np.stack([mean(x) for x in X.T], axis=1)
    X = np.column_stack([np.ones(len(d)), X, *([own] if means else [])])
    own = np.column_stack([np.ones(len(d)), own, *([own] if means else [])])
    part = 1.0 - np.sqrt((1.0 - share) / (1.0 - share + T[who] * share))
    X, y = X - part[:, None] * own, y - part * mean(y)
    A = np.linalg.inv(X.T @ X)
    b = A @ (X.T @ y)
    S = np.stack([np.bincount(who, one) for one in (X * (y - X @ b)[:, None]).T], axis=1)
    return b, np.sqrt(np.diag(A @ (S.T @ S) @ A))


@cache
def truths(means):
    """Return the truth of random intercepts at ``WEIGHTS``, (weights, coefficients)."""
    d = panel(np.random.default_rng(99), 300_000)
    found = np.array([gls(d, min(share, 0.98), means)[0] for share in WEIGHTS])
    if means:
        found[:, 1:4] = PANEL  # within people it is that of the law
    return found


def at_weights(fit, means):
    """Return the truth at the weights that a fit released."""
    share = fit._record.estimate.stats["weight_icc"]
    return np.array([np.interp(share, WEIGHTS, one) for one in truths(means).T])


def peer_fepois(d):
    """Return conditional Poisson estimates, errors by person, by Newton's method."""
    X, y, who = d[["x1", "x2", "x3"]].to_numpy(), d["y"].to_numpy(), d["id"].to_numpy()
    n, b = np.bincount(who, y)[who], np.zeros(3)
    for _ in range(30):
        e = np.exp(X @ b)
        p = e / np.bincount(who, e)[who]
        mean = np.stack([np.bincount(who, p * x) for x in X.T], axis=1)[who]
        H = ((X - mean) * (n * p)[:, None]).T @ (X - mean)
        s = X * (y - n * p)[:, None]
        b = b + np.linalg.solve(H, s.sum(axis=0))
    S = np.stack([np.bincount(who, one) for one in s.T], axis=1)
    A = np.linalg.inv(H)
    return b, np.sqrt(np.diag(A @ (S.T @ S) @ A))


def ordered(X, y, levels):
    """Return slopes and thresholds of proportional odds, with errors."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    p, cuts = X.shape[1], len(levels) - 1
    codes = pd.Categorical(y, categories=levels).codes.astype(int)
    sizes = np.asarray(X).std(axis=0)
    fit = OrderedModel(codes, np.asarray(X) / sizes, distr="logit").fit(
        method="bfgs", disp=0, maxiter=500
    )
    beta = np.asarray(fit.params)
    J = np.diag([*(1.0 / sizes), *np.ones(cuts)])
    for k in range(p + 1, p + cuts):  # thresholds are kept as increments of logs
        J[k, p + 1 : k + 1] = np.exp(beta[p + 1 : k + 1])
        J[k, p] = 1.0
    at = beta[p] + np.concatenate([[0.0], np.cumsum(np.exp(beta[p + 1 :]))])
    V = J @ np.asarray(fit.cov_params()) @ J.T
    return np.concatenate([beta[:p] / sizes, at]), np.sqrt(np.diag(V))


def peer_polr(d):
    """Return slopes and thresholds."""
    return ordered(d[["a", "v", "p"]], d["q"], list("abcd"))


def peer_multinom(d):
    """Return coefficients of the second and the third level."""
    from statsmodels.api import MNLogit

    X = np.column_stack([np.ones(len(d)), d[["a", "v", "p"]].to_numpy()])
    fit = MNLogit(pd.Categorical(d["q"]).codes.astype(int), X).fit(disp=0)
    return np.asarray(fit.params).T.ravel(), np.asarray(fit.bse).T.ravel()


def fit_of(design, d, eps, seed):
    """Fit with privacy."""
    call = {"eps": eps, "delta": 1e-6, "seed": seed}
    box = {"x1": (0, 1), "x2": (-6, 6), "x3": (-3, 4)}
    if design == "cox":
        box = {"t": (0, 12), "x1": (0, 1), "x2": (-3, 3), "x3": (-1, 1)}
        return dp.dp_coxph("Surv(t, d == 1) ~ x1 + x2 + x3", d, bounds=box, **call)
    if design == "feols":
        return dp.dp_feols(
            "y ~ x1 + x2 + x3 | id", d, unit="id", bounds={**box, "y": (-10, 10)}, **call
        )
    if design in ("re", "re-plain"):
        return dp.dp_feols(
            "y ~ x1 + x2 + x3", d, unit="id", re="id", mundlak=design == "re",
            bounds={**box, "y": (-10, 10)}, **call,
        )  # fmt: skip
    if design == "fepois":
        schema = {**box, "y": dp.Count(50)}
        return dp.dp_fepois("y ~ x1 + x2 + x3 | id", d, unit="id", schema=schema, **call)
    kind = dp.Ordered(list("abcd")) if design == "polr" else dp.Levels(list("abc"))
    schema = {"q": kind, "a": (-2, 2), "v": (-2, 2), "p": (-2, 3)}
    verb = dp.dp_polr if design == "polr" else dp.dp_multinom
    return verb("q ~ a + v + p", d, schema=schema, **call)


PEERS = {"cox": peer_cox, "feols": peer_feols, "re": lambda d: gls(d, 0.35, True),
         "re-plain": lambda d: gls(d, 0.35, False), "fepois": peer_fepois, "polr": peer_polr,
         "multinom": peer_multinom}  # fmt: skip


@cache
def truth_of(design):
    """Return the coefficients of the law that rows are drawn from."""
    if design in ("cox", "feols", "fepois"):
        return BETA if design == "cox" else PANEL
    return PEERS[design](wine(4 if design == "polr" else 3))[0]


def drawn(design, rng, n):
    """Return one table."""
    if design == "cox":
        return cohort(rng, n)
    if design in ("feols", "fepois", "re", "re-plain"):
        return panel(rng, n, design == "fepois")
    table = wine(4 if design == "polr" else 3)
    return table.iloc[rng.integers(0, len(table), n)].reset_index(drop=True)


def measured(design, n, eps, fits):
    """Return coverage, width, bias over the error and the private error, by coefficient."""
    random = design.startswith("re")
    truth, found = 0.0 if random else truth_of(design), []
    peer = PEERS[design](drawn(design, np.random.default_rng(7), 10_000))[1] * np.sqrt(10_000 / n)
    for seed in range(fits):
        d = drawn(design, np.random.default_rng([seed, n]), n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = fit_of(design, d, eps, seed)
        ends, at = fit.conf_int().to_numpy(), fit.params.to_numpy()
        own = at_weights(fit, design == "re") if random else 0.0  # each fit has its own
        found.append((ends[:, 0] - own, ends[:, 1] - own, at - own))
    low, high, at = (np.array(one) for one in zip(*found, strict=True))
    return {
        "covers": ((low <= truth) & (truth <= high)).mean(axis=0),
        "width": np.median((high - low) / (2 * Z * peer), axis=0),
        "bias": (np.mean(at, axis=0) - truth) / peer,
        "rmse": np.sqrt(np.mean((at - truth) ** 2, axis=0)) / peer,
    }


def row(design, n, eps, fits):
    """Return a line of the report."""
    began = time.perf_counter()
    one = measured(design, n, eps, fits)
    cells = [" ".join(f"{v:.{k}f}" for v in one[name])
             for name, k in (("covers", 2), ("width", 2), ("bias", 1), ("rmse", 1))]  # fmt: skip
    took = (time.perf_counter() - began) / fits
    line = f"| {design} | {n} | {eps:g} | {fits} | " + " | ".join(cells) + f" | {took:.2f} |"
    print(line, flush=True)
    return line


def main():
    """Write the report."""
    start = time.process_time()
    lines = [
        *__doc__.splitlines(),
        "",
        "| design | N | eps | fits | covers | width | bias | RMSE | seconds a fit |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [row(design, n, eps, FITS) for n, eps in SETTINGS for design in ASKED]
    write(RESULTS / "expansions.md", [*lines, *one_core(start)])


if __name__ == "__main__":
    main()
