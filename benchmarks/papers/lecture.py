"""Lecture notes on Propose-Test-Release: what they claim, and what holds.

The test: k rows must change before the data are unsafe; the answer goes out with noise if
k + Laplace(1/eps) >= log(1/delta)/eps. The example: a mean of normal rows whose place is not known.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
from scipy.stats import chi2
from shared import main

import dpmodels as dp
from dpmodels.privacy.mechanisms import delta_gdp, mu_gdp
from dpmodels.privacy.noise import laplace_test_probability


def worst_delta(eps, delta):
    """Return the largest delta at 2 eps over all distances k, exact.

    A reply is the answer with (eps, delta) Gaussian noise; two unsafe tables may answer anything.
    """
    mu, worst = mu_gdp(eps, delta), 0.5 * delta  # both unsafe: the chance of a reply
    chance = [
        laplace_test_probability(k, eps, delta)
        for k in range(math.ceil(3 * math.log(1 / delta) / eps))
    ]
    for here, there in itertools.pairwise(chance):
        for p, q in ((here, there), (there, here)):
            silent = max(0.0, p.complement - math.exp(2 * eps) * q.complement)
            reply = p * delta_gdp(2 * eps + math.log(q / p), mu)
            worst = max(worst, silent + reply)
    return worst


def claim(reps):
    """PTR lecture: the guarantee (2 eps, e^eps delta)."""
    rows = [
        {"eps": eps, "delta": delta, "delta at 2 eps, printed": math.exp(eps) * delta,
         "proved": delta, "exact": worst_delta(eps, delta)}
        for eps in (0.1, 0.5, 1.0, 2.0) for delta in (1e-3, 1e-6)
    ]  # fmt: skip
    text = (
        "An unsafe table replies with probability delta/2; otherwise the test costs eps and the answer "
        "(eps, delta), whose delta is weighed by the chance of a reply: (2 eps, delta). The printed "
        'delta is larger than it need be, not wrong. "exact": the worst distance k, Gaussian noise.'
    )
    return text, [("", rows)]


def radius(reps):
    """PTR lecture: c_1 = 3 sqrt d lacks log n."""
    rows = []
    for d in (1, 2, 5, 10, 50):
        row = {"d": d}
        for n in (100, 1000, 10_000, 1_000_000):
            row[f"n = {n}"] = float(np.exp(n * chi2.logcdf(9 * d, d)))
            row[f"radius needed, n = {n}"] = float(np.sqrt(chi2.isf(0.05 / n, d)))
        rows.append({**row, "3 sqrt d": 3 * math.sqrt(d)})
    text = (
        "Probability that all n standard normal rows lie within 3 sqrt d of their mean, and the radius "
        "that holds them with probability .95: sqrt d + sqrt(2 log n) up to constants. For d = 1 the "
        "printed radius fails from a few hundred rows on, for large d it is larger than needed."
    )
    return text, [("", rows)]


def rate(reps):
    """PTR lecture: the rate of the noise c_2."""
    rng = np.random.default_rng(0)

    def noise(n=64_000, eps=1.0, delta=1e-6, d=1):
        names = [f"a{j}" for j in range(d)]
        frame = pd.DataFrame(rng.normal(50, 2, (n, d)), columns=names)
        formula = " + ".join(names) + " ~ 1"
        fit = dp.dp_mean(
            formula, frame, eps=eps, delta=delta, method="ptr", width=8.0, seed=1
        )  # fmt: skip
        return float(np.mean(fit.bse_privacy))

    def slope(values, errors):
        return float(np.polyfit(np.log(values), np.log(errors), 1)[0])

    rows = []
    for name, values, given, printed, of in (
        ("n", (4000, 16_000, 64_000), "n", "-1", None),
        ("eps", (0.25, 0.5, 1.0), "eps", "-2", None),
        ("log(1/delta)", (1e-4, 1e-8, 1e-16), "delta", "3/2", lambda v: math.log(1 / v)),
        ("d", (1, 4, 16), "d", "1/2", None),
    ):
        errors = [noise(**{given: v}) for v in values]
        at = [v if of is None else of(v) for v in values]
        rows.append({"power of": name, "by the argument of the notes": printed,
                     "measured, method=\"ptr\"": slope(at, errors)})  # fmt: skip
    text = (
        "c_2 = (sensitivity of the clipped mean, which is c_1 T/n up to a constant, T = "
        "log(1/delta)/eps) times the noise of the Gaussian mechanism, sqrt(log(1/delta))/eps: hence "
        "c_1 log(1/delta)^(3/2)/(n eps^2). Slopes of the noise on log scales, half of eps for the test, "
        "delta from 1e-4 to 1e-16; the exact calibration and the log(1/beta) of T make it flatter."
    )
    return text, [("", rows)]


PARTS = {"claim": (claim, 0), "radius": (radius, 0), "rate": (rate, 1)}

if __name__ == "__main__":
    main("lecture", PARTS)
