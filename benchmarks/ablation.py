"""What is a rule of the scoring engine worth? Seeded fits with it and without it, side by side.

An item is a rule, taken out by a patch of this process (``ITEMS``, or ``--set NAME=value`` for a
constant). The same samples are fitted with and without it, with the same seed. Per cell (n, eps):
the geometric means over coefficients and designs of the ratio (without over with) of interval
widths and of root mean squared errors about the fit without noise on the whole table; coverage of
the coefficients that no note marks; how many of those cover less than .80; the share marked.

    python benchmarks/ablation.py --items "far,damping" [--part tuned]
        [--cells 3000:1,10000:1,50000:1] [--reps 10] [--every 1] [--set "name: X=1; Y=2"]

The folder of data sets is named by DPMODELS_DATA.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import importlib
import inspect
import sys
import warnings
from dataclasses import replace

import numpy as np
import real_models
import real_panels
import real_responses
from common import NAMED as CUT
from common import marked
from models_people_fit import GROUPS, OLS

import dpmodels as dp
from dpmodels.after import inference
from dpmodels.scoring import fit as engine
from dpmodels.scoring import rules, units

#: Models with few columns and ordinary tails, and people: beside the groups of real_models.py.
FEW = {
    "tuned": {k: (*v, OLS) for k, v in real_responses.TUNED.items()},
    "aside": {k: (*v, OLS) for k, v in real_responses.OTHERS.items()},
}
EVERY = {**GROUPS, "few": FEW, "people": real_panels.CASES}
#: item -> what takes it out: "name = value; ...", of constants in dpmodels/scoring/rules.py or of module.attribute.
ITEMS = {
    "far": ("wide,skew,few", "FAR_FROM = inf"),
    "signed": ("wide", "WIDE_LEAST_SQUARES = replace(WIDE_LEAST_SQUARES, signed=False)"),
    "narrow": ("wide", "WIDE_LEAST_SQUARES = replace(WIDE_LEAST_SQUARES, narrow=False)"),
    "least clip": ("wide", "WIDE_LEAST_SQUARES = replace(WIDE_LEAST_SQUARES, clip=1.5)"),
    "ordinary 1.5": ("wide", "WIDE_LEAST_SQUARES = replace(WIDE_LEAST_SQUARES, ordinary=2.0)"),
    "projection": ("wide,factors,robust", "known.known_entries = lambda design, coordinates: None"),
    "extra passes": ("wide,robust", "pass_plan.longer = lambda passes: iter(())"),
    "damping": ("wide,skew,few,factors,robust", "DAMPING = 0.0"),
    "averaging": ("wide,skew,few", "step.averaged = lambda H, nu, state, averages: (H, nu)"),
    "start less noise": ("wide,skew,few", "START_NOISE_SDS = 0.0"),
    "measured radius of start": ("wide,skew,few,robust", "rows.start_radius = lambda detail, rank: 0.0"),
    "unexplained step": ("wide,factors,robust", "UNEXPLAINED_STEP = 0.0"),
    "moved part": ("wide,skew,few,factors,robust", "MOVED_PART = 0.0"),
    "bins above the curve": ("wide,skew,few,factors", "TAIL_BIN_SDS = inf"),
    "even part": ("wide", "EVEN_PART = 0.0"),
    "leverage of means": ("factors,rare", "FEW = TAME; MANY = replace(MANY, by_leverage=False)"),
    "one policy of few": ("skew,few,robust", "TAME = FEW; LEAST_SQUARES = replace(FEW, far=True)"),
    "one policy of many": ("factors,robust", "MANY = WIDE_LEAST_SQUARES"),
    "shrinkage of means": ("factors", "MANY = replace(MANY, shrinks=False)"),
    "strong columns": ("wide,robust", "WIDE_NOISE = 0.0"),
    "many columns": ("wide,robust", "WIDE_NOISE = inf"),
    "long groups": ("wide,skew,few", "GROUP_EXCESS = 0.0; GROUP_MOVE = inf"),
    "residual variance of start": ("skew,few,wide", "MIN_ERROR_PART = 0.0; START_SPREAD = inf"),
    "carried": ("wide,skew,few,factors", "intervals.Carried = lambda *a: None"),
    "reach of start": ("rare,factors", "REACH_OF_START = inf"),
    "radii of the box": ("robust,rare,factors", "pass_plan.PassPlan.within = lambda self, row, score: self"),
}


def holders(name):
    """Yield (object, holder, attribute) of a name: of a constant, or of a module (and class).

    A constant is also where a module imports it, and in the defaults that are written
    ``= rules.NAME``: of fields, and of arguments. These are found in the source, since equal
    numbers of a module are one object.
    """
    *path, attribute = name.split(".")
    owner = rules if attribute in vars(rules) else inference  # of the allowance for bias
    if path:
        owner = importlib.import_module(f"dpmodels.scoring.{path[0]}")
    for part in path[1:]:
        owner = getattr(owner, part)
    value = owner.__dict__[attribute]
    yield value, owner, attribute
    if len(path) > 1:
        return
    modules = [m for n, m in sys.modules.items() if n.startswith("dpmodels.") and m is not owner]
    yield from ((value, m, attribute) for m in modules if m.__dict__.get(attribute) is value)
    for module in [m for m in modules if not path and m.__name__.startswith("dpmodels.scoring.")]:
        for node, scope in nodes_of(module):
            if isinstance(node, ast.ClassDef):
                for line in node.body:
                    if isinstance(line, ast.AnnAssign) and written(line.value, attribute):
                        field = line.target.id
                        yield value, vars(scope)[node.name], field
                        class_var = ast.unparse(line.annotation).startswith("ClassVar")
                        for heir in () if class_var else heirs(vars(scope)[node.name], field):
                            yield value, heir.__init__, (field, attribute)
            elif isinstance(node, ast.FunctionDef):
                last = node.args.args[len(node.args.args) - len(node.args.defaults) :]
                pairs = [*zip(last, node.args.defaults, strict=True),
                         *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]  # fmt: skip
                for argument, default in pairs:
                    if written(default, attribute):
                        yield value, inspect.unwrap(vars(scope)[node.name]), (argument.arg, attribute)


@functools.cache
def nodes_of(module):
    """Return the classes and functions at the top of a module, as they are written."""
    return [(node, module) for node in ast.parse(inspect.getsource(module)).body]


def heirs(kind, field):
    """Yield a class and its subclasses, down to those with another default of the field."""
    yield kind
    for one in kind.__subclasses__():
        if field not in vars(one).get("__annotations__", {}):
            yield from heirs(one, field)


def written(node, name):
    """Return whether an expression is ``rules.NAME``."""
    return isinstance(node, ast.Attribute) and ast.unparse(node) == f"rules.{name}"


def set_default(function, argument, new):
    """Set the default of an argument of a function; return a function that sets it back."""
    if argument in (function.__kwdefaults__ or {}):
        before = dict(function.__kwdefaults__)
        function.__kwdefaults__ = {**before, argument: new}
        return lambda: setattr(function, "__kwdefaults__", before)
    was = function.__defaults__
    names = [p.name for p in inspect.signature(function).parameters.values()
             if p.default is not p.empty and p.kind == p.POSITIONAL_OR_KEYWORD]  # fmt: skip
    at = names.index(argument)
    function.__defaults__ = (*was[:at], new, *was[at + 1 :])
    return lambda: setattr(function, "__defaults__", was)


@contextlib.contextmanager
def without(patch):
    """Run with names patched: ``patch`` is "name = expression; ..."."""
    assert engine and units  # every module of the engine is there to be patched
    rooms = {name.rpartition(".")[2]: module for name, module in sys.modules.items()
             if name.startswith("dpmodels.scoring.")}  # fmt: skip
    scope = {**rooms, **vars(rules), "replace": replace, "np": np, "inf": float("inf")}
    was = []
    for line in filter(None, (one.strip() for one in patch.split(";"))):
        name, _, value = line.partition("=")
        new = eval(value, scope)
        for old, holder, attribute in list(holders(name.strip())):
            if isinstance(attribute, tuple):
                was.append(set_default(holder, attribute[0], new))
            elif holder.__dict__.get(attribute) is old:
                was.append(functools.partial(setattr, holder, attribute, old))
                setattr(holder, attribute, new)
    # what is kept with a design is kept for this patch
    plain = rooms["coordinates"].cached_on
    for module in filter(lambda m: getattr(m, "cached_on", None) is plain, rooms.values()):
        was.append(functools.partial(setattr, module, "cached_on", plain))
        module.cached_on = lambda of, key, make: plain(of, (patch, key), make)
    forget(rooms)
    try:
        yield
    finally:
        for back in reversed(was):
            back()
        forget(rooms)


def forget(rooms):
    """Empty the memories of functions of these modules."""
    for module in rooms.values():
        for one in vars(module).values():
            if hasattr(one, "cache_clear"):
                one.cache_clear()


def samples(group, spec, n, reps):
    """Yield (truth, function of eps that fits) of each sample of a design."""
    if group == "people":
        d, schema = real_panels.table(spec.of), spec.schema()
        X, y = real_models.design_matrix(d, spec.formula.split("|")[0], schema)[:2]
        ids = d["id"].to_numpy()
        truth, _ = real_panels.without_privacy(spec, X, y, ids)
        for r in range(reps):
            rows, who = real_panels.drawn(ids, np.random.default_rng([r, 1]), n)
            frame = d.iloc[rows].reset_index(drop=True).assign(id=who)
            yield truth, functools.partial(
                getattr(dp, spec.verb), spec.formula, frame, schema=schema, seed=r, delta=1e-6,
                unit="id", **spec.more,
            )  # fmt: skip
        return
    file, formula, (verb, options) = spec
    frame, schema, X, y = real_models.population(file, formula)
    options = real_models.with_scales(options, X, y)
    truth, _ = real_models.twin_of(X, y, verb, options)
    for r in range(reps):
        rows = frame.iloc[np.random.default_rng([17, r]).integers(0, len(frame), n)]
        yield truth, functools.partial(
            real_models.private, verb, formula, rows, schema, options, seed=r
        )


def figures(fit, truth):
    """Return (half width, error, whether covered, whether marked) of every coefficient."""
    low, high = fit.conf_int().to_numpy().T
    gone = fit._record.estimate.untested
    gone = np.zeros(len(low), bool) if gone is None else np.asarray(gone)
    covered = (low <= truth) & (truth <= high)
    return (high - low) / 2, fit.params.to_numpy() - truth, covered, gone | marked(fit, CUT)


def design(group, spec, n, eps, reps, items):
    """Return {item: figures (4, fits, coefficients)} of a design; None is the engine as it is."""
    found = {item: [] for item in (None, *items)}
    for truth, fit in samples(group, spec, n, reps):
        for item in found:
            with without(items[item] if item else ""):
                found[item].append(figures(fit(eps=eps), truth))
    return {item: np.array(all_of, dtype=float).swapaxes(0, 1) for item, all_of in found.items()}


def compared(pairs):
    """Return the figures of a cell, of pairs (as it is, without) over designs."""
    logs, every, cover, below, share = [], [], [], [], []
    for one in pairs:
        of = []
        for half, error, hit, gone in one:
            free = np.where(gone > 0, np.nan, hit)
            enough = np.isfinite(free).sum(axis=0) >= 4
            by = np.nanmean(free, axis=0)
            of.append((np.median(half, axis=0), np.sqrt(np.mean(error**2, axis=0)),
                       np.nanmean(free), (by[enough] < 0.8).sum(), gone.mean(),
                       np.nanmean(hit)))  # fmt: skip
        (w0, e0, c0, b0, m0, a0), (w1, e1, c1, b1, m1, a1) = of
        usable = np.isfinite(w0) & np.isfinite(w1) & (w0 > 0) & (w1 > 0) & (e0 > 0) & (e1 > 0)
        logs.append([np.mean(np.log(b[usable] / a[usable])) for a, b in ((w0, w1), (e0, e1))])
        every.append((a0, a1))
        cover.append((c0, c1))
        below.append((b0, b1))
        share.append((m0, m1))
    mean = np.exp(np.mean(logs, axis=0))
    error = np.std(logs, axis=0) / np.sqrt(len(logs))
    covers = [np.nanmean(one, axis=0) for one in (every, cover)]
    return mean, error, *covers, np.sum(below, axis=0), np.mean(share, axis=0)


HEAD = (
    "| item | part | group | n | eps | designs | width | error | covers | of unmarked | below .80 | marked |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def line(item, part, group, n, eps, pairs):
    """Return a row of the table."""
    ratio, sd, every, cover, below, share = compared(pairs)
    return (
        f"| {item} | {part} | {group} | {n} | {eps} | {len(pairs)} | {ratio[0]:.3f} +- {sd[0]:.3f} | "
        f"{ratio[1]:.3f} +- {sd[1]:.3f} | {every[0]:.3f} -> {every[1]:.3f} | {cover[0]:.3f} -> {cover[1]:.3f} | "
        f"{below[0]} -> {below[1]} | {share[0]:.3f} -> {share[1]:.3f} |"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", default="", help="names, with commas; empty: all")
    parser.add_argument("--set", action="append", default=[], help="'name: groups: patch'")
    parser.add_argument("--part", default="tuned", choices=("tuned", "aside"))
    parser.add_argument("--cells", default="3000:1,10000:1,50000:1")
    parser.add_argument("--people", default="3000:1,10000:1", help="cells of people")
    parser.add_argument("--reps", type=int, default=8)
    parser.add_argument("--every", type=int, default=1, help="every so manieth design")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    items = dict(ITEMS) if not args.set else {}
    for one in args.set:
        name, groups, patch = (part.strip() for part in one.split(":", 2))
        items[name] = (groups, patch)
    wanted = [w.strip() for w in args.items.split(",") if w.strip()] or list(items)
    items = {name: {**ITEMS, **items}[name] for name in wanted} | (items if args.set else {})
    print(HEAD, flush=True)
    for group, parts in EVERY.items():
        of = {name: patch for name, (groups, patch) in items.items() if group in groups.split(",")}
        if not of:
            continue
        for cell in (args.people if group == "people" else args.cells).split(","):
            n, eps = cell.split(":")
            found = []
            for name, spec in list(parts[args.part].items())[:: args.every]:
                try:
                    found.append(design(group, spec, int(n), float(eps), args.reps, of))
                except (ValueError, np.linalg.LinAlgError) as problem:
                    print(name, n, eps, type(problem).__name__, str(problem)[:200], file=sys.stderr)
            for item in of:
                pairs = [(one[None], one[item]) for one in found]
                print(line(item, args.part, group, n, eps, pairs), flush=True)


if __name__ == "__main__":
    main()
