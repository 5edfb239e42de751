"""How much does a fit depend on each number of the engine? Each is halved and doubled.

A battery of seeded fits (real tables, made tables, people) is run with the engine as it is, and
with one number of ``dpmodels/scoring/rules.py`` or of the allowance for bias changed, with the
same samples and seeds. Per change: geometric means over designs of the ratio (changed over as it
is) of interval widths and of errors about the fit without noise, the design that moves most, and
coverage. ``VALUES`` has the values of numbers that cannot be halved or doubled.

    python benchmarks/constants.py [--names A,B] [--every 4] [--reps 2] [--out FILE]

The folder of data sets is named by DPMODELS_DATA.
"""

from __future__ import annotations

import argparse
import functools
import re
import time
import warnings
from pathlib import Path

import common
import numpy as np
import pandas as pd
import real_panels
from ablation import EVERY, figures, samples, without
from common import RESULTS, one_core, write

import dpmodels as dp

TABLE = Path(dp.__file__).parent / "scoring" / "constants.md"
#: Evidence of numbers that are tried here: until they have been, and afterwards.
TRIED = ("judgement", "tried")
#: Families whose early passes release a scale, and all.
EARLY = ("LINEAR", "OPENED", "MEANS")
LAST = (*EARLY, "BOUNDED")


def shares(families, **changed):
    """Return the patch that changes shares of some families."""
    told = ", ".join(f"{name}={value}" for name, value in changed.items())
    return "; ".join(f"{one} = replace({one}, {told})" for one in families)


#: name -> values or patches in place of half and double.
VALUES = {
    "COLUMNS_OF_MEANS": (6, 20),
    "PassShares.score": (),  # with the information
    "PassShares.last_score": (),
    "PassShares.information": (shares(EARLY, information=0.2, score=0.76),
                               shares(EARLY, information=0.45, score=0.51)),
    "PassShares.ordinary": (shares(LAST, ordinary=0.025), shares(LAST, ordinary=0.1)),
    "PassShares.last_information": (shares(LAST, last_information=0.09, last_score=0.77),
                                    shares(LAST, last_information=0.36, last_score=0.5)),
    "PassShares.meat": (shares(LAST, meat=0.035, last_score=0.715), shares(LAST, meat=0.14, last_score=0.61)),
    "PassShares.histogram": (shares(LAST, histogram=0.035, last_score=0.715),
                             shares(LAST, histogram=0.14, last_score=0.61)),
    "SCALE_SHARE": (shares(EARLY, scale=0.02, score=0.68) + "; SCALE_SHARE = 0.02",
                    shares(EARLY, scale=0.08, score=0.62) + "; SCALE_SHARE = 0.08"),
    "CLIP_POWER": (0.35, 0.55),
    "INFORMATION_POWER": (0.6, 0.8),
    "MAX_TAIL_PART": (0.5, 0.85),
    "ALPHA": ((1e-4, 200.0), (1e-2, 5.0)),
    "SCALE_UPDATE_RANGE": ((0.025, 10.0), (0.1, 2.5)),
    "FALLING_TAILS": (((-1.6, 0.7, 24), (0.0, 0.6, 7)), ((-2.4, 1.0, 69), (0.0, 0.9, 20))),
    "BULK_TAILS": (((-1.6, 3.0, 24), (0.0, 2.0, 11)), ((-2.4, 4.0, 69), (0.0, 3.0, 31))),
    "MEAN_EXCESS": ((0.125, 4.0), (0.5, 1.0)),
    "SCORE_QUANTILE": (0.99, 0.9975),
    "OUTER_QUANTILES": ("OUTER_QUANTILES = (0.05, 0.95); OUTER_SDS = 3.29",
                        "OUTER_QUANTILES = (0.2, 0.8); OUTER_SDS = 1.683"),
    "CLEAR_PART": (0.5, 0.9),
    "EARLY": ("EARLY = UnitShares(0.08, 0.2, 0.2, 0.52)", "EARLY = UnitShares(0.04, 0.3, 0.1, 0.56)"),
    "LAST": ("LAST = UnitShares(0.03, 0.1, 0.05, 0.79, 0.03)", "LAST = UnitShares(0.06, 0.2, 0.1, 0.58, 0.06)"),
    "UNRESOLVED_PART": (0.25, 0.9),
    "LOGITS": ({"probit": 0.85, "cloglog": 0.65}, {"probit": 3.4, "cloglog": 2.6}),
    "BOX_POINTS": ((1 << 11, 32, 1 << 14), (1 << 13, 128, 1 << 16)),
    "PILOT_EVERY": ((16, 2), (64, 8)),
    "PILOT_PLACES": ((4, 8), (16, 32)),
    "CELLS": (32, 128),
    **dict.fromkeys(("OCTAVES", "OCTAVE_ZERO", "DISTANCE_OCTAVES", "BINS", "AT_CLIP", "WEIGHT_BINS"), ()),
}  # fmt: skip
#: Tolerances and ends that are far from what they guard: a tenth and ten times.
TENFOLD = {
    "ALIASED_PART", "UNIDENTIFIED_PART", "MIN_NARROWED_EIGENVALUE", "DEPENDENT_PART", "START_FLOOR",
    "EQUAL_EIGENVALUES", "SPANNED", "MIN_AMOUNT_PART", "MAX_SCORE_GRAINS", "MIN_EVENT_SHARE_OF_LOGIT",
}  # fmt: skip


def numbers():
    """Return {name: patches} of the numbers that are tried."""
    out = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 4 or cells[3].split(" ")[0] not in TRIED:
            continue
        name, text = cells[0].strip("`"), cells[1].strip("`")
        if name in VALUES:
            values = VALUES[name]
        else:
            try:
                value = eval(text, {"__builtins__": {}})
            except Exception:  # a record of records: ablation.md has it
                continue
            by = 10 if name in TENFOLD else 2
            if isinstance(value, tuple) and all(isinstance(x, float) for x in value):
                values = (tuple(x / by for x in value), tuple(x * by for x in value))
            elif isinstance(value, float):
                values = (value / by, value * by)
            elif isinstance(value, int):
                values = (max(value // by, 1), value * by)
            else:
                continue
        patches = [v if isinstance(v, str) else f"{name} = {v!r}" for v in values]
        if patches:
            out[name] = patches
    return out


def made(n, r):
    """Return a table of n rows: numbers, levels, weights, clusters, people, events, times."""
    rng = np.random.default_rng([71, n, r])
    who = np.arange(n) // 4
    own = rng.normal(0, 0.5, n // 4 + 1)[who]
    d = pd.DataFrame({"x": rng.normal(0, 1, n).clip(-4, 4), "z": rng.uniform(0, 1, n),
                      "g": rng.choice(list("abcde"), n, p=[0.4, 0.3, 0.2, 0.08, 0.02])})  # fmt: skip
    eta = 0.5 * d.x - 0.5 * d.z + 0.4 * (d.g == "b") + 0.3 * own
    d["y"] = (2 + eta + rng.standard_t(5, n) * 0.7).clip(-10, 10)
    d["amount"] = rng.gamma(2.0, np.exp(eta.to_numpy() - 0.5)).clip(1e-3, 100)
    d["event"] = (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1
    d["rare"] = (rng.random(n) < 1 / (1 + np.exp(4 - eta))) * 1
    d["count"] = rng.poisson(np.exp(eta)).clip(0, 50)
    d["class3"] = np.array(list("lmh"))[np.digitize(eta + rng.logistic(size=n), [-1, 1])]
    d["t"] = rng.exponential(np.exp(-eta)).clip(0, 8)
    d["died"] = (d.t < 4) * 1
    d["t"] = d.t.clip(upper=4)
    d["w"], d["psu"], d["id"] = rng.uniform(0.5, 2, n), rng.integers(0, 200, n), who
    d.loc[rng.random(n) < 0.03, "z"] = np.nan
    return d


SCHEMA = {"x": dp.Real(-5, 5), "z": dp.Real(0, 1), "g": dp.Levels(list("abcde")), "y": dp.Real(-10, 10),
          "amount": dp.Real(1e-3, 100), "event": dp.Binary(), "rare": dp.Binary(), "count": dp.Count(50),
          "class3": dp.Ordered(["l", "m", "h"]), "t": dp.Real(0, 10), "died": dp.Binary(),
          "w": dp.Real(0.5, 2), "far": dp.Real(-5, 5)}  # fmt: skip
RIGHT = " ~ x + z + g"
PSU = dp.Survey(psu="psu", psus=200)
MADE = {
    "psu": ("dp_ols", "y" + RIGHT, {"design": PSU}),
    "psu logit": ("dp_glm", "event" + RIGHT, {"family": "binomial", "design": PSU}),
    "weights": ("dp_ols", "y" + RIGHT, {"weights": "w"}),
    "weights poisson": ("dp_glm", "count" + RIGHT, {"family": "poisson", "weights": "w"}),
    "negative binomial": ("dp_glm", "count" + RIGHT, {"family": "negative_binomial"}),
    "gamma": ("dp_glm", "amount" + RIGHT, {"family": "gamma", "fit_stats": True}),
    "probit": ("dp_glm", "event" + RIGHT, {"family": "binomial", "link": "probit"}),
    "cloglog": ("dp_glm", "rare" + RIGHT, {"family": "binomial", "link": "cloglog"}),
    "n private": ("dp_ols", "y" + RIGHT, {"relation": "add-remove", "n_guess": 10_000}),
    "people n private": ("dp_ols", "y" + RIGHT, {"relation": "add-remove", "unit": "id", "n_guess": 2_500}),
    "median": ("dp_quantreg", "y" + RIGHT, {}),
    "median of people": ("dp_quantreg", "y" + RIGHT, {"unit": "id", "units": 2_500}),
    "upper decile of people": ("dp_quantreg", "y" + RIGHT, {"unit": "id", "units": 2_500, "tau": 0.9}),
    "cox": ("dp_coxph", "Surv(t, died) ~ x + z + g", {}),
    "ordered": ("dp_polr", "class3 ~ x + z + g", {}),
    "classes": ("dp_multinom", "class3 ~ x + z", {}),
    "many rows": ("dp_ols", "y" + RIGHT, {}),
    "people": ("dp_glm", "rare" + RIGHT, {"family": "binomial", "unit": "id"}),
}  # fmt: skip


def battery(every, reps, cells):
    """Yield (name, truth or None, function that fits)."""
    for group, parts in EVERY.items():
        for name, spec in list(parts["tuned"].items())[::every]:
            for n, eps in cells:
                for r, (truth, fit) in enumerate(samples(group, spec, n, reps)):
                    yield f"{group}: {name} ({n})", r, truth, functools.partial(fit, eps=eps)
    for name, (verb, formula, options) in MADE.items():
        for r in range(reps):
            n = 300_000 if name == "many rows" else 10_000
            d = made(n, r)
            schema = dp.Schema(**{k: v for k, v in SCHEMA.items() if k in d})
            yield f"made: {name} ({n})", r, None, functools.partial(
                getattr(dp, verb), formula, d, schema=schema, eps=1, delta=1e-6, seed=r, **options
            )


def run(fits):
    """Return {design: (fits, 4, coefficients)} of a battery."""
    out = {}
    for name, _, truth, fit in fits:
        try:
            one = fit()
            if truth is None:
                truth = np.zeros(len(one.params))
            out.setdefault(name, []).append(np.array(figures(one, truth), dtype=float))
        except Exception as problem:  # a changed number may make a plan impossible
            out.setdefault(name, []).append(type(problem).__name__)
    return out


def compared(before, after):
    """Return figures of a change: ratios of width and error, the most moved design, coverage."""
    logs, cover, same, broken = {}, [], True, 0
    for name, fits in before.items():
        for one, other in zip(fits, after[name], strict=True):
            if isinstance(one, str):
                continue
            if isinstance(other, str):
                broken += 1
                same = False
                continue
            (w0, e0, h0, m0), (w1, e1, h1, m1) = one, other
            same &= np.array_equal(one, other, equal_nan=True)
            ok = np.isfinite(w0) & np.isfinite(w1) & (w0 > 0) & (w1 > 0)
            wide = np.mean(np.log(w1[ok] / w0[ok])) if ok.any() else np.nan
            far = np.nan
            if not name.startswith("made"):  # by the noise: about the fit without it
                near = ok & np.isfinite(e0) & np.isfinite(e1)
                far = 0.5 * np.log(np.mean((e1[near] / w0[near]) ** 2) / np.mean((e0[near] / w0[near]) ** 2))
                cover.append((np.mean(h0[near]), np.mean(h1[near])))
            logs.setdefault(name, []).append((wide, far, np.mean(m1 - m0)))
    by = {name: np.nanmean(np.array(v), axis=0) for name, v in logs.items()}
    every = np.array(list(by.values()))
    most = max(by, key=lambda name: abs(np.nan_to_num(by[name][0])))
    return {
        "same": same, "broken": broken, "width": float(np.exp(np.nanmean(every[:, 0]))),
        "error": float(np.exp(np.nanmean(every[:, 1]))), "most": most,
        "width of most": float(np.exp(by[most][0])), "marked": float(np.nanmean(every[:, 2])),
        "moved": int(np.sum(np.abs(np.nan_to_num(every[:, 0])) > 0.03)), "designs": len(by),
        "cover": tuple(float(x) for x in np.mean(cover, axis=0)),
    }  # fmt: skip


HEAD = (
    "| number | change | width | error | covers | marked | designs moved | most |\n"
    "|---|---|---|---|---|---|---|---|"
)


def line(name, patch, c):
    """Return a row of the table."""
    change = patch.partition(" = ")[2]
    inner = re.match(r"replace\(\w+, (.*?)\)", change)
    change = (inner.group(1) if inner else change).replace("|", "\\|")
    if c["same"]:
        return f"| {name} | {change} | no fit moves | | | | | |"
    broken = f"; {c['broken']} fits refused" if c["broken"] else ""
    return (
        f"| {name} | {change} | {c['width']:.3f} | {c['error']:.3f} | {c['cover'][0]:.3f} -> {c['cover'][1]:.3f} | "
        f"{c['marked']:+.3f} | {c['moved']} of {c['designs']} | {c['most']}: {c['width of most']:.2f}{broken} |"
    )


def told(found):
    """Return the report: how many numbers matter, those that move no fit, a table of the others."""
    far = {}
    for name, _, c in found:
        moves = 0.0 if c["same"] else max(abs(np.log(c["width"])), abs(np.log(c["error"])), 1e-9)
        far[name] = max(far.get(name, 0.0), moves)
    idle = [name for name, moves in far.items() if moves == 0.0]
    small = [name for name, moves in far.items() if 0.0 < moves < 0.03]
    large = sorted((name for name in far if far[name] >= 0.03), key=lambda name: -far[name])
    return [
        f"Of {len(far)} numbers {len(idle)} move no fit, {len(small)} move widths and errors by less than 3 % in the "
        f"geometric mean, and {len(large)} by more: {', '.join(large)}.", "",
        "A number that moves no fit serves cases that these designs lack (samples of larger tables, few clusters, a stop "
        "before the fit, separated events, statistics of a fit, tolerances), and tests of such cases look at it.", "",
        f"No fit moves: {', '.join(idle)}.", "", HEAD,
        *(line(*one) for one in sorted(found, key=lambda one: -far[one[0]]) if far[one[0]]),
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", default="")
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--reps", type=int, default=2)
    parser.add_argument("--cells", default="3000:1,10000:1")
    parser.add_argument("--try", dest="patches", action="append", default=[], help="a patch")
    parser.add_argument("--wide", type=float, default=1.0, help="ranges so many times as wide")
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    start = time.process_time()
    if args.wide > 1.0:
        plain = common.outwards

        def wider(lo, hi):
            room = (args.wide - 1.0) / 2.0 * (hi - lo)
            return plain(lo if lo == 0 else lo - room, hi + room)

        common.outwards = real_panels.outwards = wider
    cells = [(int(n), float(eps)) for n, eps in (c.split(":") for c in args.cells.split(","))]
    fits = list(battery(args.every, args.reps, cells))
    before = run(fits)
    print({k: v for k, v in before.items() if any(isinstance(x, str) for x in v)}, flush=True)
    print(len(fits), "fits,", round(time.process_time() - start), "s", flush=True)
    wanted = [w for w in args.names.split(",") if w]
    found = []
    chosen = {one: [one] for one in args.patches} or numbers()
    for name, patches in chosen.items():
        if wanted and name not in wanted:
            continue
        for patch in patches:
            try:
                with without(patch):
                    after = run(fits)
            except Exception as problem:
                print(name, patch, repr(problem), flush=True)
                continue
            found.append((name, patch, compared(before, after)))
            print(line(*found[-1]), flush=True)
    if args.out:
        text = " ".join(__doc__.split("\n\n")[1].split())
        write(
            RESULTS / args.out,
            ["# Numbers of the engine, halved and doubled", "", text, "",
             f"{len(before)} designs (every {args.every}th of the tuned ones at {args.cells}, and {len(MADE)} made tables), "
             f"{args.reps} samples each.", "", *told(found), *one_core(start)],
        )  # fmt: skip


if __name__ == "__main__":
    main()
