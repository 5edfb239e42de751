"""Coverage of errors by cluster and of weighted estimates: samples of populations of shared tables.

Coverage is of the fits that give errors. A table is the population, its own fit the target. California housing is cut by location (k-d cuts)
into PSUs of equal size and strata; PSUs are drawn with replacement, unequally by stratum (weights
1 to 3). Adult has ``fnlwgt``, and log-normal weights that go with the outcome.

    python benchmarks/designs.py [--reps 60] [--part clusters|weights|tables|psus|people] > report
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd
from common import data_folder

import dpmodels as dp

BOX = {"MedHouseVal": (0, 5.1), "MedInc": (0, 16), "HouseAge": (0, 55)}


def halves(points, index, depth):
    """Cut rows into 2^depth parts of equal size, across the longer side each time."""
    if not depth:
        return [index]
    spread = np.ptp(points[index], axis=0)
    order = index[np.argsort(points[index][:, int(np.argmax(spread))], kind="stable")]
    middle = len(order) // 2
    return [
        *halves(points, order[:middle], depth - 1), *halves(points, order[middle:], depth - 1)
    ]


def california(size, strata, seed=0):
    """California with PSUs of about ``size`` rows in ``strata`` strata."""
    d = pd.read_csv(data_folder() / "california_housing.csv.gz")
    rng = np.random.default_rng(seed)
    d = d.iloc[rng.permutation(len(d))[:20480]].reset_index(drop=True)
    points = d[["Latitude", "Longitude"]].to_numpy() + 1e-9 * rng.normal(size=(len(d), 2))
    depth = round(np.log2(len(d) / size))
    parts = halves(points, np.arange(len(d)), depth)
    per = len(parts) // strata
    psu, stratum = np.empty(len(d), dtype=int), np.empty(len(d), dtype=int)
    for j, rows in enumerate(parts):
        psu[rows], stratum[rows] = j, j // per
    return d.assign(psu=psu, stratum=[f"s{h:02d}" for h in stratum], h=stratum)


def sample(d, drawn, rng):
    """Draw PSUs with replacement, one to three times as many in some strata; weights to match."""
    strata = int(d.h.max()) + 1
    rate = 1.0 + 2.0 * (np.arange(strata) % 2)
    each = np.maximum(np.round(drawn * rate / rate.sum()).astype(int), 2)
    rows, label, number, weight = [], [], [], []
    where = {p: np.asarray(r) for p, r in d.groupby("psu").indices.items()}
    at = 0
    for h in range(strata):
        mine = d.psu[d.h == h].unique()
        for j, p in enumerate(rng.choice(mine, each[h])):
            r = where[p]
            rows.append(r)
            label.append(np.full(len(r), at))
            number.append(np.full(len(r), j + 1))
            weight.append(np.full(len(r), len(mine) / each[h]))
            at += 1
    out = d.iloc[np.concatenate(rows)].reset_index(drop=True)
    weight = np.concatenate(weight)
    return out.assign(
        village=np.concatenate(label), number=np.concatenate(number),
        w=weight / weight.mean(),
    ), each  # fmt: skip


def by_design(X, y, w, psu, stratum):
    """Non-private weighted least squares with design-based errors (with replacement)."""
    H = np.linalg.inv((X * w[:, None]).T @ X)
    theta = H @ ((X * w[:, None]).T @ y)
    S = X * (w * (y - X @ theta))[:, None]
    meat = np.zeros((X.shape[1],) * 2)
    for h in np.unique(stratum):
        here = stratum == h
        units, where = np.unique(psu[here], return_inverse=True)
        T = np.zeros((len(units), X.shape[1]))
        np.add.at(T, where, S[here])
        T -= T.mean(axis=0)
        meat += len(units) / max(len(units) - 1, 1) * T.T @ T
    return theta, np.sqrt(np.diag(H @ meat @ H))


def clusters(reps, cells):
    """Print one line a cell: coverage and width of rows, clusters and designs."""
    print("| PSUs, n | strata | model | eps | errors | coverage: mean / least | width | "
          "without noise |")
    print("|---|---|---|---|---|---|---|---|")
    for size, drawn, strata in cells:
        d = california(size, strata)
        for formula, names in (("MedHouseVal ~ 1", []), ("MedHouseVal ~ MedInc + HouseAge",
                                                        ["MedInc", "HouseAge"])):
            Z = np.column_stack([np.ones(len(d)), *(d[c] for c in names)])
            target = np.linalg.lstsq(Z, d.MedHouseVal.to_numpy(), rcond=None)[0]
            for eps in (1.0, 4.0):
                found = {}
                for s in range(reps):
                    t, each = sample(d, drawn, np.random.default_rng(100 + s))
                    X = np.column_stack([np.ones(len(t)), *(t[c] for c in names)])
                    theta, se = by_design(
                        X, t.MedHouseVal.to_numpy(), t.w.to_numpy(), t.village.to_numpy(),
                        t.h.to_numpy(),
                    )
                    found.setdefault("np", []).append((np.abs(theta - target) < 1.96 * se, se))
                    strata_of = [f"s{h:02d}" for h in range(strata)]
                    counts = {x: int(k) for x, k in zip(strata_of, each, strict=True)}
                    common = {
                        "eps": eps, "delta": 1e-6, "bounds": BOX, "seed": s,
                        "schema": dp.Schema(
                            w=dp.Real(0, 4), stratum=dp.Levels(strata_of),
                            number=dp.Count(int(each.max())),
                        ),
                    }  # fmt: skip
                    calls = {
                        "rows": {"weights": "w"},
                        "clusters": {"design": dp.Survey(
                            weights="w", psu="village", psus=int(each.sum()))},
                        "pairs": {"design": dp.Survey(
                            weights="w", strata="stratum", psu="number", psus=counts)},
                    }  # fmt: skip
                    for name, call in calls.items():
                        fit = dp.dp_ols(formula, t, **common, **call)
                        ci = fit.conf_int().to_numpy()
                        inside = (ci[:, 0] <= target) & (target <= ci[:, 1])
                        found.setdefault(name, []).append((inside, (ci[:, 1] - ci[:, 0]) / 3.92))
                base = np.array([w for _, w in found["np"]])
                cover = np.mean([c for c, _ in found["np"]])
                for name in ("rows", "clusters", "pairs"):
                    got = np.array([c for c, _ in found[name]], dtype=float)
                    width = np.array([w for _, w in found[name]])
                    none = np.isnan(width).any(axis=1)
                    lost, got = none.mean(), got[~none] if not none.all() else got
                    print(
                        f"| {drawn}, {len(t)} | {strata} | {formula} | {eps:g} | {name} | "
                        f"{got.mean():.3f} / {got.mean(axis=0).min():.2f} | "
                        f"{np.nanmedian(width / base):.2f}"
                        + (f" ({lost:.0%} undetermined)" if lost else "")
                        + f" | {cover:.3f} |", flush=True,
                    )  # fmt: skip


def weights(reps, n=26_000):
    """Print coverage of a weighted mean: dp_ols and dp_mean, four log-normal populations, fnlwgt."""
    d = pd.read_csv(data_folder() / "adult.csv.gz")
    y = d.hours_per_week.to_numpy(float)
    unit = (y - y.mean()) / y.std()
    families = {"log-normal": [], "fnlwgt": [d.fnlwgt.to_numpy(float)]}
    for seed in (5, 6, 7, 8):
        z = np.random.default_rng(seed).normal(size=len(d))
        families["log-normal"].append(np.exp(1.3 * z + 0.3 * unit))
    print("| weights | verb | eps | coverage | width | without noise |")
    print("|---|---|---|---|---|---|")
    for name, several in families.items():
        for verb in ("dp_ols", "dp_mean"):
            for eps in (1.0, 4.0, 16.0):
                inside, width, plain = [], [], []
                for w in several:
                    w = w / w.mean()
                    target = float((w * y).sum() / w.sum())
                    schema = dp.Schema(w=dp.Real(0, float(np.ceil(1.25 * w.max()))))
                    for s in range(reps // len(several)):
                        i = np.random.default_rng(s).integers(0, len(d), n)
                        t = pd.DataFrame({"y": y[i], "w": w[i]})
                        m = float((t.w * t.y).sum() / t.w.sum())
                        se = float(np.sqrt((t.w**2 * (t.y - m) ** 2).sum()) / t.w.sum())
                        fit = getattr(dp, verb)(
                            "y ~ 1", t, eps=eps, delta=1e-6, weights="w", schema=schema,
                            bounds={"y": (0, 100)}, seed=s,
                        )  # fmt: skip
                        low, high = fit.conf_int().to_numpy()[0]
                        inside.append(low <= target <= high)
                        width.append((high - low) / 3.92 / se)
                        plain.append(abs(m - target) < 1.96 * se)
                print(f"| {name} | {verb} | {eps:g} | {np.mean(inside):.3f} | "
                      f"{np.median(width):.2f} | {np.mean(plain):.3f} |", flush=True)


def tables(reps, n=26_000):
    """Print coverage of weighted shares (7 cells) and of weighted means by group."""
    d = pd.read_csv(data_folder() / "adult.csv.gz")
    groups = d.marital_status.fillna("?").astype(str)
    levels = sorted(groups.unique())
    y = d.hours_per_week.to_numpy(float)
    z = np.random.default_rng(5).normal(size=len(d))
    rich = (d.income.astype(str).str.contains(">50K")).to_numpy(float)
    families = {
        "fnlwgt": d.fnlwgt.to_numpy(float), "log-normal": np.exp(1.3 * z + 0.5 * rich),
    }  # fmt: skip
    print("| weights | eps | statistic | coverage: mean / least | width | without noise |")
    print("|---|---|---|---|---|---|")
    for name, w in families.items():
        w = w / w.mean()
        masks = np.array([(groups == g).to_numpy() for g in levels])
        share = (masks * w).sum(axis=1) / w.sum()
        mean = (masks * w * y).sum(axis=1) / (masks * w).sum(axis=1)
        schema = dp.Schema(w=dp.Real(0, float(np.ceil(1.25 * w.max()))), g=dp.Levels(levels))
        for eps in (1.0, 4.0):
            out = {"share": [], "mean": []}
            for s in range(reps):
                i = np.random.default_rng(s).integers(0, len(d), n)
                t = pd.DataFrame({"y": y[i], "w": w[i], "g": groups.to_numpy()[i]})
                u, M = w[i], masks[:, i]
                p = (M * u).sum(axis=1) / u.sum()
                se = np.sqrt([(u**2 * (k - q) ** 2).sum() for k, q in zip(M, p, strict=True)]) / u.sum()
                call = {"eps": eps, "delta": 1e-6, "weights": "w", "schema": schema, "seed": s}
                f = dp.dp_table("~ g", t, **call).tidy().iloc[: len(levels)]
                out["share"].append((
                    (f.share_conf_low <= share) & (share <= f.share_conf_high),
                    (f.share_conf_high - f.share_conf_low) / 3.92 / se, np.abs(p - share) < 1.96 * se,
                ))  # fmt: skip
                m = (M * u * t.y.to_numpy()).sum(axis=1) / (M * u).sum(axis=1)
                se = np.array([
                    np.sqrt((u[k] ** 2 * (t.y.to_numpy()[k] - q) ** 2).sum()) / u[k].sum()
                    for k, q in zip(M, m, strict=True)
                ])  # fmt: skip
                f = dp.dp_table("y ~ g", t, bounds={"y": (0, 100)}, **call).tidy()
                f = f[f.measure == "mean"].iloc[: len(levels)]
                out["mean"].append((
                    (f.conf_low.to_numpy() <= mean) & (mean <= f.conf_high.to_numpy()),
                    (f.conf_high.to_numpy() - f.conf_low.to_numpy()) / 3.92 / se,
                    np.abs(m - mean) < 1.96 * se,
                ))  # fmt: skip
            for what, got in out.items():
                inside = np.array([a for a, _, _ in got], dtype=float)
                width = np.array([b for _, b, _ in got], dtype=float)
                plain = np.array([c for _, _, c in got], dtype=float)
                print(f"| {name} | {eps:g} | {what} | {inside.mean():.3f} / "
                      f"{inside.mean(axis=0).min():.2f} | {np.median(width):.2f} | "
                      f"{plain.mean():.3f} |", flush=True)


def psus(reps):
    """Print coverage of shares, means by group and quantiles by PSU."""
    print("| PSUs, n | eps | statistic | coverage: mean / least | width | without noise | deff, "
          "without noise | of rows |")
    print("|---|---|---|---|---|---|---|---|")
    for size, drawn, strata in ((10, 1020, 8), (80, 130, 8)):
        d = california(size, strata)
        cuts = np.quantile(d.MedInc, [0.2, 0.5, 0.8])
        d["g"] = np.array(list("abcd"))[np.searchsorted(cuts, d.MedInc)]
        y = d.MedHouseVal.to_numpy()
        q = np.array([0.25, 0.5, 0.75])
        targets = {
            "shares": np.array([(d.g == g).mean() for g in "abcd"]),
            "means": np.array([y[d.g == g].mean() for g in "abcd"]),
            "quantiles": np.quantile(y, q, method="inverted_cdf"),
        }
        strata_of = [f"s{h:02d}" for h in range(strata)]
        for eps in (1.0, 4.0):
            out = {}
            for s in range(reps):
                t, each = sample(d, drawn, np.random.default_rng(100 + s))
                counts = {x: int(k) for x, k in zip(strata_of, each, strict=True)}
                survey = dp.Survey(weights="w", strata="stratum", psu="number", psus=counts)
                call = {
                    "eps": eps, "delta": 1e-6, "seed": s, "bounds": {"MedHouseVal": (0, 5.1)},
                    "schema": dp.Schema(
                        w=dp.Real(0, 4), stratum=dp.Levels(strata_of), g=dp.Levels(list("abcd")),
                        number=dp.Count(int(each.max())),
                    ),
                }  # fmt: skip
                w, g = t.w.to_numpy(), t.g.to_numpy()
                v = t.MedHouseVal.to_numpy()
                M = np.array([g == k for k in "abcd"], dtype=float)
                plain = {}
                p = M @ w / w.sum()
                plain["shares"] = (p, [w * (k - x) / w.sum() for k, x in zip(M, p, strict=True)])
                m = M @ (w * v) / (M @ w)
                plain["means"] = (m, [w * k * (v - x) / (k @ w) for k, x in zip(M, m, strict=True)])
                order = np.argsort(v)
                up = np.cumsum(w[order]) / w.sum()
                x = v[order][np.searchsorted(up, q)]
                plain["quantiles"] = (x, [w * ((v <= b) - a) / w.sum() for a, b in zip(q, x, strict=True)])
                fits = {
                    "shares": dp.dp_table("~ g", t, design=survey, **call),
                    "means": dp.dp_table("MedHouseVal ~ g", t, design=survey, **call),
                    "quantiles": dp.dp_quantile("MedHouseVal", t, q=list(q), design=survey, **call),
                }
                naive = {
                    "shares": dp.dp_table("~ g", t, weights="w", **call),
                    "means": dp.dp_table("MedHouseVal ~ g", t, weights="w", **call),
                    "quantiles": dp.dp_quantile("MedHouseVal", t, q=list(q), weights="w", **call),
                }
                for what, (point, Z) in plain.items():
                    se, rows = np.array([by_psu(z, t) for z in Z]).T
                    target = targets[what]
                    if what == "quantiles":
                        ends = [np.clip(np.searchsorted(up, q + k * se), 0, len(v) - 1)
                                for k in (-1.96, 1.96)]
                        low0, high0 = (v[order][e] for e in ends)
                    else:
                        low0, high0 = point - 1.96 * se, point + 1.96 * se
                    inside, width = [], []
                    for fit in (fits[what], naive[what]):
                        low, high = bounds_of(fit, what)
                        inside.append((low <= target) & (target <= high))
                        width.append(np.where(np.isnan(low), np.nan, high - low))
                    stats = fits[what]._record.estimate.stats
                    out.setdefault(what, []).append((
                        inside[0], width[0] / (high0 - low0), (low0 <= target) & (target <= high0),
                        np.full(len(se), stats.get("deff_clusters", np.nan)),
                        np.full(len(se), ((se / rows) ** 2).mean()), inside[1],
                        np.isnan(width[0]),
                    ))  # fmt: skip
            for what, got in out.items():
                a, width, plain, deff, true, rows, lost = (
                    np.array([o[i] for o in got], dtype=float) for i in range(7)
                )
                none = lost.any(axis=1)
                kept = a[~none] if not none.all() else a * np.nan
                print(f"| {drawn}, {len(t)} | {eps:g} | {what} | {kept.mean():.3f} / "
                      f"{kept.mean(axis=0).min():.2f} | {np.nanmedian(width):.2f}"
                      + (f" ({none.mean():.0%} undetermined)" if none.any() else "")
                      + f" | {plain.mean():.3f} | {np.nanmedian(deff):.2f}, {np.median(true):.2f} | "
                      f"{rows.mean():.3f} |", flush=True)


def panel(seed, elsewhere):
    """People of three rows in 200 villages; a part of the rows in other villages."""
    rng = np.random.default_rng(seed)
    people, rows = 4000, 3
    person = np.repeat(np.arange(people), rows)
    village = person // 20
    if elsewhere:
        moved = rng.random(len(person)) < elsewhere
        village = np.where(moved, rng.integers(0, 200, len(person)), village)
    of_x, of_y, own = rng.normal(size=200), rng.normal(size=200), rng.normal(size=people)
    x = 0.6 * of_x[village] + 0.5 * rng.normal(size=people)[person]
    x = np.clip(x + 0.5 * rng.normal(size=len(person)), -4, 4)
    y = 1 + x + 0.6 * of_y[village] + 0.7 * own[person] + 0.7 * rng.normal(size=len(person))
    return pd.DataFrame({"x": x, "y": np.clip(y, -9, 9), "village": village, "id": person})


def people(reps):
    """Print coverage of errors by village where people are the units."""
    print("| rows elsewhere | coverage: intercept, slope | width | with unit= alone |")
    print("|---|---|---|---|")
    call = {"eps": 1, "delta": 1e-6, "bounds": {"x": (-4, 4), "y": (-9, 9)}, "unit": "id"}
    for elsewhere in (0.0, 0.3):
        ours, width, alone = [], [], []
        for s in range(reps):
            d = panel(s, elsewhere)
            X = np.column_stack([np.ones(len(d)), d.x])
            H = np.linalg.inv(X.T @ X)
            S = np.zeros((200, 2))
            np.add.at(S, d.village.to_numpy(), X * (d.y.to_numpy() - X @ (H @ X.T @ d.y))[:, None])
            se = np.sqrt(np.diag(H @ S.T @ S @ H))
            by_village = {"vcov": {"CRV1": "village"}, "psus": 200}
            for options, to in ((by_village, ours), ({}, alone)):
                ci = dp.dp_ols("y ~ x", d, seed=s, **call, **options).conf_int().to_numpy()
                to.append((ci[:, 0] <= 1) & (ci[:, 1] >= 1))
                if options:
                    width.append((ci[:, 1] - ci[:, 0]) / 3.92 / se)
        c, w, a = np.mean(ours, axis=0), np.nanmedian(width, axis=0), np.mean(alone, axis=0)
        print(f"| {elsewhere:.0%} | {c[0]:.3f}, {c[1]:.3f} | {w[0]:.2f}, {w[1]:.2f} | "
              f"{a[0]:.3f}, {a[1]:.3f} |", flush=True)


def by_psu(z, t):
    """Return (error by stratum and PSU, error of rows) of linearised values."""
    total = 0.0
    units, where = np.unique(t.village, return_inverse=True)
    S = np.bincount(where, weights=z)
    h = np.zeros(len(units), dtype=int)
    h[where] = t.h
    for k in np.unique(h):
        one = S[h == k]
        total += len(one) / max(len(one) - 1, 1) * ((one - one.mean()) ** 2).sum()
    return np.sqrt(total), np.sqrt((z * z).sum())


def bounds_of(fit, what):
    """Return the ends of the intervals of four cells, or of quantiles."""
    if what == "quantiles":
        return fit.conf_int().to_numpy().T
    frame = fit.tidy()
    if what == "shares":
        return frame.share_conf_low.to_numpy()[:4], frame.share_conf_high.to_numpy()[:4]
    frame = frame[frame.measure == "mean"].iloc[:4]
    return frame.conf_low.to_numpy(), frame.conf_high.to_numpy()


def main():
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=60)
    parser.add_argument("--part", choices=("clusters", "weights", "tables", "psus", "people"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"Samples a cell: {args.reps}. 95 % intervals, delta = 1e-6, declared ranges. width: over "
          "that of the non-private design-based interval.\n")
    if args.part in (None, "clusters"):
        clusters(args.reps, ((10, 1020, 8), (80, 130, 8), (80, 60, 8), (10, 1020, 64)))
        print()
    if args.part in (None, "weights"):
        weights(args.reps)
        print()
    if args.part in (None, "tables"):
        tables(args.reps)
        print()
    if args.part in (None, "psus"):
        psus(args.reps)
        print()
    if args.part in (None, "people"):
        people(args.reps)


if __name__ == "__main__":
    main()
