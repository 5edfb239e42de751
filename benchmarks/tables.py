"""Private tables: quantile mechanisms side by side, group means, and two peers where installed.

Quantiles at (eps, 1e-6), replace-one, ranges as a user would declare them: the exponential
mechanism and the tree of ``dp_quantile``, and the smooth sensitivity of Nissim, Raskhodnikova and
Smith (2007), Laplace noise, written out here. Peers (opendp, diffprivlib) get the same guarantee
under replace-one: their add/remove statements at half of eps. opendp from 0.14.2 on: its noise was biased.

    DPMODELS_DATA=... python benchmarks/tables.py [runs]
"""

import math
import sys
import time
import warnings

import numpy as np
import pandas as pd
from common import RESULTS, data_folder, one_core, write

import dpmodels as dp
from dpmodels.core.grids import levels_for, penalties, tree_counts
from dpmodels.models.table.quantiles import (
    MOST_POINTS,
    Tree,
    counts_on,
    fraction,
    grid_of,
    isotonic,
)
from dpmodels.privacy.mechanisms import mu_gdp

DATA = data_folder()
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 300
DELTA = 1e-6
QS = (0.01, 0.5, 0.99)
warnings.simplefilter("ignore")


def columns():
    """Return name -> (values, declared range)."""
    wages = pd.read_csv(DATA / "cps_earnings_sw8.csv.gz")["earnings"].to_numpy(float)
    income = pd.read_csv(DATA / "california_housing.csv.gz")["MedInc"].to_numpy(float)
    hours = pd.read_csv(DATA / "adult.csv.gz")["hours_per_week"].to_numpy(float)
    rents = pd.read_csv(DATA / "bike_sharing_hour.csv.gz")["cnt"].to_numpy(float)
    return {
        "hourly wage": (wages, (0.0, 100.0)),
        "median income": (income, (0.0, 20.0)),
        "hours a week (heaps)": (hours, (0.0, 100.0)),
        "rentals an hour": (rents, (0.0, 2000.0)),
    }


def counts_of(values, grid):
    """Return the counts (1, points) of numbers on a grid."""
    into, reading = counts_on(None, {0: grid}, 0)
    return into.counts_of_number(reading.over([values[None]]), 0)


def exponential(values, span, q, eps, rng):
    """Return RUNS draws of the exponential mechanism of dp_quantile (floats: for speed)."""
    grid = grid_of(span, MOST_POINTS)
    exact = fraction(q)
    d = penalties(counts_of(values, grid), exact)[0] / exact.denominator
    p = np.exp(-eps * (d - d.min()) / 2)
    return grid[rng.choice(len(grid), RUNS, p=p / p.sum())]


def tree(values, span, q, eps, rng, leaves, runs):
    """Return quantiles of noisy trees."""
    grid = grid_of(span, leaves)
    counts = tree_counts(counts_of(values, grid)[0], 0)
    levels = levels_for(len(grid))
    sd = math.sqrt(2 * levels) / mu_gdp(eps, DELTA)
    fitted = Tree(levels, sd * sd)
    out = np.empty(runs)
    for r in range(runs):
        x, missing = fitted.fit(counts + sd * rng.normal(size=len(counts)), float(len(values)))
        cdf = isotonic(np.cumsum(x))[: len(grid)]
        at = np.searchsorted(cdf, q * (len(values) - missing))
        out[r] = grid[min(int(at), len(grid) - 1)]
    return out


def smooth(values, span, q, eps, rng):
    """Return RUNS quantiles with Laplace noise of smooth sensitivity."""
    lo, hi = span
    x = np.sort(np.clip(values, lo, hi))
    n = len(x)
    i = min(int(q * n), n - 1)
    beta = eps / (2 * math.log(2 / DELTA))
    most = int(math.log(1e6) / beta) + 2
    pad = np.concatenate([np.full(most + 2, lo), x, np.full(most + 2, hi)])
    at = i + most + 2
    best = 0.0
    for k in range(most):
        if math.exp(-beta * k) * (hi - lo) < best:
            break
        gaps = pad[at : at + k + 2] - pad[at - k - 1 : at + 1]
        best = max(best, math.exp(-beta * k) * float(gaps.max()))
    return np.clip(x[i] + rng.laplace(0, 2 * best / eps, RUNS), lo, hi)


def quantiles():
    """Return the report of quantile mechanisms: relative error, 95th percentile."""
    lines = [
        "## Quantiles",
        "",
        f"95th percentile of |error| over the median of the column; {RUNS} draws; (eps, 1e-6), "
        "replace-one; one quantile a call. `dp_quantile(inference=False)` is the first column; "
        "with intervals (`inference=True`) it is the second.",
        "",
        "| column | n | eps | q | exponential | tree, 4096 | tree, 65536 | smooth sensitivity "
        "| first / best of the others |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rng = np.random.default_rng(0)
    for name, (values, span) in columns().items():
        scale = np.median(values)
        for eps in (0.1, 1.0):
            for q in QS:
                true = np.quantile(values, q, method="inverted_cdf")
                found = [
                    exponential(values, span, q, eps, rng),
                    tree(values, span, q, eps, rng, 4096, RUNS),
                    tree(values, span, q, eps, rng, 1 << 16, max(40, RUNS // 5)),
                    smooth(values, span, q, eps, rng),
                ]
                errors = [float(np.quantile(np.abs(v - true), 0.95) / scale) for v in found]
                other = min(errors[1:])
                ratio = "both 0" if max(errors[0], other) < 1e-9 else (
                    "inf" if other == 0 else f"{errors[0] / other:.2f}")  # fmt: skip
                cells = " | ".join(f"{e:.4f}" for e in errors)
                lines.append(f"| {name} | {len(values)} | {eps:g} | {q:g} | {cells} | {ratio} |")
    return lines


def group_means():
    """Return the report of means over 51 groups."""
    data = pd.read_csv(DATA / "cps_earnings_sw8.csv.gz")[["earnings"]]
    rng = np.random.default_rng(1)
    states = [f"s{i:02d}" for i in range(51)]
    shares = rng.dirichlet(np.full(51, 6.0))
    data["state"] = rng.choice(states, len(data), p=shares)
    lines = ["", "## Means of 51 groups, n = 61 395, eps = 1, delta = 1e-6", ""]
    sizes = data["state"].value_counts().reindex(states).to_numpy()
    near = (sizes > 800) & (sizes < 1200)
    for top in (75, 100):  # the largest wage is 72
        schema = dp.Schema(earnings=dp.Real(0, top), state=dp.Levels(states))
        dp.dp_table("earnings ~ state", data.head(100), eps=1, delta=DELTA, schema=schema)
        start = time.perf_counter()
        fit = dp.dp_table("earnings ~ state", data, eps=1, delta=DELTA, schema=schema)
        took = time.perf_counter() - start
        tidy = fit.tidy()
        means = tidy[(tidy["measure"] == "mean") & tidy["term"].str.contains("state=")]
        ratio = (means["std_error"] / means["std_error_sampling"]).to_numpy()
        lines.append(
            f"* Range [0, {top}]: one call with exact noise {took:.2f} s. Total over sampling "
            f"standard error, groups of 800 to 1200 rows: **{ratio[near].mean():.2f}** (all groups,"
            f" {sizes.min()} to {sizes.max()} rows: {ratio.min():.2f} to {ratio.max():.2f})."
        )
    return lines


def peers():
    """Return the report beside two peers, or what is missing."""
    rng = np.random.default_rng(2)
    data = pd.read_csv(DATA / "cps_earnings_sw8.csv.gz")
    data["earnings"] += 1e-4  # off the edges of bins: packages differ in which side is closed
    x = data["earnings"].to_numpy(float)
    levels = sorted(data["region"].unique())
    truth = data["region"].value_counts().reindex(levels).to_numpy()
    bins = np.histogram(x, bins=10, range=(0, 100))[0]
    schema = dp.Schema(earnings=dp.Real(0, 100), region=dp.Levels(levels))
    runs = min(RUNS, 100)

    def ours():
        kw = {"eps": 1.0, "delta": 0.0, "schema": schema, "seed": int(rng.integers(1 << 31))}
        counts = dp.dp_table("~ region", data, **kw).params.to_numpy()[:4]
        mean = dp.dp_table("~ earnings", data, **kw).params["mean(earnings)"]
        median = dp.dp_quantile("earnings", data, inference=False, **kw).params.iloc[0]
        hist = dp.dp_table(
            "~ cut(earnings, breaks=[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100])",
            data, **kw)  # fmt: skip
        return counts, mean, median, hist.params.to_numpy()[:10]

    rows = {"dpmodels": ours}
    try:
        import diffprivlib.tools as tools

        def ibm():
            # histograms are stated for add/remove: half of eps; means and quantiles for replace
            codes = np.searchsorted(levels, data["region"])
            counts = tools.histogram(codes, epsilon=0.5, bins=4, range=(-0.5, 3.5))[0]
            return (
                counts, tools.mean(x, epsilon=1.0, bounds=(0, 100)),
                tools.quantile(x, 0.5, epsilon=1.0, bounds=(0, 100)),
                tools.histogram(x, epsilon=0.5, bins=10, range=(0, 100))[0],
            )  # fmt: skip

        rows["diffprivlib"] = ibm
    except ImportError:
        rows["diffprivlib"] = None
    try:
        rows["opendp"] = _opendp(x, data["region"].tolist(), levels)
    except ImportError:
        rows["opendp"] = None
    lines = [
        "",
        "## Beside two peers, eps = 1, delta = 0, replace-one",
        "",
        f"Root mean square errors over {runs} calls, CPS wages (n = 61 395, range [0, 100]).",
        "",
        "| package | count by region | mean | median | count in 10 bins |",
        "|---|---|---|---|---|",
    ]
    true = (truth, x.clip(0, 100).mean(), np.median(x), bins)
    for name, call in rows.items():
        if call is None:
            lines.append(f"| {name} | not installed | | | |")
            continue
        errors = [[] for _ in true]
        for _ in range(runs):
            for e, value, t in zip(errors, call(), true, strict=True):
                e.append(np.mean((np.asarray(value, dtype=float) - t) ** 2))
        cells = [math.sqrt(np.mean(e)) for e in errors]
        lines.append(f"| {name} | " + " | ".join(f"{c:.4g}" for c in cells) + " |")
    return lines


def _opendp(x, regions, levels):
    """Return a call of opendp's transformations and Laplace measurements, d_in = 2 (one row)."""
    from importlib.metadata import version

    import opendp.prelude as odp

    if [int(k) for k in version("opendp").split(".")[:3]] < [0, 14, 2]:
        raise ImportError("the noise of opendp before 0.14.2 is biased")
    odp.enable_features("contrib")
    text = (odp.vector_domain(odp.atom_domain(T=str)), odp.symmetric_distance())
    real = (odp.vector_domain(odp.atom_domain(T=float)), odp.symmetric_distance())

    def calibrated(make):
        return odp.binary_search_chain(make, d_in=2, d_out=1.0)

    by_level = calibrated(
        lambda s: text >> odp.t.then_count_by_categories(categories=levels) >> odp.m.then_laplace(s)
    )
    sized = (
        odp.vector_domain(odp.atom_domain(bounds=(0.0, 100.0)), size=len(x)),
        odp.symmetric_distance(),
    )
    mean = calibrated(lambda s: sized >> odp.t.then_mean() >> odp.m.then_laplace(s))
    edges = [10.0 * k for k in range(1, 10)]
    bins = calibrated(
        lambda s: real >> odp.t.then_find_bin(edges)
        >> odp.t.then_count_by_categories(categories=list(range(10)))
        >> odp.m.then_laplace(s)
    )  # fmt: skip
    candidates = np.linspace(0, 100, 10_001).tolist()
    there = (odp.vector_domain(odp.atom_domain(T=float, nan=False)), odp.symmetric_distance())
    median = calibrated(
        lambda s: there >> odp.t.then_quantile_score_candidates(candidates, alpha=0.5)
        >> odp.m.then_noisy_max(odp.max_divergence(), s, negate=True)
    )  # fmt: skip
    inside = x.clip(0, 100).tolist()
    plain = x.tolist()

    def call():
        return (
            by_level(regions)[:4], mean(inside), candidates[median(plain)], bins(plain)[:10],
        )  # fmt: skip

    return call


def main():
    start = time.process_time()
    lines = ["# Private tables and quantiles", "", *quantiles(), *group_means(), *peers()]
    write(RESULTS / "tables.md", [*lines, *one_core(start)])


if __name__ == "__main__":
    main()
