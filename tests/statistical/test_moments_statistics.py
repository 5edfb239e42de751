"""Coverage, bias and monotonicity of the moment methods. Slow ones are marked so."""

import itertools

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.statistical

BETA = np.array([1.0, 0.5, -0.4, 0.3, 0.2, -0.1])
NAMES = [f"x{j}" for j in range(5)]
FORMULA = "y ~ " + " + ".join(NAMES)
BOUNDS = {**dict.fromkeys(NAMES, (-5, 5)), "y": (-8, 10)}
ROOT = np.linalg.cholesky(0.5 * np.eye(5) + 0.5)


def draw(rng, n, errors="normal"):
    x = rng.normal(size=(n, 5)) @ ROOT.T
    e = rng.normal(size=n) if errors == "normal" else rng.standard_t(5, size=n) * np.sqrt(0.6)
    frame = pd.DataFrame(x, columns=NAMES)
    frame["y"] = BETA[0] + x @ BETA[1:] + e
    return frame


def uneven(rng, n):
    """Errors of mean variance 1 whose sd is proportional to exp(.8 x0)."""
    x = rng.normal(size=(n, 5)) @ ROOT.T
    frame = pd.DataFrame(x, columns=NAMES)
    e = np.exp(0.8 * x[:, 0] - 0.64) * rng.normal(size=n)
    return frame.assign(y=BETA[0] + x @ BETA[1:] + e)


def coverage(method, n, reps, seed, *, m=100, errors="normal", eps=1.0, **options):
    """Share of 95 % intervals that cover, over replications and coefficients."""
    hits = []
    for r in range(reps):
        rng = np.random.default_rng([seed, r])
        frame = draw(rng, n, errors)
        public = draw(rng, m, errors) if method == "pmt" else None
        fit = dp.dp_ols(
            FORMULA, frame, eps=eps, delta=1e-6, method=method, public=public, seed=r, **options
        )
        if fit.released and fit.bse.notna().all():
            ci = fit.conf_int().to_numpy()
            hits.append((ci[:, 0] <= BETA) & (ci[:, 1] >= BETA))
    assert len(hits) > 0.9 * reps
    return float(np.mean(hits))


CELLS = [
    ("ssp", 2000, {"bounds": BOUNDS}),
    ("ssp", 10_000, {"bounds": BOUNDS}),
    ("ssp", 10_000, {}),
    ("pmt", 2000, {}),
    ("pmt", 10_000, {}),
    ("pmt", 10_000, {"m": 20}),
]


@pytest.mark.parametrize(("method", "n", "options"), CELLS)
def test_coverage_in_a_few_replications(quiet, method, n, options):
    """25 replications, seed 11. A true coverage of .94 leaves [.86, 1] once in about 1e4 runs."""
    assert 0.86 <= coverage(method, n, 25, 11, **options) <= 1.0


SLOW = [
    ("ssp", 10_000, {"bounds": BOUNDS}, 200),
    ("ssp", 50_000, {"bounds": BOUNDS}, 120),
    ("ssp", 10_000, {}, 200),
    ("ssp", 10_000, {"errors": "t5"}, 200),
    ("pmt", 2000, {}, 200),
    ("pmt", 10_000, {}, 200),
    ("pmt", 10_000, {"m": 20}, 200),
    ("pmt", 10_000, {"m": 10}, 200),
    ("pmt", 50_000, {"m": 20}, 120),
    ("pmt", 10_000, {"errors": "t5"}, 200),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "n", "options", "reps"), SLOW)
def test_coverage(quiet, method, n, options, reps):
    """Seed 5. With 200 (120) replications of six correlated intervals, about .01 of sd.

    The ending by moments, whose intervals allow for no bias.
    """
    assert 0.92 <= coverage(method, n, reps, 5, scoring=False, **options) <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize(("method", "n", "options", "reps"), SLOW[:3] + SLOW[4:6])
def test_coverage_of_bias_aware_intervals(quiet, method, n, options, reps):
    """Seed 5, sd about .01. Where the model holds the allowance is not needed: they over-cover
    (.97 to 1.00 here; all of them at n = 2000, where noise rules).
    """
    assert coverage(method, n, reps, 5, **options) >= 0.94


@pytest.mark.slow
def test_coverage_where_the_first_stage_is_a_poor_centre(quiet):
    """Two columns correlated at .91, eps .4: row weights pull towards the first-stage fit.

    A ball of radius 2, which weighs down most rows. 150 replications, seed 8: sd .013, so a true .95
    falls below .90 once in 1e4 runs. Without the allowance it is about .5. (At the default radius,
    3.6 here, the allowance no longer decides: .94 without it.)
    """
    beta = np.array([0.0, -0.1, -0.5])
    hits = []
    for r in range(150):
        rng = np.random.default_rng([8, r])
        x = 0.3 * rng.normal(size=(40_000, 2)) + 0.95 * rng.normal(size=(40_000, 1))
        frame = pd.DataFrame(x, columns=["x0", "x1"])
        frame["y"] = x @ beta[1:] + rng.normal(size=len(x))
        bounds = {"x0": (-5, 5), "x1": (-5, 5), "y": (-6, 6)}
        fit = dp.dp_ols(
            "y ~ x0 + x1", frame, eps=0.4, delta=1e-6, bounds=bounds, seed=r, scoring=False,
            stages=2, radius=2.0,
        )  # fmt: skip
        ci = fit.conf_int().to_numpy()
        hits.append((ci[:, 0] <= beta) & (ci[:, 1] >= beta))
    assert np.mean(hits, axis=0)[1:].mean() > 0.90


@pytest.mark.slow
def test_coverage_where_noise_dominates_a_direction(quiet):
    """A level of five rows and a range 200 times the spread: others keep their intervals.

    100 replications, seed 12. Intervals there are wide rather than narrow (true coverage .97 or
    more, correlated within a fit): below .92 less than once in 1e3 runs.
    """
    rng = np.random.default_rng(12)
    n, beta = 20_000, np.array([0.5, 1.0, 0.2, 1.0])
    schema = dp.Schema(
        a=dp.Real(-4, 4), b=dp.Real(-400, 400), g=dp.Levels(["x", "y", "z"]), y=dp.Real(-8, 8)
    )
    hits, given, marked, rare = [], [], [], []
    for r in range(100):
        g = np.where(np.arange(n) < 5, "z", rng.choice(["x", "y"], n))
        frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n) * 2, "g": g})
        frame["y"] = 0.5 + frame["a"] + 0.2 * frame["b"] + (g == "y") + rng.normal(size=n)
        fit = dp.dp_ols("y ~ a + b + g", frame, eps=1, delta=1e-6, schema=schema, seed=r)
        ci = fit.conf_int().to_numpy()[:4]
        inside = (ci[:, 0] <= beta) & (ci[:, 1] >= beta)
        known = ~np.isnan(ci[:, 0])
        hits.extend(inside[known])
        given.append(known)
        low, high = fit.conf_int().loc["g[T.z]"]  # that of the five rows is 0
        marked.append(any("too noisy" in note and "g[T.z]" in note for note in fit.notes))
        rare.append(low <= 0.0 <= high)
        assert not marked[-1] or np.isnan(fit.pvalues["g[T.z]"])
        assert marked[-1] or abs(fit.params["g[T.z]"]) < 4 * fit.bse["g[T.z]"]
    assert np.mean(marked) > 0.9 and np.mean(rare) > 0.87
    given = np.mean(given, axis=0)
    assert given[[0, 1, 3]].min() > 0.95
    assert np.mean(hits) > 0.92


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ssp", "pmt"])
def test_coverage_under_unequal_variances(quiet, method):
    """200 replications at eps = 8, seed 8: the sandwich's errors cover where one variance does not.

    Measured on other seeds: 1.96 errors around the estimate cover .905 to .943 (sd .012), those of
    x0 .88 to .94, and .74 to .78 with one variance: 20 to 32 fits of 200 more (sd 5). The bias-aware
    interval covers .99: scores of such errors have long tails. A bound fails once in about 1000.
    """
    bounds = {**dict.fromkeys(NAMES, (-5, 5)), "y": (-15, 17)}
    covers, near, errors = [], {"iid": [], "hetero": []}, {"iid": [], "hetero": []}
    for r in range(200):
        rng = np.random.default_rng([8, method == "pmt", r])
        frame = uneven(rng, 10_000)
        where = {"public": uneven(rng, 100)} if method == "pmt" else {"bounds": bounds}
        for kind, found in near.items():
            fit = dp.dp_ols(
                FORMULA, frame, eps=8, delta=1e-6, method=method, vcov=kind, seed=r, **where
            )
            found.append(np.abs(fit.params - BETA) <= 1.96 * fit.bse)
            errors[kind].append(fit.bse.to_numpy())
            if kind == "hetero":
                ci = fit.conf_int().to_numpy()
                covers.append((ci[:, 0] <= BETA) & (ci[:, 1] >= BETA))
    iid, robust = np.array(near["iid"]), np.array(near["hetero"])
    assert np.mean(covers) >= 0.95
    assert robust.mean() >= 0.86
    assert robust[:, 1].sum() - iid[:, 1].sum() >= 8
    ratio = np.mean(errors["hetero"], axis=0) / np.mean(errors["iid"], axis=0)
    # Without privacy 1.575, and 1 for the others. Measured 1.62 to 1.66, and 1.41 to 1.43: one
    # variance is of residuals whose tail is trimmed (1.10), and what the clip of the meat cut off
    # is given to every direction alike, since any may hold it (1.28): too wide, never too narrow.
    assert 1.3 < ratio[1] < 1.8, ratio
    assert (ratio[2:] < 1.6).all(), ratio


@pytest.mark.parametrize("method", ["ssp", "pmt", "adassp"])
def test_error_does_not_rise_with_eps(quiet, method):
    """Medians of 15 replications at five eps, seed 3; a rise of 25 % would fail."""
    medians = []
    for eps in (0.3, 0.6, 1.2, 2.5, 5.0):
        errors = []
        for r in range(15):
            rng = np.random.default_rng([3, r])
            frame = draw(rng, 4000)
            public = draw(rng, 60) if method == "pmt" else None
            bounds = None if method == "pmt" else BOUNDS
            fit = dp.dp_ols(
                FORMULA, frame, eps=eps, delta=1e-6, method=method, public=public, bounds=bounds,
                seed=100 + r,
            )  # fmt: skip
            errors.append(float(np.linalg.norm(fit.params - BETA)))
        medians.append(np.median(errors))
    assert all(b <= 1.25 * a for a, b in itertools.pairwise(medians)), medians


@pytest.mark.parametrize(("sd", "factor"), [(1.0, 2.0), (0.05, 30.0)])
def test_far_below_the_published_method(quiet, sd, factor):
    """The PMT paper's design at rho = 2, n = 3000; 8 replications, seed 1: a wide margin."""
    published, ours = [], []
    names = [f"x{j}" for j in range(10)]
    formula = "y ~ " + " + ".join(names) + " - 1"

    def sample(rng, n, beta, mean, root):
        x = mean + rng.normal(size=(n, 10)) @ root
        return pd.DataFrame(x, columns=names).assign(y=x @ beta + sd * rng.normal(size=n))

    for r in range(8):
        rng = np.random.default_rng([1, r])
        beta = rng.normal(size=10)
        Q, _ = np.linalg.qr(rng.normal(size=(10, 10)))
        root = (Q * np.sqrt(np.linspace(0.17, 1.83, 10))) @ Q.T
        mean = rng.normal(size=10)
        mean *= 4.0 / np.linalg.norm(mean)
        public = sample(rng, 20, beta, mean, root)
        private = sample(rng, 3000, beta, mean, root)
        call = dict(eps=16.861, delta=1e-6, public=public, seed=r)
        published.append(
            np.linalg.norm(dp.dp_ols(formula, private, method="pmt_paper", **call).params - beta)
        )
        ours.append(np.linalg.norm(dp.dp_ols(formula, private, method="pmt", **call).params - beta))
    assert np.mean(ours) * factor < np.mean(published)


def test_default_beats_one_tight_release_and_adassp(quiet):
    """Excess over least squares, 6 replications, seed 2: a tenth is typical, 1 is asked."""
    frame = draw(np.random.default_rng(2), 8000)
    X = np.column_stack([np.ones(8000), frame[NAMES]])
    b = np.linalg.lstsq(X, frame["y"], rcond=None)[0]

    def excess(**options):
        found = []
        for r in range(6):
            fit = dp.dp_ols(FORMULA, frame, eps=1, delta=1e-6, bounds=BOUNDS, seed=r, **options)
            found.append(np.mean((X @ (fit.params.to_numpy() - b)) ** 2))
        return np.mean(found)

    default = excess()
    assert default < excess(method="ssp", stages=1, query="bounded")
    assert default < excess(method="adassp")
