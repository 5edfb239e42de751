"""The models of ``real_models.py``, ranges declared as a user would and four times too wide.

Samples of a real table of n rows, eps = 1, delta = 1e-6; the target is the non-private fit of the
whole table, widths and errors are over its robust errors at n rows. A coefficient is marked if it
is not tested or named by a note of long responses.

    python benchmarks/wide_ranges.py [--part tuned,aside] [--cells 3000,10000] [--reps 12]
        [--out benchmarks/results/wide_ranges.md]

The folder of data sets is named by DPMODELS_DATA.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from common import NAMED, marked, one_core, write
from models_people_fit import GROUPS
from real_models import population, private, twin_of, with_scales

import dpmodels as dp

TIMES = (1.0, 4.0)


def wider(schema, frame, by, formula):
    """Return the schema with every range ``by`` times as wide, about its lower third."""
    changed = {}
    for name in frame:
        v = schema[name]
        if v.kind not in ("real", "count"):
            continue
        low, high = v.interval
        start = low - (by - 1.0) * (high - low) / 3.0
        if low >= 0.0:
            start = low / by if low > 0.0 and "log" in formula else max(start, 0.0)
        changed[name] = dp.Real(start, max(high, start + by * (high - low)))
    return schema.update(**changed)


def figures(table, formula, verb, options, n, by, reps):
    """Return the figures of one model."""
    frame, schema, X, y = table
    options = with_scales(options, X, y)
    truth, hc = twin_of(X, y, verb, options)
    se = hc * np.sqrt(len(frame) / n)
    schema = schema if by == 1.0 else wider(schema, frame, by, formula)
    hit, half, error, open_, sign = [], [], [], [], []
    for r in range(reps):
        rows = np.random.default_rng([17, r]).integers(0, len(frame), n)
        fit = private(verb, formula, frame.iloc[rows], schema, options, 1.0, r)
        ends, p = fit.conf_int().to_numpy(), fit.pvalues.to_numpy()
        hit.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        half.append((ends[:, 1] - ends[:, 0]) / 3.92 / se)
        error.append((fit.params.to_numpy() - truth) / se)
        open_.append(~np.isfinite(p) | marked(fit, NAMED))
        sign.append(np.where(p < 0.05, np.sign(fit.params.to_numpy() * truth), 0.0))
    hit, open_, sign = np.array(hit), np.array(open_), np.array(sign)
    tested = (~open_).mean(axis=0) >= 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_name = np.nanmean(np.where(open_, np.nan, hit), axis=0)
    return {
        "width": np.median(half, axis=0), "rmse": np.sqrt(np.mean(np.square(error), axis=0)),
        "hits": int(hit[~open_].sum()), "tested": int((~open_).sum()), "open": open_.mean(),
        "low": int((by_name[tested] < 0.8).sum()), "coefficients": int(tested.sum()),
        "wrong": int((sign < 0).sum()), "sure": int((sign != 0).sum()),
    }  # fmt: skip


def line(part, group, times, n, found):
    """Return the row of a group of models."""

    def mean(name):
        logs = [np.log(f[name][np.isfinite(f[name]) & (f[name] > 0)]).mean() for f in found]
        return float(np.exp(np.mean(logs)))

    names = ("hits", "tested", "low", "coefficients", "wrong", "sure")
    total = {k: sum(f[k] for f in found) for k in names}
    cover = total["hits"] / max(total["tested"], 1)
    return (
        f"| {part} | {group} | {times:g} | {n} | {len(found)} | {cover:.3f} | "
        f"{total['low']} of {total['coefficients']} | {np.mean([f['open'] for f in found]):.2f} | "
        f"{mean('width'):.2f} | {mean('rmse'):.2f} | {total['wrong']} of {total['sure']} |"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", default="tuned,aside")
    parser.add_argument("--cells", default="3000,10000")
    parser.add_argument("--reps", type=int, default=12)
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    begun = time.process_time()
    lines = [
        "| part | group | ranges | n | models | coverage, unmarked | below .80 | marked | width | "
        "RMSE | wrong signs |",
        "|" + "---|" * 11,
    ]
    for part in args.part.split(","):
        for group, parts in GROUPS.items():
            models = []
            for file, formula, (verb, options) in parts[part].values():
                try:
                    models.append((population(file, formula), formula, verb, options))
                except Exception as problem:
                    print("left out:", formula, problem)
            for n in map(int, args.cells.split(",")):
                for times in TIMES:
                    found = [figures(*model, n, times, args.reps) for model in models]
                    lines.append(line(part, group, times, n, found))
                    print(lines[-1], flush=True)
    if args.out:
        write(args.out, ["# Ranges four times too wide", "", *__doc__.splitlines(), *lines, *one_core(begun)])


if __name__ == "__main__":
    main()
