"""Should the clip C of the last pass over rows follow released lengths? Candidate rules, compared.

The pass before the last releases a histogram of its score lengths, by sign, for a share of its
mu^2; no further reading of the rows. Every sample is fitted as the engine is, and with C at
``2^(k/2)`` times the formula, k = 2 .. -3, by one seed: histogram and early noise are then the same
in all, so that a rule, which picks one k from the histogram, is the fit at that k. Least squares
of rows; everything else keeps the formula. ``results/clip_experiment.md`` has the rules' formulas.

    python benchmarks/clip_candidates.py [--cells 50000:1,100000:1] [--groups few,skew,wide]
        [--reps 20] [--share 0.3] [--signed] [--part tuned]

The folder of data sets is named by DPMODELS_DATA.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from dataclasses import replace

import numpy as np
from ablation import EVERY, figures, samples

from dpmodels.after.inference import Tail, critical_value, one_way
from dpmodels.scoring import fit as fit_module
from dpmodels.scoring import pass_plan, rows
from dpmodels.scoring.clip import long_scores, overflow, tail_weight
from dpmodels.scoring.rules import AT_CLIP, BINS

MULTIPLES = tuple(2.0 ** (k / 2.0) for k in (2, 1, 0, -1, -2, -3))
MIDDLES = 2.0 ** ((np.arange(BINS) - AT_CLIP + 0.5) / 2.0)


class Trial:
    """The engine with a histogram before the last pass, and C there at ``multiple`` of the formula."""

    def __init__(self, share, signed):
        self.share, self.signed = share, signed
        self.multiple, self.fit, self.seen, self.kept = None, None, {}, {}
        self.plan_pass, self.within, self.infer = rows.plan_pass, rows.within, fit_module.infer
        self.aim = rows.RowEngine.aim
        rows.plan_pass, rows.within = self.planned, self.clipped
        fit_module.infer = self.inferred
        rows.RowEngine.aim = lambda engine, plan, k, planned, fits, *more: self.aimed(
            engine, plan, k, planned, fits, *more
        )

    def planned(self, rule, k, mu, n, p, relation, **more):
        planned = self.plan_pass(rule, k, mu, n, p, relation, **more)
        if self.multiple is None or not planned.policy.far:
            return planned
        by_sign = replace(planned.policy, signed=True)
        if planned.last:
            return replace(planned, policy=by_sign) if self.signed else planned
        if k != len(rule.passes) - 2:
            return planned
        kept, mu_pass = math.sqrt(1.0 - self.share), mu * math.sqrt(rule.passes[k])
        noise, mu_histogram = planned.noise, mu_pass * math.sqrt(self.share)
        noise = replace(
            noise, information=noise.information / kept, score=noise.score / kept,
            scale=noise.scale / kept, count=math.sqrt(2.0) / mu_histogram,
        )  # fmt: skip
        return replace(
            planned, mu_joint=planned.mu_joint * kept, mu_scale=planned.mu_scale * kept,
            mu_histogram=mu_histogram, noise=noise, policy=by_sign,
        )  # fmt: skip

    def aimed(self, engine, plan, k, planned, fits, *more):
        self.fit = fits[0]
        return self.aim(engine, plan, k, planned, fits, *more)

    def clipped(self, planned, score, state, coordinates, design):
        planned, typical = self.within(planned, score, state, coordinates, design)
        follows = planned.last and planned.policy.far and not typical and not planned.whole
        if self.multiple is None or self.fit is None or not follows:
            return planned, typical
        early, before = self.fit.released[-1], self.fit.plans[-1]
        size = planned.rows / before.rows
        ratio = planned.clip / before.clip * math.sqrt(state.phi / self.fit.before.phi)
        self.seen = {
            "bins": early.bins * size, "signed": early.signed * size, "sd": before.count * size,
            "at": 2.0 * math.log2(ratio), "plan": planned,
        }  # fmt: skip
        C = self.multiple * planned.clip
        noise = replace(planned.noise, score=self.multiple * planned.noise.score)
        return replace(planned, clip=C, noise=noise), typical

    def inferred(self, released, plan, *more, **named):
        self.kept = {"released": released, "plan": plan}
        return self.infer(released, plan, *more, **named)

    def run(self, fit, truth, multiple):
        """Return figures of a fit, with what its intervals are made of."""
        self.multiple, self.fit, self.seen = multiple, None, {}
        pass_plan.plan_pass.cache_clear()
        done = fit()
        e = done._record.estimate
        error = np.sqrt(np.diag(e.vcov_sampling + e.vcov_privacy))
        return {"figures": figures(done, truth), "error": error, "parts": e.bias_bound.parts, **self.kept}


# -- Rules: a histogram to a multiple


def shifted(bins, at):
    """Return half octaves whose bin ``AT_CLIP`` begins ``at`` half octaves further out."""
    whole = math.floor(at)
    padded = np.concatenate([np.zeros(20), bins, np.zeros(20)])
    i = np.arange(BINS) + 20 + whole
    return (1.0 - at + whole) * padded[i] + (at - whole) * padded[i + 1]


def view(seen, f):
    """Return what the histogram says of C = f times the formula, over n; cached."""
    known = seen.setdefault("views", {})
    if f not in known:
        plan, at = seen["plan"], seen["at"] + 2.0 * math.log2(f)
        n, C, sd = plan.rows, f * plan.clip, seen["sd"]
        bins, net = shifted(seen["bins"], at), shifted(seen["signed"], at)[AT_CLIP:]
        excess = overflow(bins, sd, apart=True)
        beyond, over = bins[AT_CLIP:], MIDDLES[AT_CLIP:] - 1.0
        q = excess.total / max(float(beyond.clip(0.0).sum()), 2.0 * sd)
        net_sd = sd * math.sqrt(float((over**2).sum()))
        known[f] = {
            "nu": f * plan.noise.score / n, "O": C * excess.total / n, "error": C * excess.error / n,
            "t": tail_weight(bins, C, sd) / n, "beyond": beyond, "sd": sd, "n": n, "p": plan.p,
            "net": C * math.sqrt(max(float(net @ over) ** 2 - net_sd**2, 0.0)) / n,
            "many": plan.policy.signed, "E": C * min(max(q, 0.25), 2.0) * plan.noise.far / n,
        }  # fmt: skip
    return known[f]


def half_width(v, directions=None):
    """Return the half width that the allowance of the last pass would give (method.md, 4)."""
    p, O = v["p"], v["O"]
    moved = max(one_way(p) * O, 0.8 * v["t"])
    if v["many"]:
        moved = max(min(0.8, 0.4 / math.sqrt(p)) * (O + v["error"]), 0.8 * min(1.0, 2.5 / p) * v["t"])
    if directions and v["E"]:
        moved = min(moved, (1.0 + directions[0]) * v["E"] + directions[1] * O)
    se = math.hypot(1.0 / math.sqrt(v["n"]), v["nu"])
    return se * float(critical_value(np.array(max(0.35 * v["nu"], moved) / se), 0.95))


def root_mean_square(v, bias):
    """Return the root mean squared error of a coordinate if the sum is off by n times ``bias``."""
    return math.sqrt(1.0 / v["n"] + v["nu"] ** 2 + bias**2)


def narrowest(low, high, *, directions=None, light=math.inf):
    """C of least half width, 5 % narrower than the formula's, with at most 5 % more error."""

    def rule(seen):
        formula = view(seen, 1.0)
        if formula["O"] * math.sqrt(formula["n"]) > light:
            return 1.0
        width = {f: half_width(view(seen, f), directions) for f in MULTIPLES if low <= f * 1.01 and f <= high * 1.01}
        most = 1.05 * root_mean_square(formula, 0.3 * formula["O"])
        fits = [f for f in width if f == 1.0 or root_mean_square(view(seen, f), 0.3 * view(seen, f)["O"]) <= most]
        best = min(fits, key=width.__getitem__)
        return best if width[best] < 0.95 * width[1.0] else 1.0

    return rule


def below_noise(kappa, high):
    """The smallest C whose overflow plus one error is at most kappa times the noise of the sum."""

    def rule(seen):
        allowed = [f for f in sorted(MULTIPLES) if f <= high * 1.01]
        good = [f for f in allowed if view(seen, f)["O"] + view(seen, f)["error"] <= kappa * view(seen, f)["nu"]]
        return good[0] if good else allowed[-1]

    return rule


def tail_is_noise(sds, low):
    """The smallest C up to the formula's beyond which counts are within noise."""

    def rule(seen):
        for f in (f for f in sorted(MULTIPLES) if low <= f * 1.01 and f <= 1.0):
            v = view(seen, f)
            sure = sds * v["sd"]
            if v["beyond"].sum() <= sure * math.sqrt(len(v["beyond"])) and v["beyond"].max() <= 1.5 * sure:
                return f
        return 1.0

    return rule


def two_sides(low, high):
    """C of least root mean squared error, its bias the difference of the two sides above noise."""
    few = [f for f in MULTIPLES if low <= f * 1.01 and f <= high * 1.01]
    return lambda seen: min(few, key=lambda f: root_mean_square(view(seen, f), view(seen, f)["net"]))


HALF, SEVEN, TWICE = 2.0**-1, 2.0**-0.5, 2.0**0.5
#: name -> (rule, (z, g) of an allowance by the released directions or None).
CANDIDATES = {
    "1.4 times the formula": (lambda seen: TWICE, None),
    ".7 times the formula": (lambda seen: SEVEN, None),
    "overflow + error <= noise": (below_noise(1.0, TWICE), None),
    "the same, .3 of the noise": (below_noise(0.3, TWICE), None),
    "the same, at most the formula": (below_noise(0.3, 1.0), None),
    "tail is noise": (tail_is_noise(2.0, 0.0), None),
    "tail is noise, at least .7": (tail_is_noise(2.0, SEVEN), None),
    "two sides": (two_sides(0.0, TWICE), None),
    "two sides, .7 to 1": (two_sides(SEVEN, 1.0), None),
    "half width": (narrowest(0.0, TWICE), None),
    "half width, at least .5": (narrowest(HALF, TWICE), None),
    "half width, at least .7": (narrowest(SEVEN, TWICE), None),
    "half width, .7 to 1": (narrowest(SEVEN, 1.0), None),
    "half width, 1 to 1.4": (narrowest(1.0, TWICE), None),
    "half width, .7, light tails": (narrowest(SEVEN, TWICE, light=5.0), None),
    "formula, directions (1, .1)": (lambda seen: 1.0, (1.0, 0.1)),
    "formula, directions (1, .2)": (lambda seen: 1.0, (1.0, 0.2)),
    "half width, .7, directions (1, .1)": (narrowest(SEVEN, TWICE, directions=(1.0, 0.1)), (1.0, 0.1)),
    "half width, .7, directions (1, .2)": (narrowest(SEVEN, TWICE, directions=(1.0, 0.2)), (1.0, 0.2)),
    "half width, .7, directions, light tails": (
        narrowest(SEVEN, TWICE, directions=(1.0, 0.2), light=5.0), (1.0, 0.2)
    ),
}  # fmt: skip


def by_directions(one, z, g):
    """Return figures with what clipping moved bounded by the released directions E too.

    ``C q/n (|r_j'E|/|r_j| + z sd_E) + min(g + l_j, 1) (O + l_j error)``, E less what the step has
    already added back.
    """
    released, plan = one["released"], one["plan"]
    half, error, _, gone = one["figures"]
    if released.far is None:
        return one["figures"]
    long, bias = long_scores(released, plan), []
    size = plan.clip * long.beyond / plan.rows
    for T, allowance in one["parts"]:
        if not allowance.clipped:
            bias.append(allowance.bias(T))
            continue
        few, length = allowance.leverage(T), np.maximum(allowance._length(T), 1e-300)
        part = np.minimum(0.35 + allowance.leverage_factor * few, 2.0) * allowance.score
        along = np.abs(T @ allowance.inverse @ ((1.0 - long.part) * long.towards)) * math.sqrt(allowance.phi)
        tail = allowance.tail
        bound = size * (along / length + z * long.sd) + np.minimum(g + few, 1.0) * (tail.total + few * tail.error)
        moved = np.minimum(allowance._change_by_clipping(few), bound)
        without = replace(allowance, tail=Tail(), kind="plain").bias(T)
        bias.append(without + length * np.maximum(moved - part, 0.0))
    ratio = np.nan_to_num(np.concatenate(bias) / one["error"])
    half = one["error"] * critical_value(ratio, 0.95)
    return half, error, np.abs(error) <= half, gone


# -- Samples and tables


def collected(trial, group, spec, n, eps, reps):
    """Return the fits of every sample: as it is (None) and at every multiple."""
    out = []
    for truth, fit in samples(group, spec, n, reps):
        fits = {f: trial.run(lambda fit=fit: fit(eps=eps), truth, f) for f in (None, *MULTIPLES)}
        out.append((fits, trial.seen))
    return out


def numbers(of):
    """Return median half widths, root mean squared errors, coverage of unmarked, coefficients below .80."""
    half, error, hit, gone = np.array(of, dtype=float).swapaxes(0, 1)
    free = np.where(gone > 0, np.nan, hit)
    enough = np.isfinite(free).sum(axis=0) >= 4
    below = int((np.nanmean(free, axis=0)[enough] < 0.8).sum())
    return np.median(half, axis=0), np.sqrt(np.mean(error**2, axis=0)), np.nanmean(free), below


def ratios(before, after):
    """Return log ratios of width and error, means over coefficients."""
    (w0, e0, *_), (w1, e1, *_) = numbers(before), numbers(after)
    ok = np.isfinite(w0) & np.isfinite(w1) & (w0 > 0) & (w1 > 0) & (e0 > 0) & (e1 > 0)
    return [float(np.mean(np.log(b[ok] / a[ok]))) for a, b in ((w0, w1), (e0, e1))]


def compared(pairs):
    """Return a row's figures from {design: (figures before, figures after)}."""
    logs = np.array([ratios(*pair) for pair in pairs.values()])
    r = np.random.default_rng(1)
    again = []
    for before, after in pairs.values():
        picks = [r.integers(0, len(before), len(before)) for _ in range(50)]
        again.append([ratios([before[i] for i in pick], [after[i] for i in pick]) for pick in picks])
    sd = np.std(again, axis=1)  # (designs, 2)
    worst = int(np.argmax(logs[:, 1]))
    every = [[numbers(one) for one in pair] for pair in pairs.values()]
    return (
        math.exp(logs[:, 0].mean()), float(np.sqrt((sd[:, 0] ** 2).sum()) / len(sd)),
        math.exp(logs[:, 1].mean()), math.exp(logs[worst, 1]), float(sd[worst, 1]), list(pairs)[worst],
        int((logs[:, 1] > math.log(1.1)).sum()),
        [float(np.nanmean([a[i][2] for a in every])) for i in (0, 1)],
        [sum(a[i][3] for a in every) for i in (0, 1)],
    )  # fmt: skip


def line(name, cell, group, pairs):
    """Return a row of the table."""
    w, sd, e, worst, of_worst, which, over, cover, below = compared(pairs)
    return (
        f"| {name} | {group} | {cell} | {w:.3f} +- {sd:.3f} | {e:.3f} | {worst:.2f} +- {of_worst:.2f} ({which}) | "
        f"{over} | {cover[0]:.3f} -> {cover[1]:.3f} | {below[0]} -> {below[1]} |"
    )


HEAD = (
    "| rule | group | cell | width | RMSE | RMSE of the worst design | above 1.10 | covers, unmarked | below .80 |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def best_multiple(found):
    """Return, per design, the multiple of least width with at most 10 % more error: hindsight."""
    out = {}
    for key, fits in found.items():
        formula = [one[1.0]["figures"] for one, _ in fits]
        known = {f: ratios(formula, [one[f]["figures"] for one, _ in fits]) for f in MULTIPLES}
        out[key] = min((f for f in known if known[f][1] <= math.log(1.1)), key=lambda f: known[f][0])
    return out


def tables(cell, found):
    """Print the rows of a cell: found is {(group, design): fits}."""
    groups = list(dict.fromkeys(group for group, _ in found))
    known = best_multiple(found)
    rules = {"histogram, C by the formula, over today's": None, "best multiple of each design": "known"}
    for name, rule in {**rules, **CANDIDATES}.items():
        after = {}
        for key, fits in found.items():
            rows_of = []
            for one, seen in fits:
                if rule is None or not seen:
                    rows_of.append(one[1.0]["figures"])
                elif rule == "known":
                    rows_of.append(one[known[key]]["figures"])
                else:
                    chosen = one[rule[0](seen)]
                    rows_of.append(by_directions(chosen, *rule[1]) if rule[1] else chosen["figures"])
            base = None if rule is None else 1.0
            after[key] = ([one[base]["figures"] for one, _ in fits], rows_of)
        for group in (*groups, "all"):
            pairs = {k[1]: v for k, v in after.items() if group in (k[0], "all")}
            print(line(name, cell, group, pairs), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", default="50000:1,100000:1")
    parser.add_argument("--groups", default="few,skew,wide")
    parser.add_argument("--part", default="tuned", choices=("tuned", "aside"))
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.3, help="of the pass before the last")
    parser.add_argument("--signed", action="store_true", help="lengths of the last pass by sign too")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    trial = Trial(args.share, args.signed)
    print(HEAD, flush=True)
    for cell in args.cells.split(","):
        n, eps = cell.split(":")
        found = {}
        for group in args.groups.split(","):
            reps = max(args.reps // 2, 4) if group == "wide" else args.reps
            for name, spec in EVERY[group][args.part].items():
                try:
                    found[group, name] = collected(trial, group, spec, int(n), float(eps), reps)
                except (ValueError, np.linalg.LinAlgError) as problem:
                    print(name, cell, type(problem).__name__, str(problem)[:200], file=sys.stderr)
        tables(cell, found)


if __name__ == "__main__":
    main()
