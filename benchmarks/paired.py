"""Compare least squares of two copies of the package on the same samples of real tables.

The designs are those of ``real_models.py`` (groups wide and skew) and of ``real_responses.py``.
Each copy runs in a process of its own, with the same rows and seeds. Reported are the ratios of
median widths and of root mean squared errors (geometric means over designs), coverage, and how many
coefficients are covered in less than .80 of the samples without being marked.

    python benchmarks/paired.py BEFORE AFTER [--part tuned] [--cells 10000:1] [--reps 20]

BEFORE and AFTER are folders with a copy of the repository. DPMODELS_DATA names the data sets.
"""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np


def designs(part):
    """Return name -> (table, formula) of the least-squares designs of a part."""
    import real_responses
    from models_people_fit import GROUPS

    out = {
        f"{group}: {name}": (file, formula)
        for group in ("wide", "skew")
        for name, (file, formula, (verb, _)) in GROUPS[group][part].items()
        if verb == "ols"
    }
    small = {"tuned": real_responses.TUNED}
    small["aside"] = {**real_responses.OTHERS, **real_responses.FRESH}
    return out | {f"small: {name}": design for name, design in small[part].items()}


def fits(part, n, eps, reps):
    """Return name -> arrays (reps, p) of one copy: covered, half widths, errors, marks."""
    import real_models
    import real_responses

    import dpmodels as dp

    warnings.simplefilter("ignore")
    found = {}
    for name, (file, formula) in designs(part).items():
        frame, schema, X, y = real_models.population(file, formula)
        truth, _ = real_responses.robust(X, y)
        table = {k: [] for k in ("hit", "half", "error", "marked", "hc")}
        for r in range(reps):
            rows = np.random.default_rng([17, r]).integers(0, len(frame), n)
            fit = dp.dp_ols(formula, frame.iloc[rows], eps=eps, delta=1e-6, schema=schema, seed=r)
            ends = fit.conf_int().to_numpy()
            table["hit"].append((ends[:, 0] <= truth) & (ends[:, 1] >= truth))
            table["half"].append((ends[:, 1] - ends[:, 0]) / 2 / 1.96)
            table["error"].append(fit.params.to_numpy() - truth)
            named = real_models.marked(fit, real_models.NAMED)
            table["marked"].append(named | np.isnan(fit.pvalues.to_numpy()))
            table["hc"].append(real_responses.robust(X[rows], y[rows])[1])
        found[name] = {k: np.array(v, dtype=float) for k, v in table.items()}
    return found


def figures(tables):
    """Return the figures of a copy: width and error by design, coverage, hidden misses."""
    width, error, cover, hidden, named = [], [], [], 0, []
    for t in tables.values():
        hc = np.nanmedian(t["hc"], axis=0)
        width.append(np.median(np.nanmedian(t["half"], axis=0) / hc))
        error.append(np.median(np.sqrt(np.nanmean(t["error"] ** 2, axis=0)) / hc))
        by, marked = t["hit"].mean(axis=0), t["marked"].mean(axis=0)
        cover.append(by.mean())
        hidden += int(((by < 0.8) & (marked < 0.5)).sum())
        named.append(marked.mean())
    return np.array(width), np.array(error), np.array(cover), hidden, float(np.mean(named))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("copies", nargs="+")
    parser.add_argument("--part", default="tuned", help="tuned or aside")
    parser.add_argument("--cells", default="10000:1", help="n:eps, ...")
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--keep", default="", help="(of a process of one copy)")
    args = parser.parse_args()
    for n, eps in (cell.split(":") for cell in args.cells.split(",")):
        if args.keep:
            Path(args.keep).write_bytes(
                pickle.dumps(fits(args.part, int(n), float(eps), args.reps))
            )
            return
        both = []
        for copy in args.copies:
            with tempfile.NamedTemporaryFile() as file:
                command = [sys.executable, str(Path(__file__).resolve()), copy, "--keep", file.name]
                command += ["--part", args.part, "--cells", f"{n}:{eps}", "--reps", str(args.reps)]
                subprocess.run(command, check=True, cwd=copy)
                both.append(figures(pickle.loads(Path(file.name).read_bytes())))
        before, after = both
        width, error = (np.exp(np.mean(np.log(after[k] / before[k]))) for k in (0, 1))
        print(f"n {n}, eps {eps}: {len(before[0])} designs, width {width:.3f}, RMSE {error:.3f}")
        for label, (_, _, cover, hidden, named) in zip(("before", "after"), both, strict=True):
            print(
                f"  {label}: coverage {cover.mean():.3f}, least design {cover.min():.2f}, below .90 "
                f"{int((cover < 0.9).sum())}, below .80 without a mark {hidden}, marked {named:.2f}"
            )


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    main()
