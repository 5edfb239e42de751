"""Intervals on the models people fit: many columns, factors, rare events, counts, skew.

A real table is the population, samples of n rows are drawn with replacement, the target is the
non-private fit of the whole table. Ranges are the table's, rounded outwards as a user would write
them; delta = 1e-6; everything in an interval comes from released numbers. The non-private fit of
each sample with robust errors stands beside.

    python benchmarks/real_models.py [--groups wide,rare] [--part tuned] [--cells 10000:1]
        [--reps 20] [--designs a,b] [--out benchmarks/results/real_models.md]

The folder of data sets is named by DPMODELS_DATA.
"""

from __future__ import annotations

import argparse
import json
import operator
import sys
import time
import warnings

import numpy as np
import pandas as pd
import real_families
from common import (
    NAMED,
    OPEN,
    RANGES,
    data_folder,
    design_matrix,
    marked,
    one_core,
    schema_of,
    write,
)
from models_people_fit import GROUPS, MADE
from real_responses import robust

import dpmodels as dp

DELTA = 1e-6


def population(file, formula):
    """Return (frame, schema, design matrix, response) of a table."""
    frame = pd.read_csv(data_folder() / f"{file}.csv.gz")
    if file == "adult":
        frame["event"] = (frame["income"].str.strip() == ">50K").astype(int)
    if file == "fertility2":
        frame["morekids"] = (frame["morekids"] == "yes").astype(int)
        frame["work_band"] = np.where(frame["work"] > 0, 1 + frame["work"] // 20, 0).astype(str)
    if file == "credit_default":  # undocumented codes of a few rows are no levels
        known = (frame["EDUCATION"].between(1, 4)) & (frame["MARRIAGE"] > 0) & (frame["PAY_0"] < 4)
        frame = frame[known]
    if file == "males" and formula.startswith("union"):
        frame["union"] = (frame["union"] == "yes").astype(int)
    for name, (table, column, sign, limit) in MADE.items():
        if table == file:
            frame[name] = getattr(operator, {">": "gt", "<": "lt"}[sign])(frame[column], limit)
            frame[name] = frame[name].astype(int)
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in formula).split())
    frame = frame[[c for c in frame if c in words]].dropna().reset_index(drop=True)
    schema = schema_of(frame, formula)
    if "log(" in formula:
        schema = schema.update(**{c: dp.Real(*RANGES[c]) for c in frame if c in RANGES})
    y = formula.split("~")[0].strip()
    if y in MADE or y in ("event", "default", "morekids", "union", "outwork"):
        schema = schema.update(**{y: dp.Binary()})
    return frame, schema, *design_matrix(frame, formula, schema)


def twin_of(X, y, verb, options, start=None):
    """Return the non-private fit and its robust errors; aliased columns are dropped by rank."""
    if verb == "ols":
        return robust(X, y)
    return real_families.fit(X, y, verb, options, start=start)


def private(verb, formula, rows, schema, options, eps, seed):
    """Return the private fit of a sample."""
    call = dict(eps=eps, delta=DELTA, schema=schema, seed=seed)
    if verb == "ols":
        return dp.dp_ols(formula, rows, **call)
    return real_families.private(verb, formula, rows, schema, options, eps, seed)


def with_scales(options, X, y):
    """Return the options of a model with what the non-private twin is given too: alpha, scale."""
    if options.get("family") == "negative_binomial":
        return {**options, "alpha": 1.0}
    if options.get("loss") == "huber":
        spread = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
        return {**options, "scale": round(float(np.median(np.abs(spread)) * 1.48), 2)}
    return options


def cell(table, formula, verb, options, n, eps, reps):
    """Return figures of one design at one n and eps."""
    frame, schema, X, y = table
    options = with_scales(options, X, y)
    truth, _ = twin_of(X, y, verb, options)
    n = n or len(frame)
    found = {k: [] for k in ("hit", "half", "error", "twin", "se", "named", "open", "sure", "z")}
    twins = reps if verb != "quantreg" else min(reps, 20)
    for r in range(reps):
        rows = np.random.default_rng([17, r]).integers(0, len(frame), n)
        fit = private(verb, formula, frame.iloc[rows], schema, options, eps, r)
        ends = fit.conf_int().to_numpy()
        found["hit"].append((ends[:, 0] <= truth) & (ends[:, 1] >= truth))
        found["half"].append((ends[:, 1] - ends[:, 0]) / 2 / 1.96)
        found["error"].append(fit.params.to_numpy() - truth)
        found["named"].append(marked(fit, NAMED))
        found["open"].append(marked(fit, OPEN))
        found["sure"].append(np.where((ends[:, 0] > 0) | (ends[:, 1] < 0), np.sign(ends.sum(1)), 0))
        if r < twins:
            try:
                b, hc = twin_of(X[rows], y[rows], verb, options, truth)
            except Exception:  # a level without rows: the sample stays, its twin has not covered
                b = hc = np.full(len(truth), np.nan)
            found["twin"].append(np.abs(b - truth) <= 1.96 * hc)
            found["se"].append(hc)
            found["z"].append(b / hc)
    f = {k: np.array(v, dtype=float) for k, v in found.items()}
    hc = np.nanmedian(f["se"], axis=0)
    hit, named = f["hit"], f["named"] > 0
    width = np.median(f["half"], axis=0) / hc
    rmse = np.sqrt(np.mean(f["error"] ** 2, axis=0)) / hc
    strong = np.abs(f["z"]) > 1.96
    kept = (f["sure"][:twins] == np.sign(f["z"])) & strong
    by = hit.mean(axis=0)
    few = named.mean(axis=0) >= 0.5
    return {
        "p": X.shape[1], "cover": by.mean(), "least": by.min(),
        "unnamed": hit[~named].mean() if (~named).any() else np.nan,
        "least unnamed": by[~few].min() if (~few).any() else np.nan,
        "named": named.mean(), "open": f["open"].mean(),
        "width": float(np.median(width)), "rmse": float(np.median(rmse)),
        "worst": float(rmse.max()), "ratio": float(np.median(width / rmse)),
        "bias": float(np.abs(f["error"].mean(axis=0) / hc).max()),
        "kept": float(kept.sum() / max(strong.sum(), 1)), "strong": int(strong.sum()),
        "wrong": int((f["sure"] * np.sign(truth) < 0).sum()), "sure": int((f["sure"] != 0).sum()),
        "twin": f["twin"].mean(), "lost twins": int(np.isnan(f["se"]).all(axis=1).sum()),
        "below": float((f["half"] / hc < 0.9).mean()),
        "by": np.round(by, 2).tolist(), "width by": np.round(width, 2).tolist(),
        "rmse by": np.round(rmse, 2).tolist(),
    }  # fmt: skip


HEAD = (
    "| group | design | p | n | eps | coverage / least | unnamed / least | named | open | width | "
    "RMSE / worst | width/RMSE | kept | twin |"
)


def line(group, name, n, eps, c):
    """Return the row of a design."""
    return (
        f"| {group} | {name} | {c['p']} | {n} | {eps} | {c['cover']:.3f} / {c['least']:.2f} | "
        f"{c['unnamed']:.3f} / {c['least unnamed']:.2f} | {c['named']:.2f} | {c['open']:.2f} | "
        f"{c['width']:.2f} | {c['rmse']:.2f} / {c['worst']:.1f} | {c['ratio']:.2f} | "
        f"{c['kept']:.2f} | {c['twin']:.2f} |"
    )


OVER = (
    "| group | n | eps | designs | coverage / least design / below .90 | unnamed / least | named | "
    "width | width/RMSE | RMSE / worst | kept | wrong signs | twin |"
)


def kept_of(kept, lost):
    """Say how many designs and twins a table holds, and name those without figures."""
    names = ", ".join(f"{name} at {n}, {eps} ({why})" for name, n, eps, why in lost) or "none"
    alone = ", ".join(
        f"{c['name']} at {c['n']}, {c['eps']} ({c['lost twins']})" for c in kept if c["lost twins"]
    )
    return (
        f"Kept {len(kept)} of {len(kept) + len(lost)} designs; not fitted: {names}. Samples whose "
        f"non-private twin failed, kept (it counts as not covering): {alone or 'none'}."
    )


def over(group, n, eps, rows, lost):
    """Return the row over designs: means of coverages, medians of widths and errors."""

    def median(key):
        return float(np.nanmedian([c[key] for c in rows]))

    covers = [c["cover"] for c in rows]
    strong = sum(c["strong"] for c in rows)
    kept = sum(c["kept"] * c["strong"] for c in rows) / max(strong, 1)
    wrong, sure = sum(c["wrong"] for c in rows), sum(c["sure"] for c in rows)
    return (
        f"| {group} | {n} | {eps} | {len(rows)} of {len(rows) + lost} | "
        f"{np.mean(covers):.3f} / {min(covers):.2f} / {sum(x < 0.9 for x in covers)} | "
        f"{np.nanmean([c['unnamed'] for c in rows]):.3f} / "
        f"{np.nanmin([c['least unnamed'] for c in rows]):.2f} | "
        f"{np.mean([c['named'] for c in rows]):.2f} | {median('width'):.2f} | "
        f"{median('ratio'):.2f} | {median('rmse'):.2f} / {median('worst'):.1f} | {kept:.2f} | "
        f"{wrong} of {sure} | {np.mean([c['twin'] for c in rows]):.3f} |"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--cells", default="10000:1", help="n:eps, ...; n = 0: the table's size")
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--part", default="tuned", help="tuned or aside")
    parser.add_argument("--designs", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--json", default="", help="keep all figures too")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.process_time()
    lines, found, kept, lost = [], {}, [], []
    wanted = {w.strip() for w in args.designs.split(",") if w.strip()}
    cells = [tuple(c.split(":")) for c in args.cells.split(",")]
    for group in args.groups.split(","):
        for name, (file, formula, (verb, options)) in GROUPS[group][args.part].items():
            if wanted and name not in wanted:
                continue
            table = population(file, formula)
            for n, eps in cells:
                rows = found.setdefault((group, n, eps), ([], []))
                try:
                    c = cell(table, formula, verb, options, int(n), float(eps), args.reps)
                except (ValueError, np.linalg.LinAlgError) as problem:
                    print(name, n, eps, type(problem).__name__, str(problem)[:300], flush=True)
                    lost.append((name, n, eps, type(problem).__name__))
                    rows[1].append(name)
                    continue
                rows[0].append(c)
                kept.append({"group": group, "name": name, "n": n, "eps": eps, **c})
                lines.append(line(group, name, int(n) or len(table[0]), eps, c))
                print(lines[-1], flush=True)
    total = [over(*key, rows, len(gone)) for key, (rows, gone) in found.items() if rows]
    said = kept_of(kept, lost)
    print(OVER, *total, said, sep="\n", flush=True)
    if args.json:
        write(args.json, [json.dumps(one) for one in kept])
    if args.out:
        rule = "|" + "---|" * 14
        write(
            args.out,
            ["# 95 % intervals on the models people fit", "",
             f"`python {' '.join(['benchmarks/real_models.py', *sys.argv[1:]])}`, seeded. Coverage "
             "of the population's own coefficient over all coefficients and samples (mean, least "
             "coefficient), over those that the summary does not name as resting on rows of high "
             "leverage; share named, share not determined; width and root mean squared error over "
             "the non-private robust error (median over coefficients / worst); share of the "
             "coefficients that are significant without privacy whose interval excludes zero on "
             "the same side; coverage of the non-private twin.", "",
             "## Over designs", "", OVER, "|" + "---|" * 13, *total, "", said, "",
             "## Designs", "", HEAD, rule, *lines, *one_core(start)],
        )  # fmt: skip


if __name__ == "__main__":
    main()
