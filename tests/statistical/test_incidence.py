"""Coverage of cumulative incidences, of their test and of adjusted curves, noise and all. Slow.

Two causes with constant hazards, censored uniformly; cohorts of one seed each.
"""

import functools
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.slow
N, RUNS, TIMES = 6000, 200, [2.0, 4.0, 8.0, 12.0]
RATES = {"a": (0.10, 0.05), "b": (0.05, 0.06)}
SCHEMA = dp.Schema(
    t=dp.Real(0, 12), c=dp.Levels(["none", "one", "two"]), arm=dp.Levels(["a", "b"]), sex=dp.Binary(),
    dead=dp.Binary(), x=dp.Real(-1, 1),
)  # fmt: skip


def competing(rng, n):
    arm = rng.choice(["a", "b"], n)
    rates = np.array([RATES[g] for g in arm])
    one, two = rng.exponential(1 / rates[:, 0]), rng.exponential(1 / rates[:, 1])
    leaves = rng.uniform(3, 20, n)
    t = np.minimum(np.minimum(one, two), leaves)
    c = np.where(t == one, "one", np.where(t == two, "two", "none"))
    return pd.DataFrame({"t": t, "c": c, "arm": arm})


@functools.cache
def covered(eps, conf_type="log-log"):
    """Whether intervals cover, (runs, arms, causes, times), and how often the test rejects."""
    out, p = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(RUNS):
            table = competing(np.random.default_rng(seed), N)
            fit = dp.dp_survfit("Surv(t, c) ~ arm", table, cause="all", schema=SCHEMA, eps=eps, delta=1e-6,
                                conf_type=conf_type, seed=seed)  # fmt: skip
            found, inside = fit.at(TIMES), []
            for g, (one, two) in RATES.items():
                for name, rate in (("one", one), ("two", two)):
                    F = rate / (one + two) * -np.expm1(-(one + two) * np.array(TIMES))
                    own = found[found["strata"] == f"arm={g}, c={name}"]
                    inside.append((own.conf_low <= F) & (own.conf_high >= F))
            out.append(np.array(inside).reshape(2, 2, len(TIMES)))
            even = table.assign(arm=np.random.default_rng(seed + 10**6).choice(["a", "b"], N))
            test = dp.dp_survdiff(
                "Surv(t, c) ~ arm", even, cause="one", schema=SCHEMA, eps=eps, delta=1e-6, seed=seed
            )
            p.append(test.pvalue)
    return np.array(out), np.array(p)


@pytest.mark.parametrize("eps", [0.5, 1.0, 8.0])
def test_intervals_of_incidence_cover(eps):
    """Seeds are fixed. Were coverage .95: one of 16 below .90 with probability below .02.

    The mean of 16 that go together has an sd of at most .0154: .92 is 1.95 of them below, and less
    than .03 of all seeds fail.
    """
    rate = covered(eps)[0].mean(axis=0)
    assert rate.min() >= 0.90 and rate.mean() >= 0.92, rate


def test_the_test_of_a_cause_keeps_its_level():
    """Seeds are fixed; 200 tests at .05: more than .09 with probability .008."""
    assert np.mean(covered(1.0)[1] < 0.05) <= 0.09


def hazards(rng, n):
    arm, sex, x = rng.choice(["a", "b"], n), rng.integers(0, 2, n), rng.uniform(-1, 1, n)
    rate = 0.08 * np.exp(0.6 * (arm == "b") - 0.4 * sex + 0.5 * x)
    dies, leaves = rng.exponential(1 / rate), rng.uniform(2, 14, n)
    return pd.DataFrame({"t": np.minimum(dies, leaves), "dead": (dies <= leaves) * 1, "arm": arm, "sex": sex,
                         "x": x})  # fmt: skip


def survival(rows, level, terms):
    eta = 0.6 * (level == "b") + sum(b * rows[name].to_numpy() for name, b in terms.items())
    return np.exp(-0.08 * np.exp(eta)[:, None] * np.array(TIMES[:3])).mean(axis=0)


def test_adjusted_curves_cover():
    """Over public rows and over released cells, 100 cohorts of 10 000 at eps = 1; seeds are fixed.

    Were coverage .95: the mean of twelve that go together has an sd of at most .022, and .92 is 1.4
    of them below; less than .09 of all seeds fail.
    """
    public = hazards(np.random.default_rng(10**6), 60)
    everybody = pd.DataFrame({"sex": [0, 1]})
    by_rows, by_cells, gaps, joint = [], [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(100):
            table = hazards(np.random.default_rng(seed), 10_000)
            how = {"schema": SCHEMA, "eps": 1.0, "delta": 1e-6, "seed": seed}
            fit = dp.dp_coxph("Surv(t, dead) ~ arm + sex + x", table, **how)
            truth = np.array([survival(public, g, {"sex": -0.4, "x": 0.5}) for g in "ab"])
            found = fit.adjusted_curves("arm", over=public, times=TIMES[:3])
            by_rows.append(holds(found, truth))
            rows, gap = found.pairs().tidy(), truth[0] - truth[1]
            gaps.append((rows.conf_low <= gap) & (gap <= rows.conf_high))
            band = fit.adjusted_curves("arm", over=public, times=TIMES[:3], joint=True)
            joint.append(holds(band, truth).all())
            even = table.assign(x=0.0)  # survival does not depend on x: a model of sex is right
            even["t"], even["dead"] = _without_x(np.random.default_rng(seed + 500), even)
            few = dp.dp_coxph("Surv(t, dead) ~ arm + sex", even, **how)
            cells = dp.dp_table("~ sex", even, **how)
            truth = np.array([survival(everybody, g, {"sex": -0.4}) for g in "ab"])
            found = few.adjusted_curves("arm", over=cells, times=TIMES[:3])
            by_cells.append(holds(found, truth))
    rates = [float(np.mean(v)) for v in (by_rows, by_cells, gaps, joint)]
    assert min(rates) >= 0.92, rates


def holds(curves, truth):
    rows = curves.tidy()
    return (rows["conf_low"] <= truth.ravel()) & (truth.ravel() <= rows["conf_high"])


def _without_x(rng, rows):
    rate = 0.08 * np.exp(0.6 * (rows["arm"] == "b") - 0.4 * rows["sex"])
    dies, leaves = rng.exponential(1 / rate), rng.uniform(2, 14, len(rows))
    return np.minimum(dies, leaves), (dies <= leaves) * 1
