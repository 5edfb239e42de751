"""Hazards of ``colon``: how many significant coefficients stay significant with privacy.

    python benchmarks/colon.py [fits]

Seeded. Deaths of the trial (929 people), 6500 drawn with replacement, eps = 1, delta = 1e-6, three
models of four predictors. A coefficient counts as kept where |z| > 1.96 without privacy (PHReg,
Efron) and the private interval leaves out 0 on the same side. Truth of the coverage: the fit of the
whole trial. Needs the data folder.
"""

import sys
import time
import warnings

import numpy as np
import pandas as pd
from common import RESULTS, data_folder, one_core, write

import dpmodels as dp

FITS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
N, Z = 6500, 1.959963984540054
MODELS = ("fu age node4 surg", "fu obstruct node4 extent", "sex age adhere surg")
RANGES = {"t": (0, 9), "age": (18, 90), "extent": (1, 4)}


def trial():
    """Return one row a person: years to death or censoring, and predictors."""
    d = pd.read_csv(data_folder() / "colon.csv.gz")
    d = d[d["etype"] == 2].reset_index(drop=True)
    own = d[["age", "node4", "surg", "obstruct", "extent", "adhere", "sex"]].astype(float)
    return own.assign(t=d["time"] / 365.25, d=d["status"], fu=(d["rx"] == "Lev+5FU") * 1.0)


def without_privacy(d, names):
    """Return (estimates, errors)."""
    from statsmodels.duration.hazard_regression import PHReg

    fit = PHReg(d["t"], d[names], status=d["d"], ties="efron").fit()
    return np.asarray(fit.params), np.asarray(fit.bse)


def row(whole, names):
    """Return a line of the report."""
    box = {k: RANGES.get(k, (0, 1)) for k in ["t", *names]}
    truth, _ = without_privacy(whole, names)
    found, kept, lost = [], np.zeros(2), np.zeros(2)
    for seed in range(FITS):
        rng = np.random.default_rng(seed)
        d = whole.iloc[rng.integers(0, len(whole), N)].reset_index(drop=True)
        b, se = without_privacy(d, names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = dp.dp_coxph(
                "Surv(t, d == 1) ~ " + " + ".join(names), d, eps=1, delta=1e-6, bounds=box, seed=seed
            )
        low, high = fit.conf_int().to_numpy().T
        seen, clear = np.abs(b / se) > Z, (low > 0) | (high < 0)
        same = np.sign(b) == np.sign(fit.params.to_numpy())
        kept += [np.sum(seen & clear & same), np.sum(seen)]
        lost += [np.sum(~seen & clear), np.sum(~seen)]
        found.append(((high - low) / (2 * Z * se), (low <= truth) & (truth <= high)))
    width, covers = (np.array(one) for one in zip(*found, strict=True))
    line = (
        f"| {', '.join(names)} | {kept[0] / kept[1]:.2f} of {kept[1]:.0f} | "
        f"{lost[0]:.0f} of {lost[1]:.0f} | {' '.join(f'{v:.2f}' for v in np.median(width, 0))} | "
        f"{' '.join(f'{v:.2f}' for v in covers.mean(0))} |"
    )
    print(line, flush=True)
    return line


def main():
    """Write the report."""
    start = time.process_time()
    whole = trial()
    lines = [
        *__doc__.splitlines(), "",
        f"{FITS} fits a model. Asked: .6 kept.", "",
        "| predictors | significant ones kept | others significant | width | covers |",
        "|---|---|---|---|---|",
        *(row(whole, names.split()) for names in MODELS),
    ]  # fmt: skip
    write(RESULTS / "colon.md", [*lines, *one_core(start)])


if __name__ == "__main__":
    main()
