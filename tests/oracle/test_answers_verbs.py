"""The oracle of answers: random calls of every other verb, without noise, are the exact answers.

A case is a function of one integer: its verb, then columns of any size and place, coding, types,
weights, design, relation, unit, subset and source. The plan is that of a real budget; noise is
off. Every number that is printed with an error has the non-private answer within 1.96 of it, its
interval (all but one case within 1.5). The formulas of these answers are here. The median of a verb
is within a part of a sampling error. Deterministic: no false alarms, but for `noised_tables`, which
says its own. A new option is one more line here.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.errors import DPModelsWarning

#: At most this part of the numbers may have no error (designs), and so no test.
MARKED = 0.05
#: Errors within which the exact number lies.
INTERVAL = 1.96
#: Largest median distance of a kind, in sampling errors.
MEDIAN = 0.5


class Number(NamedTuple):
    """What a fit prints, and what it should."""

    name: str
    printed: float
    error: float
    exact: float
    sampling: float = np.nan


@dataclass
class Draw:
    """A random table with its declarations, and how it is handed over."""

    rng: np.random.Generator
    n: int
    columns: dict = field(default_factory=dict)
    variables: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def one_of(self, *values):
        return values[self.rng.integers(len(values))]

    # -- columns -------------------------------------------------------------------------------
    def number(self, name: str, *, wild: bool = True, u: np.ndarray | None = None) -> np.ndarray:
        """Add a number of any size and place; return it in (-1, 1)."""
        size = self.one_of(1.0, 1.0, 3.0, 1e8, 1e-6) if wild else 1.0
        centre = size * self.one_of(0.0, 0.0, 2.0, -30.0, 200.0) if wild else 0.0
        x = centre + size * (self.rng.uniform(-1, 1, self.n) if u is None else u)
        kind = self.one_of("float", "float", "float32", "int")
        if kind == "float32":
            x = x.astype(np.float32)
        elif kind == "int" and u is None and size >= 3.0:
            x = np.round(x).astype(np.int64)
        self.columns[name] = x
        self.variables[name] = dp.Real(centre - size, centre + size)
        return self.scaled(name)

    def scaled(self, name: str) -> np.ndarray:
        low, high = self.ends(name)
        return (np.clip(self.columns[name].astype(float), low, high) - (low + high) / 2) / (
            (high - low) / 2
        )

    def ends(self, name: str) -> tuple[float, float]:
        return self.variables[name].lower, self.variables[name].upper

    def levels(self, name: str, k: int, *, ordered: bool = False, code=None) -> np.ndarray:
        """Add a factor of k levels in one of several codings; return its codes."""
        code = self.rng.integers(0, k, self.n) if code is None else code
        told = self.one_of([f"{name}{c}" for c in "tuvwxyz"], list(range(1, 8)))[:k]
        cells = np.array(told)[code]
        self.columns[name] = pd.Categorical(cells, told) if self.chance(0.3) else cells
        self.variables[name] = dp.Ordered(told) if ordered else dp.Levels(told)
        return code

    def people(self, most: int = 5, least: int = 1) -> np.ndarray:
        """Make rows those of people, in a random order; return whose each is."""
        rows = self.rng.integers(least, most + 1, self.n // 3)
        who = self.rng.permutation(np.repeat(np.arange(len(rows)), rows))
        self.n = len(who)
        self.columns["pid"] = who + 17
        return who

    # -- the call ------------------------------------------------------------------------------
    def subset(self, p: float = 0.2) -> np.ndarray:
        """Leave rows out, or none; return which are in."""
        if not self.chance(p):
            return np.ones(self.n, dtype=bool)
        inside = self.number("keep", wild=False)
        self.options["subset"] = "keep > -0.5"
        return inside > -0.5

    def relation(self, p: float = 0.25) -> None:
        if self.chance(p):
            self.options |= {"relation": "add-remove", "n_guess": self.n}

    def data(self, folder: str):
        """Hand the table over in one of many forms."""
        frame = pd.DataFrame(self.columns)
        form = self.one_of("frame", "frame", "columns", "polars", "arrow", "parquet", "csv", "duckdb", "parts")
        if form == "columns":
            return {name: np.asarray(frame[name]) for name in frame}
        if form == "parts":
            at = self.n // 3
            return [frame.iloc[:at], frame.iloc[at:]]
        if form == "polars":
            return pytest.importorskip("polars").from_pandas(frame)
        if form == "arrow":
            return pytest.importorskip("pyarrow").Table.from_pandas(frame)
        if form == "parquet":
            pytest.importorskip("pyarrow")
            frame.to_parquet(Path(folder) / "t.parquet")
            return Path(folder) / "t.parquet"
        if form == "csv":
            frame.to_csv(Path(folder) / "t.csv", index=False)
            return Path(folder) / "t.csv"
        if form == "duckdb":
            plain = frame.astype({c: object for c in frame if frame[c].dtype == "category"})
            return pytest.importorskip("duckdb").from_df(plain)
        return frame

    def call(self, verb: Callable, formula: str, through: Callable | None = None, **options):
        """Make the call; ``through``: what is made of the table first."""
        options = {"eps": float(self.rng.uniform(1, 4)), "delta": 1e-6, **self.options, **options}
        with tempfile.TemporaryDirectory() as folder:
            data = self.data(folder)
            data = data if through is None else through(data)
            return verb(formula, data, schema=dp.Schema(**self.variables), **options)

    # -- a design matrix -----------------------------------------------------------------------
    def predictors(self, factor: float = 0.5) -> Lines:
        """Add numbers and perhaps a factor: their columns, the constant first, all of size one."""
        names = list("abc"[: self.rng.integers(1, 4)])
        columns, middle, half, printed = [np.ones(self.n)], [0.0], [1.0], ["Intercept"]
        for name in names:
            columns.append(self.number(name))
            low, high = self.ends(name)
            middle.append((low + high) / 2)
            half.append((high - low) / 2)
            printed.append(name)
        if self.chance(factor):
            k = int(self.rng.integers(2, 5))
            code = self.levels("g", k)
            names.append("g")
            for level in range(1, k):
                columns.append((code == level) * 1.0)
                printed.append(f"g[T.{self.variables['g'].levels[level]}]")
        more = len(columns) - len(middle)
        back = np.diag(1 / np.array(half + [1.0] * more))
        back[0, 1 : len(middle)] = -np.array(middle[1:]) / np.array(half[1:])
        return Lines(" + ".join(names), printed, np.column_stack(columns), back)


@dataclass
class Lines:
    """Columns of size one, their names as printed, and the map to the user's units."""

    right: str
    names: list
    X: np.ndarray
    back: np.ndarray

    def slopes(self, rng: np.random.Generator) -> np.ndarray:
        return np.append(0.0, rng.uniform(-0.5, 0.5, self.X.shape[1] - 1))


# -- what is compared --------------------------------------------------------------------------
def series(fit, names, exact) -> list[Number]:
    """Compare coefficients (or means) by name."""
    assert sorted(map(str, fit.params.index)) == sorted(map(str, names)), (list(fit.params.index), names)
    errors, sampling = fit.bse, fit.bse_sampling
    ends = np.asarray(fit.conf_int(), dtype=float)  # they allow for the bias bound of the fit
    half = pd.Series((ends[:, 1] - ends[:, 0]) / 3.92, index=fit.params.index)
    errors = half.where(np.isfinite(half), errors.where(np.isfinite(errors), fit.bse_privacy))
    return [
        Number(str(n), fit.params[n], errors[n], e, sampling[n])
        for n, e in zip(names, np.ravel(exact), strict=True)
    ]


def table(fit, exact: dict) -> list[Number]:
    """Compare the lines of a table: exact by (measure, variable, level)."""
    out = []
    for _, row in fit.tidy().iterrows():
        key = row["measure"], row["variable"], str(row["level"])
        if key in exact:
            error, sampling = row["std_error"], row["std_error_sampling"]
            error = error if np.isfinite(error) else row["std_error_privacy"]  # totals by design
            out.append(Number(str(key), row["estimate"], error, exact[key], sampling))
    missed = set(exact) - {(r["measure"], r["variable"], str(r["level"])) for _, r in fit.tidy().iterrows()}
    assert not missed, missed
    return out


# -- exact answers -----------------------------------------------------------------------------
def least_squares(X, y, w=None):
    s = np.ones(len(y)) if w is None else np.sqrt(w)
    return np.linalg.lstsq(X * s[:, None], y * s, rcond=None)[0]


def highest(loss_and_slope, start):
    """Return the minimum of a smooth convex function."""
    found = optimize.minimize(loss_and_slope, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 500})
    assert np.abs(loss_and_slope(found.x)[1]).max() < 1e-4, found.message
    return found.x


def multinomial(X, code, k):
    """Return (k - 1, p) log odds against the first class."""
    seen = np.eye(k)[code]

    def loss(b):
        eta = np.column_stack([np.zeros(len(X)), X @ b.reshape(k - 1, -1).T])
        top = eta.max(axis=1, keepdims=True)
        mean = np.exp(eta - top)
        whole = mean.sum(axis=1, keepdims=True)
        value = np.log(whole).sum() + top.sum() - (eta * seen).sum()
        return value / len(X), ((mean / whole - seen)[:, 1:].T @ X).ravel() / len(X)

    return highest(loss, np.zeros((k - 1) * X.shape[1])).reshape(k - 1, -1)


#: Distributions of the latent response: (F, density), as R's polr has them.
LATENT = {
    "logistic": (stats.logistic.cdf, stats.logistic.pdf),
    "probit": (stats.norm.cdf, stats.norm.pdf),
    "cloglog": (lambda t: -np.expm1(-np.exp(np.minimum(t, 50.0))), lambda t: np.exp(np.minimum(t, 50.0) - np.exp(np.minimum(t, 50.0)))),
}


def ordered(X, code, k, kind):
    """Return (slopes, thresholds) of P(y <= j) = F(c_j - x'b)."""
    F, f = LATENT[kind]
    p = X.shape[1]

    def loss(t):
        line, cuts = X @ t[:p], np.concatenate([[-np.inf], t[p:], [np.inf]])
        hi, lo = cuts[code + 1] - line, cuts[code] - line
        mass = np.maximum(F(hi) - F(lo), 1e-300)
        up, down = np.where(np.isfinite(hi), f(hi), 0) / mass, np.where(np.isfinite(lo), f(lo), 0) / mass
        at = np.bincount(code, up, k)[:-1] - np.bincount(code, down, k)[1:]
        return -np.log(mass).sum() / len(X), -np.append(-(up - down) @ X, at) / len(X)

    shares = np.cumsum(np.bincount(code, minlength=k))[:-1] / len(code)
    start = np.append(np.zeros(p), {"logistic": stats.logistic, "probit": stats.norm}.get(kind, stats.gumbel_l).ppf(shares))
    found = highest(loss, start)
    return found[:p], found[p:]


def cox(X, t, event, start, stratum):
    """Return Cox's coefficients (Breslow; times without ties)."""

    def loss(b):
        value, slope = 0.0, np.zeros(X.shape[1])
        for s in np.unique(stratum):
            own = stratum == s
            x, r = X[own], np.exp(X[own] @ b)
            end, begin, died = t[own], start[own], event[own] > 0
            at = np.sort(end[died])
            total, first = [], []
            for values in (r, *(r * x.T)):  # at risk: begin < u <= end
                both = []
                for where in (end, begin):
                    order = np.argsort(where)
                    sums = np.append(np.cumsum(values[order][::-1])[::-1], 0.0)
                    both.append(sums[np.searchsorted(where[order], at, side="left")])
                (total if values is r else first).append(both[0] - both[1])
            value += np.log(total[0]).sum() - (x[died] @ b).sum()
            slope += (np.array(first) / total[0]).sum(axis=1) - x[died].sum(axis=0)
        return value / len(X), slope / len(X)

    return highest(loss, np.zeros(X.shape[1]))


def kaplan_meier(t, event, times, start=None):
    """Return survival at times."""
    start = np.full(len(t), -1.0) if start is None else start
    at, died = np.unique(t[event > 0], return_counts=True)
    risk = (len(t) - np.searchsorted(np.sort(t), at, side="left")) - (
        len(t) - np.searchsorted(np.sort(start), at, side="left")
    )
    curve = np.append(1.0, np.cumprod(1 - died / risk))
    return curve[np.searchsorted(at, times, side="right")]


def log_rank(t, event, code, k, stratum):
    """Return observed less expected events of every group."""
    out = np.zeros(k)
    for s in np.unique(stratum):
        own = stratum == s
        at, died = np.unique(t[own & (event > 0)], return_counts=True)
        risk = np.array([
            (own & (code == j)).sum() - np.searchsorted(np.sort(t[own & (code == j)]), at, side="left")
            for j in range(k)
        ])  # fmt: skip
        out += [event[own & (code == j)].sum() for j in range(k)]
        out -= (died * risk / risk.sum(axis=0)).sum(axis=1)
    return out


def fixed_poisson(X, y, who):
    """Return the conditional (multinomial) estimate within people."""
    totals = np.bincount(who, y)

    def loss(b):
        line = X @ b
        rate = np.exp(line)
        whole = np.bincount(who, rate)
        mean = rate * (totals / whole)[who]
        value = (totals * np.log(whole)).sum() - (y * line).sum()
        return value / len(y), X.T @ (mean - y) / len(y)

    return highest(loss, np.zeros(X.shape[1]))


def averaged(values, who):
    """Return means by person."""
    return np.bincount(who, values) / np.bincount(who)


def quantile(y, q, w=None):
    order = np.argsort(y)
    whole = np.cumsum(np.ones(len(y)) if w is None else w[order])
    return y[order][np.searchsorted(whole, np.asarray(q) * whole[-1])]


def scored(X, y, w, score):
    """Return the root of sum w x psi(y, x'b) by Fisher scoring; score gives (psi, omega)."""
    b = np.zeros(X.shape[1])
    for _ in range(200):
        psi, omega = score(y, X @ b)
        step = np.linalg.solve((X * (w * omega)[:, None]).T @ X, X.T @ (w * psi))
        b = b + step
        if np.abs(step).max() < 1e-10:
            return b
    raise AssertionError("the exact fit does not converge")


# -- the kinds ---------------------------------------------------------------------------------
KINDS: dict[str, Callable[[Draw], list[Number]]] = {}


def kind(build):
    KINDS[build.__name__] = build
    return build


def sample(d: Draw, strata: bool = True) -> np.ndarray:
    """Add weights, and perhaps a design; return the weights."""
    w = d.rng.uniform(0.5, 2.0, d.n)
    d.columns["w"], d.variables["w"] = w, dp.Real(0, 2)
    if d.chance(0.5):
        d.options["weights"] = "w"
        return w
    v = d.rng.integers(1, 401, d.n)
    d.columns["v"], d.variables["v"] = v, dp.Count(400)
    more = {}
    if strata and d.chance(0.5):
        d.columns["s"] = np.where(d.rng.random(d.n) < 0.5, "N", "S")
        d.variables["s"] = dp.Levels(["N", "S"])
        more = {"strata": "s", "psus": {"N": 400, "S": 400}}
    d.options["design"] = dp.Survey(weights="w", psu="v", **({"psus": 400} | more))
    return w


@kind
def means(d):
    """Means: of rows, of people, weighted, by design, of a part of the rows."""
    how = d.one_of("rows", "people", "sample")
    who = d.people() if how == "people" else None
    names = list("abc"[: d.rng.integers(1, 4)])
    for name in names:
        d.number(name)
    w = sample(d) if how == "sample" else np.ones(d.n)
    kept = d.subset() if how != "people" else np.ones(d.n, dtype=bool)
    if how == "people":
        d.options |= {"unit": "pid", "units": len(np.unique(who))}
    fit = d.call(dp.dp_mean, " + ".join(names) + " ~ 1")
    exact = []
    for name in names:
        x = d.columns[name].astype(float)
        exact.append(averaged(x, who).mean() if how == "people" else np.average(x[kept], weights=w[kept]))
    return series(fit, names, exact)


@kind
def quantiles(d):
    """Quantiles by the tree, whose intervals hold the grid, sampling and noise."""
    how = d.one_of("rows", "sample")
    d.number("a")
    w = sample(d) if how == "sample" else np.ones(d.n)
    kept = d.subset()
    q = sorted(d.rng.choice([0.1, 0.25, 0.5, 0.75, 0.9], int(d.rng.integers(1, 4)), replace=False))
    fit = d.call(dp.dp_quantile, "a", q=[float(v) for v in q], method="tree")
    x = d.columns["a"].astype(float)
    half = (fit.conf_int().iloc[:, 1] - fit.conf_int().iloc[:, 0]) / 3.92
    density = (x.max() - x.min()) * np.sqrt(np.multiply(q, np.subtract(1, q)) / kept.sum())
    return [
        Number(str(name), value, error, e, s)
        for name, value, error, e, s in zip(
            fit.params.index, fit.params, half, quantile(x[kept], q, w[kept]), density, strict=True
        )
    ]


@kind
def counts(d):
    """Counts of one factor, of crossed ones, of several; of rows, people, the population."""
    how = d.one_of("rows", "people", "sample")
    who = d.people() if how == "people" else None
    kg, kh = int(d.rng.integers(2, 6)), int(d.rng.integers(2, 4))
    g, h = d.levels("g", kg), d.levels("h", kh)
    w = sample(d, strata=False) if how == "sample" else np.ones(d.n)
    if how == "people":
        d.options |= {"unit": "pid", "units": len(np.unique(who))}
        w = 1 / np.bincount(who)[who]
    kept = d.subset() if how != "people" else np.ones(d.n, dtype=bool)
    crossed = d.chance(0.5)
    fit = d.call(dp.dp_table, "~ g * h" if crossed else "~ g", **({"delta": 0} if how == "rows" and d.chance(0.5) else {}))
    told, other = d.variables["g"].levels, d.variables["h"].levels
    exact = {("n", "g", str(told[j])): w[kept & (g == j)].sum() for j in range(kg)}
    if crossed:
        exact |= {
            ("n", "g x h", f"{told[i]}, {other[j]}"): w[kept & (g == i) & (h == j)].sum()
            for i in range(kg)
            for j in range(kh)
        }
    return table(fit, exact)


@kind
def groups(d):
    """Means and deviations by group."""
    how = d.one_of("rows", "people", "sample")
    who = d.people() if how == "people" else None
    k = int(d.rng.integers(2, 5))
    if how == "people":
        g = d.levels("g", k, code=d.rng.integers(0, k, who.max() + 1)[who])
    else:
        g = d.levels("g", k)
    d.number("a", u=np.clip(0.3 * (g - 1) / k + 0.3 * d.rng.normal(size=d.n), -1, 1))
    w = sample(d, strata=False) if how == "sample" else np.ones(d.n)
    if how == "people":
        d.options |= {"unit": "pid", "units": len(np.unique(who))}
        w = 1 / np.bincount(who)[who]
    fit = d.call(dp.dp_table, "a ~ g")
    x, exact = d.columns["a"].astype(float), {}
    for j, level in enumerate(d.variables["g"].levels):
        own = g == j
        mean = np.average(x[own], weights=w[own])
        exact["mean", "a", str(level)] = mean
        if how == "rows":
            exact["sd", "a", str(level)] = x[own].std(ddof=1)
    return table(fit, exact)


@kind
def table_one(d):
    """Everything at once by a treatment, and a histogram."""
    h, g = d.levels("h", 2), d.levels("g", 3)
    d.number("a")
    if d.chance(0.5):
        fit = d.call(dp.dp_table, "~ a + g", by="h")
        x, _exact = d.columns["a"].astype(float), {}
        tidy = fit.tidy()
        out = []
        for _, row in tidy.iterrows():
            level = [j for j, t in enumerate(d.variables["h"].levels) if f"h={t}" in str(row["term"])]
            if row["measure"] not in ("mean", "sd", "n") or len(level) != 1:
                continue
            own = h == level[0]
            if row["variable"] == "a" and row["measure"] != "n":
                value = x[own].mean() if row["measure"] == "mean" else x[own].std(ddof=1)
            elif str(row["term"]).startswith("n[g="):
                at = [j for j, t in enumerate(d.variables["g"].levels) if f"g={t}," in str(row["term"])]
                if not at:
                    continue
                value = (own & (g == at[0])).sum()
            else:
                continue
            out.append(Number(row["term"], row["estimate"], row["std_error"], value, row["std_error_sampling"]))
        assert len(out) >= 4, tidy["term"].tolist()
        return out
    bins = int(d.rng.integers(5, 30))
    fit = d.call(dp.dp_table, "~ a", histogram=bins)
    rows = fit.tidy()
    rows = rows[(rows["measure"] == "n") & rows["term"].str.startswith("n[a=") & (rows["level"] != "(missing)")]
    seen = np.histogram(d.columns["a"].astype(float), bins, d.ends("a"))[0]
    assert len(rows) == bins
    error = np.hypot(rows["std_error"], 3.0)  # a cell of floats on an edge
    return [Number(*v) for v in zip(rows["term"], rows["estimate"], error, seen, strict=True)]


@kind
def hypotheses(d):
    """Estimates of tests; statistics are those without noise, or less."""
    which = d.one_of("groups", "one", "paired", "shares", "chi2", "correlation")
    code = d.levels("g", int(d.rng.integers(2, 5)))
    k = len(d.variables["g"].levels)
    d.number("a", u=np.clip(0.1 * (code - 1) / k + 0.3 * d.rng.normal(size=d.n), -1, 1))
    x = d.columns["a"].astype(float)
    means = [x[code == j].mean() for j in range(k)]
    if which == "groups":
        fit = d.call(dp.dp_test, "a ~ g", **({"test": d.one_of("t", "welch")} if k == 2 else {}))
        exact = means + ([means[1] - means[0]] if k == 2 else [])
        v = [x[code == j].var() / (code == j).sum() for j in range(k)]
        middle = np.average(means, weights=1 / np.array(v))
        statistic = sum((np.array(means) - middle) ** 2 / v)
    elif which == "one":
        mu0 = float(x.mean() + 2 * x.std() / np.sqrt(d.n))
        fit = d.call(dp.dp_test, "a ~ 1", mu0=mu0)
        exact, statistic = [x.mean()], (x.mean() - mu0) ** 2 / (x.var() / d.n)
    elif which == "paired":
        low, high = d.ends("a")
        d.columns["b"] = np.clip(x + 0.1 * (high - low) * d.rng.normal(size=d.n), low, high)
        d.variables["b"] = dp.Real(low, high)
        fit = d.call(dp.dp_test, "b ~ a", test="paired")
        gap = d.columns["b"] - x
        exact, statistic = [gap.mean()], gap.mean() ** 2 / (gap.var() / d.n)
        if abs(fit.params.iloc[0] + gap.mean()) < abs(fit.params.iloc[0] - gap.mean()):
            raise AssertionError("the sign of a paired difference")
    elif which == "shares":
        fit = d.call(dp.dp_test, "~ g")
        exact = np.bincount(code) / d.n
        statistic = stats.chisquare(np.bincount(code)).statistic
    elif which == "chi2":
        h = d.levels("h", 3, code=np.minimum((code + d.rng.integers(0, 8, d.n)) % 3, 2))
        fit = d.call(dp.dp_test, "~ g * h")
        cells = np.array([[((code == i) & (h == j)).sum() for j in range(3)] for i in range(k)])
        exact, statistic = cells.ravel(), stats.chi2_contingency(cells, correction=False).statistic
    else:
        d.number("b", u=np.clip(0.4 * d.scaled("a") + 0.3 * d.rng.normal(size=d.n), -1, 1))
        fit = d.call(dp.dp_test, "~ a * b")
        exact = [np.corrcoef(x, d.columns["b"].astype(float))[0, 1]]
        statistic = (d.n - 3) * np.arctanh(exact[0]) ** 2
    assert np.sqrt(fit.statistic) <= np.sqrt(statistic) + 0.5, (which, fit.statistic, statistic)
    rows = fit.tidy()
    return [Number(*v) for v in zip(rows["term"], rows["estimate"], rows["std_error"], np.ravel(exact), strict=True)]


def follow_up(d, line, end: float, *, grid: bool, entry: bool):
    """Add times, events and perhaps entries; return them."""
    dies = end * 0.8 * (d.rng.exponential(size=d.n) / np.exp(line)) ** (1 / d.one_of(1.0, 1.4))
    leaves = d.rng.uniform(0.2, 1.2, d.n) * end
    if grid:
        breaks = np.append(np.linspace(0, end, 17), 2 * end)
        dies, leaves = (breaks[np.minimum(np.ceil(v / end * 16), 17).astype(int)] for v in (dies, leaves))
    t = np.minimum(dies, leaves)
    event = (dies <= leaves) * 1.0
    start = np.zeros(d.n)
    if entry:
        late, first = d.one_of(0.03, 0.2), d.one_of(0.0, 0.5)  # all within a cell, or in several
        start = np.where(d.rng.random(d.n) < first, 0.0, d.rng.uniform(0, late * end, d.n))
    event = np.where(t > end, 0.0, event)
    t = np.minimum(t, end)
    keep = start < t
    for name in list(d.columns):
        d.columns[name] = d.columns[name][keep]
    d.n = int(keep.sum())
    d.columns["t"], d.columns["e"] = t[keep], event[keep].astype(d.one_of(int, float))
    d.variables |= {"t": dp.Real(0, end), "e": dp.Binary()}
    if entry:
        d.columns["s"], d.variables["s"] = start[keep], dp.Real(0, end)
    return t[keep], event[keep], start[keep], keep


@kind
def curves(d):
    """Kaplan and Meier by group; exact where times lie on the grid of breaks."""
    k, end = int(d.rng.integers(1, 4)), float(d.one_of(1.0, 16.0, 1e4, 1e-3))
    code = d.levels("g", max(k, 2))
    grid, entry = d.chance(0.4), d.chance(0.25)
    t, event, start, keep = follow_up(d, 0.3 * code, end, grid=grid, entry=entry and not grid)
    code = code[keep]
    left = "Surv(s, t, e)" if "s" in d.columns else "Surv(t, e)"
    fit = d.call(dp.dp_survfit, f"{left} ~ " + ("g" if k > 1 else "1"))
    rows, out = fit.tidy(), []
    for j, level in enumerate(d.variables["g"].levels if k > 1 else ["all"]):
        own = rows[rows["strata"] == f"g={level}"] if k > 1 else rows
        some = code == j if k > 1 else np.ones(d.n, dtype=bool)
        exact = kaplan_meier(t[some], event[some], own["time"].to_numpy() * (1 + 1e-12), start[some] if entry else None)
        for time, value, error, e in zip(own["time"], own["estimate"], own["std_error"], exact, strict=True):
            # with delayed entry off the grid only bounds can be had, and the errors hold them
            spread = 0.0 if entry and not grid else np.sqrt(e * (1 - e) / some.sum())
            out.append(Number(f"S({time:g}) of {level}", value, error, e, spread))
    return out


@kind
def log_ranks(d):
    """Observed less expected events, stratified or not; from the data or from a curve."""
    k, end = int(d.rng.integers(2, 4)), float(d.one_of(1.0, 16.0, 1e4))
    code, site = d.levels("g", k), d.levels("h", 2)
    strata = d.chance(0.4)
    t, event, _, keep = follow_up(d, 0.2 * code + 0.5 * site, end, grid=d.chance(0.4), entry=False)
    code, site = code[keep], site[keep]
    formula = "Surv(t, e) ~ g" + (" + strata(h)" if strata else "")
    if d.chance(0.3):
        fit = d.call(dp.dp_survfit, formula).survdiff()
    else:
        fit = d.call(dp.dp_survdiff, formula)
    exact = log_rank(t, event, code, k, site if strata else 0 * site)
    rows = fit.tidy()
    return [Number(*v) for v in zip(rows["term"], rows["estimate"], rows["std_error"], exact, strict=True)]


@kind
def hazards(d):
    """Cox's regression, stratified or with delayed entry."""
    lines = d.predictors()
    end = float(d.one_of(1.0, 12.0, 1e4))
    strata, entry = d.chance(0.3), d.chance(0.2)
    site = d.levels("h", 2) if strata else np.zeros(d.n, dtype=int)
    line = lines.X @ lines.slopes(d.rng) + 0.4 * site
    t, event, start, keep = follow_up(d, line, end, grid=False, entry=entry)
    left = "Surv(s, t, e)" if entry else "Surv(t, e)"
    fit = d.call(dp.dp_coxph, f"{left} ~ {lines.right}" + (" + strata(h)" if strata else ""))
    b = cox(lines.X[keep, 1:], t, event, start if entry else start - 1, site[keep])
    return series(fit, lines.names[1:], lines.back[1:, 1:] @ b)


@kind
def effects(d):
    """Effects of people by their own rows, alone and with a factor of the time."""
    who = d.people(most=d.one_of(3, 8), least=2)
    lines = d.predictors()
    a = d.rng.normal(size=who.max() + 1)[who]
    line, X = lines.X @ lines.slopes(d.rng), lines.X[:, 1:]
    d.options |= {"unit": "pid", "units": int(who.max()) + 1}
    year = d.chance(0.3)
    names, back = lines.names[1:], lines.back[1:, 1:]
    if year:
        when = d.levels("year", 3)
        X = np.column_stack([X, when == 1, when == 2])
        names += [f"year[T.{d.variables['year'].levels[j]}]" for j in (1, 2)]
        back = np.block([[back, np.zeros((len(back), 2))], [np.zeros((2, len(back))), np.eye(2)]])
    formula = f"y ~ {lines.right} | pid" + (" + year" if year else "")
    if d.chance(0.3):
        d.columns["y"] = y = np.minimum(d.rng.poisson(np.exp(0.5 + line + 0.5 * a)), 60)
        d.variables["y"] = dp.Count(60)
        fit = d.call(dp.dp_fepois, formula)
        b = fixed_poisson(X, y.astype(float), who)
    else:
        centre, size = d.one_of(0.0, 100.0), d.one_of(1.0, 1e6)
        y = size * (centre + np.clip(line + a + 0.7 * d.rng.normal(size=d.n), -7, 7))
        d.columns["y"], d.variables["y"] = y, dp.Real(size * (centre - 7), size * (centre + 7))
        fit = d.call(dp.dp_feols, formula)
        within = [v - averaged(v, who)[who] for v in (*X.T, y)]
        b = least_squares(np.column_stack(within[:-1]), within[-1])
    return series(fit, [n.replace("year[", fit_name(fit, "year") + "[") for n in names], back @ b)


def fit_name(fit, name):
    """Return how a factor of time is written: as it stands, or C(...)."""
    return f"C({name})" if any(str(n).startswith(f"C({name})") for n in fit.params.index) else name


@kind
def intercepts(d):
    """Random intercepts of people with as many rows each: within people, whatever the variances."""
    rows = int(d.rng.integers(3, 6))
    people = d.n // 4
    who = np.repeat(np.arange(people), rows)
    d.n = len(who)
    d.columns["pid"] = who
    u = d.number("a")
    y = 0.4 * u + d.one_of(0.3, 1.0) * d.rng.normal(size=people)[who] + 0.7 * d.rng.normal(size=d.n)
    d.columns["y"], d.variables["y"] = np.clip(y, -5, 5), dp.Real(-5, 5)
    d.options |= {"unit": "pid", "units": people, "re": "pid"}
    fit = d.call(dp.dp_feols, "y ~ a")
    inside, half = u - averaged(u, who)[who], np.diff(d.ends("a"))[0] / 2
    within = (inside @ y) / (inside @ inside)
    rest = y - averaged(y, who)[who] - within * inside
    error = rest @ rest / (d.n - people - 1)
    between = averaged(y, who) - averaged(u, who) * 0
    b = least_squares(np.column_stack([np.ones(people), averaged(u, who)]), between)
    left = between - b[0] - b[1] * averaged(u, who)
    sigma_u = left @ left / (people - 2) - error / rows
    return [
        Number("a", fit.params["a"], fit.bse["a"], within / half, fit.bse_sampling["a"]),
        Number("sigma_e2", fit.stats["sigma_e2"], fit.stats["sigma_e2_se"], error),
        Number("sigma_u2", fit.stats["sigma_u2"], fit.stats["sigma_u2_se"], sigma_u),
    ]


@kind
def choices(d):
    """Multinomial logit, any base."""
    lines, k = d.predictors(), int(d.rng.integers(3, 5))
    b = np.vstack([np.zeros(lines.X.shape[1]), *(lines.slopes(d.rng) for _ in range(k - 1))])
    code = (lines.X @ b.T + d.rng.gumbel(size=(d.n, k))).argmax(axis=1)
    d.levels("q", k, code=code)
    told = d.variables["q"].levels
    base = int(d.rng.integers(k)) if d.chance(0.3) else 0
    d.relation()
    fit = d.call(dp.dp_multinom, f"q ~ {lines.right}", **({"base": told[base]} if base else {}))
    order = [base, *(j for j in range(k) if j != base)]
    found = multinomial(lines.X, np.argsort(order)[code], k)
    names = [f"{told[j]}:{name}" for j in order[1:] for name in lines.names]
    return series(fit, names, np.concatenate([lines.back @ row for row in found]))


@kind
def orders(d):
    """Proportional odds and its siblings."""
    how = d.one_of("logistic", "logistic", "probit", "cloglog")
    lines, k = d.predictors(), int(d.rng.integers(3, 5))
    noise = {"logistic": d.rng.logistic, "probit": d.rng.normal}.get(how, lambda size: -d.rng.gumbel(size=size))
    latent = lines.X @ lines.slopes(d.rng) + noise(size=d.n)
    code = np.digitize(latent, np.quantile(latent, np.linspace(0, 1, k + 1)[1:-1]))
    d.levels("q", k, ordered=True, code=code)
    told = d.variables["q"].levels
    d.relation()
    fit = d.call(dp.dp_polr, f"q ~ {lines.right}", method=how)
    b, cuts = ordered(lines.X[:, 1:], code, k, how)
    cuts = cuts - lines.back[0, 1:] @ b
    names = [*lines.names[1:], *(f"{told[j]}|{told[j + 1]}" for j in range(k - 1))]
    return series(fit, names, np.append(lines.back[1:, 1:] @ b, cuts))


def responded(d, lines):
    """Add a response of any size and place; return it in units of its own, and those."""
    centre, size = d.one_of(0.0, 3.0, -40.0), d.one_of(1.0, 1.0, 1e6, 1e-4)
    unit = lines.X @ lines.slopes(d.rng) + d.one_of(0.4, 0.8) * d.rng.normal(size=d.n)
    unit = np.clip(unit, -5, 5)
    d.columns["y"], d.variables["y"] = size * (centre + unit), dp.Real(size * (centre - 5), size * (centre + 5))
    return unit, centre, size


@kind
def robust(d):
    """Huber at a given scale, expectiles; rows and people."""
    who = d.people() if d.chance(0.3) else None
    lines = d.predictors()
    unit, centre, size = responded(d, lines)
    if who is not None:
        d.options |= {"unit": "pid", "units": int(who.max()) + 1}
    else:
        d.relation()
    tau, corner = d.one_of(0.25, 0.5, 0.8), 0.5 * 1.345

    def asymmetric(y, eta):
        weight = np.where(y > eta, tau, 1 - tau)
        return weight * (y - eta), weight

    def huber(y, eta):
        return np.clip(y - eta, -corner, corner), (np.abs(y - eta) <= corner) * 1.0

    if d.chance(0.5):
        fit = d.call(dp.dp_mest, f"y ~ {lines.right}", loss="huber", k=1.345, scale=0.5 * size)
        b = scored(lines.X, unit, np.ones(d.n), huber)
    else:
        fit = d.call(dp.dp_mest, f"y ~ {lines.right}", loss="expectile", tau=tau)
        b = scored(lines.X, unit, np.ones(d.n), asymmetric)
    b[0] += centre
    return series(fit, lines.names, size * (lines.back @ b))


@kind
def designs(d):
    """Regressions by design, by cluster, by person; negative binomial counts."""
    how = d.one_of("survey", "clusters", "people")
    who = d.people() if how == "people" else None
    lines = d.predictors()
    w = np.ones(d.n)
    if how == "people":
        d.options |= {"unit": "pid", "units": int(who.max()) + 1}
    elif how == "survey":
        w = sample(d)
    else:
        d.columns["v"], d.variables["v"] = d.rng.integers(1, 401, d.n), dp.Count(400)
        d.options |= {"vcov": {"CRV1": "v"}, "psus": 400}
    family = d.one_of("gaussian", "binomial", "poisson", "negative_binomial")
    if family == "gaussian":
        y, centre, size = responded(d, lines)
        fit = d.call(dp.dp_ols, f"y ~ {lines.right}")
        b = least_squares(lines.X, y, w)
        b[0] += centre
        return series(fit, lines.names, size * (lines.back @ b))
    line = lines.X @ lines.slopes(d.rng) + 0.3
    if family == "binomial":
        y = (d.rng.random(d.n) < 1 / (1 + np.exp(-line))) * 1
        d.variables["y"] = dp.Binary()
    else:
        heavy = d.rng.gamma(2.0, 0.5, d.n) if family == "negative_binomial" else 1.0
        y = np.minimum(d.rng.poisson(np.exp(line) * heavy), 60)
        d.variables["y"] = dp.Count(60)
    d.columns["y"] = y
    alpha = 0.5 if family == "negative_binomial" else 0.0

    def score(y, eta):
        if family == "binomial":
            mean = 1 / (1 + np.exp(-eta))
            return y - mean, mean * (1 - mean)
        mean = np.exp(eta)
        return (y - mean) / (1 + alpha * mean), mean / (1 + alpha * mean)

    fit = d.call(
        dp.dp_glm, f"y ~ {lines.right}", family=family, **({"alpha": alpha} if alpha else {})
    )
    return series(fit, lines.names, lines.back @ scored(lines.X, y, w, score))


@kind
def moments(d):
    """Regressions, correlations, subsets and tests of a release of second moments."""
    lines = d.predictors()
    unit, centre, size = responded(d, lines)
    d.relation()
    method = d.one_of(None, None, "joint")
    m = d.call(dp.dp_moments, f"y + {lines.right}", method=method)
    fit = dp.dp_ols(f"y ~ {lines.right}", m)
    b = least_squares(lines.X, unit)
    b[0] += centre
    out = series(fit, lines.names, size * (lines.back @ b))
    # the joint test is that of the coefficients, on any scale
    root = np.sqrt(np.diag(fit.vcov()))[1:]
    scaled = fit.params.to_numpy()[1:] / root
    R = fit.vcov().to_numpy()[1:, 1:] / np.outer(root, root)
    determined = fit.pvalues.notna().all()  # of a response far from zero noise may hide it
    test = fit.wald_test(list(lines.names[1:])) if determined else None
    assert test is None or np.isclose(test.statistic, scaled @ np.linalg.solve(R, scaled), rtol=1e-6), (test.statistic,)
    pairs = m.corr()
    for name in "abc":
        if name in d.columns:
            own = pairs[(pairs["x"] == "y") & (pairs["y"] == name)].iloc[0]
            exact = np.corrcoef(unit, d.scaled(name))[0, 1]
            out.append(Number(f"cor(y, {name})", own["correlation"], own["std_error"], exact, d.n**-0.5))
    spread = (unit - lines.X @ least_squares(lines.X, unit)).var()
    stated = fit.stats
    error = max(stated["r_squared_high"] - stated["r_squared_low"], 1e-12) / 3.92
    out.append(Number("R2", stated["r_squared"], error, 1 - spread / unit.var()))
    out.append(Number("sigma", stated["sigma"], stated["sigma_se"], size * np.sqrt(spread)))
    return out


@kind
def subsets(d):
    """The best subset by released moments holds what matters, on any scale."""
    names = list("abc")
    for name in names:
        d.number(name)
    unit = 0.8 * d.scaled("a") - 0.8 * d.scaled("b") + 0.5 * d.rng.normal(size=d.n)
    low, size = d.one_of(0.0, -40.0), d.one_of(1.0, 1e6)
    d.columns["y"], d.variables["y"] = size * (low + np.clip(unit, -5, 5)), dp.Real(size * (low - 5), size * (low + 5))
    m = d.call(dp.dp_moments, "y + a + b + c")
    best = m.best_subset("y")["terms"].iloc[0]
    assert {"a", "b"} <= set(best.split(" + ")), best
    short, long = dp.dp_ols("y ~ a", m), dp.dp_ols("y ~ a + b", m)
    assert dp.anova(short, long).to_frame()["p_value"].iloc[0] < 1e-6
    X = np.column_stack([np.ones(d.n), d.scaled("a"), d.scaled("b")])
    b, half = least_squares(X, unit), np.diff([d.ends("a"), d.ends("b")])[:, 0] / 2
    return series(long, ["Intercept", "a", "b"], size * np.array([
        low + b[0] - sum(b[1:] * np.mean([d.ends("a"), d.ends("b")], axis=1) / half), *(b[1:] / half)
    ]))  # fmt: skip


@kind
def instruments(d):
    """Two-stage least squares, from data or released moments."""
    z, w = d.number("z"), d.number("w")
    u = d.rng.normal(size=d.n)
    x = np.clip(0.6 * z + 0.2 * w + 0.2 * u + 0.15 * d.rng.normal(size=d.n), -1.9, 1.9) / 1.9
    d.number("x", u=x)
    x = d.scaled("x")
    y = np.clip(0.7 * x - 0.3 * w + 0.4 * u, -3, 3)
    size = d.one_of(1.0, 1e6)
    d.columns["y"], d.variables["y"] = size * y, dp.Real(-3 * size, 3 * size)
    if d.chance(0.5):
        fit = dp.dp_iv("y ~ x + w | z + w", d.call(dp.dp_moments, "y + x + z + w", method=d.one_of(None, "joint")))
    else:
        fit = d.call(dp.dp_iv, "y ~ x + w | z + w")
    one = np.ones(d.n)
    X, Z = np.column_stack([one, x, w]), np.column_stack([one, z, w])
    b = np.linalg.solve(Z.T @ X, Z.T @ y)
    half = np.array([np.diff(d.ends(c))[0] / 2 for c in "xw"])
    middle = np.array([np.mean(d.ends(c)) for c in "xw"])
    exact = size * np.array([b[0] - b[1:] @ (middle / half), *(b[1:] / half)])
    return series(fit, ["Intercept", "x", "w"], exact)


@kind
def after_a_fit(d):
    """Adjusted means, slopes, tests of terms and a score on rows held out."""
    lines = d.predictors(factor=1.0)
    unit, centre, size = responded(d, lines)
    fit = d.call(dp.dp_ols, f"y ~ {lines.right}")
    b = least_squares(lines.X, unit)
    out = series(fit, lines.names, size * (lines.back @ (b + np.append(centre, 0 * b[1:]))))
    k = len(d.variables["g"].levels)
    found = fit.emmeans("g").tidy()
    shift = np.append(0.0, b[-(k - 1) :])  # numbers are held at the middle, 0 here
    for j in range(k):
        out.append(Number(f"emmean {j}", *found[["estimate", "std_error"]].iloc[j], size * (centre + b[0] + shift[j])))
    slopes = fit.avg_slopes().tidy()
    exact = size * (lines.back @ b)[1:]
    assert len(slopes) == len(exact)
    out += [Number(f"slope {j}", *slopes[["estimate", "std_error"]].iloc[j], e) for j, e in enumerate(exact)]
    root = np.sqrt(np.diag(fit.vcov()))[-(k - 1) :]
    scaled, R = fit.params.to_numpy()[-(k - 1) :] / root, fit.vcov().to_numpy()[-(k - 1) :, -(k - 1) :]
    statistic = scaled @ np.linalg.solve(R / np.outer(root, root), scaled)
    test = fit.wald_test("g")
    exact_p = stats.ncx2.sf(statistic, test.df, test.noncentrality)
    assert np.isclose(test.pvalue, exact_p, rtol=1e-5, atol=1e-280)
    assert test.statistic <= statistic * (1 + 1e-9)
    frame = pd.DataFrame(d.columns)
    score = fit.score(frame, eps=2.0, delta=1e-6)
    seen = fit.predict(frame)
    exact = np.sqrt(np.mean((np.asarray(seen) - d.columns["y"]) ** 2))
    out.append(Number("rmse", score.value, score.se, exact, score.se_sampling))
    return out


@kind
def classes(d):
    """Shares and means of classes (errors of the noise alone)."""
    code = d.levels("g", int(d.rng.integers(2, 4)))
    _k, names = len(d.variables["g"].levels), ["a", "b"]
    for name in names:
        d.number(name, u=np.clip(0.3 * (code - 1) + 0.3 * d.rng.normal(size=d.n), -1, 1))
    fit = d.call(dp.dp_bayes, "g ~ a + b")
    printed, exact, sampling = [], [], []
    for j, level in enumerate(d.variables["g"].levels):
        own = code == j
        printed += [f"{level}: prior", *(f"{level}: {name}" for name in names)]
        x = np.array([d.columns[name].astype(float)[own] for name in names])
        exact += [own.mean(), *x.mean(axis=1)]
        sampling += [np.sqrt(own.mean() * (1 - own.mean()) / d.n), *(x.std(axis=1) / np.sqrt(own.sum()))]
    assert list(fit.params.index) == printed
    error = np.hypot(fit.bse_privacy.to_numpy(), sampling)
    return [Number(*v) for v in zip(printed, fit.params, error, exact, sampling, strict=True)]


@kind
def kernels(d):
    """Nadaraya and Watson's curve at public points (errors of the noise alone)."""
    u = d.number("a")
    y = np.clip(np.sin(2 * u) + 0.3 * d.rng.normal(size=d.n), -2, 2)
    d.columns["y"], d.variables["y"] = y, dp.Real(-2, 2)
    low, high = d.ends("a")
    at = np.linspace(-0.8, 0.8, 5)
    h = float(d.rng.uniform(0.1, 0.3))
    fit = d.call(dp.dp_npreg, "y ~ a", h=h, at={"a": (low + high) / 2 + at * (high - low) / 2})
    K = np.exp(-0.5 * ((at[:, None] - u) / h) ** 2)
    exact = K @ y / K.sum(axis=1)
    effective = np.sqrt(0.09 / (K.sum(axis=1)))
    return [Number(*v) for v in zip(fit.params.index, fit.params, fit.bse_privacy, exact, effective, strict=True)]


@kind
def components(d):
    """The subspace of the first component of standardised columns."""
    common = d.rng.normal(size=d.n)
    for name, load in zip("abc", (0.5, 0.4, 0.3), strict=True):
        d.number(name, u=np.clip((load * common + 0.2 * d.rng.normal(size=d.n)) / 2, -1, 1))
    fit = d.call(dp.dp_pca, "a + b + c ~ 1", eps=4.0)
    R = np.corrcoef([d.columns[name].astype(float) for name in "abc"])
    values, vectors = np.linalg.eigh(R)
    exact, found = vectors[:, -1], fit.params.to_numpy()
    exact = exact * np.sign(exact @ found)
    # fluctuation of the vector, and the noise of its projector
    noise = fit.stats["noise_sd"]
    sampling = np.sqrt(sum(values[-1] * v / (values[-1] - v) ** 2 for v in values[:-1]) / d.n)
    sampling *= 2.0  # rows are shortened to a ball: a third of a sampling error of its own (64925)
    return [Number(*v, np.hypot(noise, sampling), e, sampling) for *v, e in zip(fit.params.index, found, exact, strict=True)]


@kind
def safe_methods(d):
    """Propose-Test-Release and posterior sampling: no draw, the mode, within the noise."""
    lines = d.predictors(factor=0.0)
    if d.chance(0.5):
        d.n = len(lines.X)
        unit, centre, size = responded(d, lines)
        fit = d.call(dp.dp_ols, f"y ~ {lines.right}", method="eptr", scoring=False, eps=4.0)
        b = least_squares(lines.X, unit)
        b[0] += centre
        return series(fit, lines.names, size * (lines.back @ b))
    low, high = d.ends("a")
    half = (high - low) / 2

    def mean(Z):
        return [(Z.mean() - (low + high) / 2) / half]

    fit = d.call(
        lambda f, data, **o: dp.dp_eptr(mean, lambda Z: 1e6, 2 / d.n, f, data, **o), "a ~ 1"
    )
    sampling = d.scaled("a").std() / np.sqrt(d.n)
    return [Number("mean", fit.params.iloc[0], sampling, d.scaled("a").mean(), sampling)]


@kind
def votes(d):
    """Who won, where it is clear; what teachers agree on."""
    told = list("uvw")[: d.rng.integers(2, 4)]
    p = np.r_[0.7, np.full(len(told) - 1, 0.3 / (len(told) - 1))]
    cast = d.rng.choice(told, d.n, p=d.rng.permutation(p))
    won = pd.Series(cast).value_counts().idxmax()
    assert dp.dp_vote(list(cast), told, eps=1, delta=1e-6).label == won
    right = d.rng.integers(0, 4, 30)
    teachers = np.where(d.rng.random((400, 30)) < 0.9, right, d.rng.integers(0, 4, (400, 30)))
    found = dp.dp_pate(teachers, classes=4, eps=6, delta=1e-6)
    assert found.labels is not None and (found.labels == right).all()
    return []


@kind
def noised_tables(d):
    """A released table: its means without noise; corrected fits of a seeded one.

    The correction of a fit takes noise off that must be there, so it is drawn: 5 errors of the
    noise, 6e-7 a number.
    """
    lines = d.predictors(factor=0.3)
    unit, centre, size = responded(d, lines)
    variables = " + ".join(["y", lines.right])
    if d.chance(0.5):
        rel = d.call(
            lambda f, data, **o: dp.dp_release(f, data, accept_no_estimate=True, **o),
            f"~ {variables}",
        )
        rows, out = rel.tidy().set_index("term"), []
        for name in ["y", *(n for n in "abc" if n in d.columns)]:
            x = d.columns[name].astype(float)
            own = rows.loc[name]
            out.append(Number(name, own["estimate"], own["std_error"], x.mean(), own["std_error"]))
        return out
    seed = int(d.rng.integers(2**31))
    with noise_source(None):
        rel = d.call(
            lambda f, data, **o: dp.dp_release(f, data, accept_no_estimate=True, **o), f"~ {variables}", eps=60.0, seed=seed
        )
        fit = dp.dp_ols(f"y ~ {lines.right}", rel)
    b = least_squares(lines.X, unit)
    b[0] += centre
    return [n._replace(error=n.error * 5 / INTERVAL, sampling=np.nan) for n in series(fit, lines.names, size * (lines.back @ b))]


@kind
def bought(d):
    """Ranges that are not declared: their rows are cut a little, which intervals allow for."""
    lines = d.predictors(factor=0.3)
    unit, centre, size = responded(d, lines)
    undeclared = [name for name in ["y", *"abc"] if name in d.columns and d.chance(0.6)]
    for name in undeclared:
        d.variables[name] = dp.Real()
    if d.chance(0.3):
        names = ["y", *(name for name in "abc" if name in d.columns)]
        fit = d.call(dp.dp_mean, " + ".join(names) + " ~ 1")
        return series(fit, names, [d.columns[name].astype(float).mean() for name in names])
    fit = d.call(dp.dp_ols, f"y ~ {lines.right}")
    b = least_squares(lines.X, unit)
    b[0] += centre
    return series(fit, lines.names, size * (lines.back @ b))


@kind
def drawn_quantiles(d):
    """Quantiles by the exponential mechanism, in the middle of its draws."""
    d.number("a")
    kept = d.subset()
    q = float(d.one_of(0.1, 0.25, 0.5, 0.75, 0.9))
    fit = d.call(dp.dp_quantile, "a", q=q, method="em", delta=0)
    x, (low, high) = d.columns["a"].astype(float), fit.conf_int().to_numpy()[0]
    exact = quantile(x[kept], [q])[0]
    spread = (x.max() - x.min()) * np.sqrt(q * (1 - q) / kept.sum())
    # of whole numbers a draw lies between two of them, and its interval ends at both
    # (truth and middle are then half of it apart, which rounding must not take for more, and
    # which is no part of a sampling error)
    whole = d.columns["a"].dtype.kind == "i"
    error = (high - low) / (2.98 if whole else 3.92)
    return [Number("a", fit.params.iloc[0], error, exact, np.nan if whole else spread)]


@kind
def features(d):
    """What the rows of each person come to, before a model of people: means and least squares."""
    who = d.people()
    how = {name: d.one_of("sum", "min", "max", "first") for name in "ab"}
    # a sum of numbers far from zero is the number of rows over again
    a, b = d.number("a"), d.number("b", wild=how["b"] != "sum")
    k = int(d.rng.integers(2, 5))
    code = d.levels("g", k)
    rows = pd.DataFrame({"a": a, "b": b, "g": code}).groupby(who)
    made = {name: rows[name].agg(how[name]).to_numpy() for name in "ab"}
    count, first = rows.size().to_numpy(), rows["g"].first().to_numpy()
    halves = {}
    for name in "ab":  # a sum of up to five rows, each in the range of the column
        low, high = d.ends(name)
        halves[name] = (high - low) / 2
        if how[name] == "sum":
            d.variables[name] = dp.Real(min(5 * low, low), max(5 * high, high))
            middle = (low + high) / 2
            made[name] = made[name] + count * middle / halves[name]
        else:
            made[name] = made[name] + (low + high) / 2 / halves[name]
    d.variables["visits"] = dp.Count(5)
    told = {"visits": "count", "g": ("first", "g")} | {name: (how[name], name) for name in "ab"}
    d.options |= {"unit": "pid"}
    d.options |= {"units": len(count)} if d.chance(0.5) else {}

    def through(data):
        return dp.per_person(data, "pid", **told)

    if d.chance(0.4):
        fit = d.call(dp.dp_mean, "a + visits ~ 1", through)
        return series(fit, ["a", "visits"], [made["a"].mean() * halves["a"], count.mean()])
    fit = d.call(dp.dp_ols, "a ~ b + visits + g", through)
    dummies = [(first == j) * 1.0 for j in range(1, k)]
    X = np.column_stack([np.ones(len(count)), made["b"] - made["b"].mean(), count, *dummies])
    slopes = least_squares(X, made["a"] - made["a"].mean())
    slopes[0] += made["a"].mean() - slopes[1] * made["b"].mean()
    slopes *= halves["a"]
    slopes[1] /= halves["b"]
    names = ["Intercept", "b", "visits", *(f"g[T.{v}]" for v in d.variables["g"].levels[1:])]
    return series(fit, names, slopes)


# -- the oracle --------------------------------------------------------------------------------
def case_of(number: int) -> tuple[str, Draw]:
    """Return the kind of a case and its draw."""
    rng = np.random.default_rng([4040, number])
    name = list(KINDS)[number % len(KINDS)]
    return name, Draw(rng, int(rng.integers(4000, 9001)))


def numbers_of(number: int) -> tuple[str, list[Number]]:
    """Return the kind of a case and its numbers."""
    name, draw = case_of(number)
    with noise_source(ZeroNoise()), warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        found = KINDS[name](draw)
    return name, found


def beyond(number: int) -> tuple[str, list[str], list[Number]]:
    """Return the kind, what lies beyond 1.96 errors, and all numbers of a case."""
    name, found = numbers_of(number)
    wrong = [
        f"{number} {name}: {n.name} {n.printed:.6g} +- {n.error:.2g} for {n.exact:.6g}"
        for n in found
        if np.isfinite(n.error) and not abs(n.printed - n.exact) <= INTERVAL * n.error
    ]
    return name, wrong, found


def check(numbers) -> None:
    wrong, of_kind = [], {}
    for number in numbers:
        name, far, found = beyond(number)
        wrong += far
        of_kind.setdefault(name, []).extend(found)
    assert not wrong, "\n".join(wrong)
    marked = [not np.isfinite(n.error) for found in of_kind.values() for n in found]
    assert np.mean(marked) <= MARKED
    for name, found in of_kind.items():
        told = [n for n in found if np.isfinite(n.printed)]  # a curve may end in the noise: marked
        away = [abs(n.printed - n.exact) / n.sampling for n in told if n.sampling > 0]
        assert not away or np.median(away) < MEDIAN, (name, np.median(away))


def test_random_calls_of_every_verb_are_the_exact_ones():
    check([*range(8 * len(KINDS)), 51468])  # and values on the edges of a histogram


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_calls_of_every_verb_are_the_exact_ones(part):
    check(range(1000 + 100 * part, 1000 + 100 * (part + 1)))
