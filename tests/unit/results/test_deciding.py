"""P, the printed error, the bias and the interval of a row agree; what is untested has no P."""

import numpy as np
import pytest

from dpmodels.records import Estimate
from dpmodels.results import inference


def estimate(params, bias=None, untested=None, sd=1.0):
    p = len(params)
    V = sd**2 * np.eye(p) / 2.0
    return Estimate(
        tuple(f"x{j}" for j in range(p)), np.array(params, dtype=float), V, V,
        bias=None if bias is None else np.array(bias, dtype=float),
        untested=None if untested is None else np.array(untested),
    )  # fmt: skip


def test_without_a_bias_the_error_is_the_standard_error():
    est = estimate([2.0, -1.0], sd=0.5)
    assert inference.interval_errors(est) == pytest.approx([0.5, 0.5])
    assert inference.statistics(est) == pytest.approx([4.0, -2.0])
    assert inference.p_values(est)[1] == pytest.approx(0.0455, abs=1e-4)


def test_p_is_below_05_just_where_the_interval_excludes_zero():
    """On a grid of estimates and biases, to the last bit of either side."""
    for bias in (0.0, 0.1, 0.5, 1.0, 3.0, 20.0):
        x = np.linspace(0.01, 40.0, 400)
        est = estimate(x, np.full(400, bias))
        low, _ = inference.conf_int(est, 0.95)
        p, z = inference.p_values(est), inference.statistics(est)
        sure = np.abs(low) > 1e-6
        assert ((p < 0.05) == (low > 0))[sure].all()
        assert ((z > inference.quantile(0.95)) == (low > 0))[sure].all()
        tail = inference.p_values(estimate(z))  # 2 Phi(-|z|)
        assert (p >= tail - 1e-12).all() and (np.diff(p) <= 1e-12).all()


def test_a_large_bias_never_leaves_a_large_z_beside_p_of_one():
    est = estimate([25.0], [25.0])
    assert inference.p_values(est)[0] == pytest.approx(0.5, abs=0.01)
    assert inference.statistics(est)[0] < 1.96


def test_an_untested_coefficient_keeps_its_interval_and_has_no_z_and_p():
    est = estimate([5.0, 5.0], [0.1, 0.1], [True, False])
    z, p = inference.statistics(est), inference.p_values(est)
    assert np.isnan([z[0], p[0]]).all() and np.isfinite([z[1], p[1]]).all()
    low, high = inference.conf_int(est, 0.95)
    assert low[0] == low[1] and high[0] == high[1]
    frame = inference.errors(est)
    assert list(frame.columns) == ["error", "std_error", "sampling", "privacy", "bias_bound"]
    assert frame["std_error"].tolist() == pytest.approx([1.0, 1.0])
    assert (frame["error"] > frame["std_error"]).all()


def test_a_summary_says_n_d(quiet):
    import pandas as pd

    import dpmodels as dp

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, 3000), "b": rng.integers(0, 2, 3000)})
    call = dict(eps=1, delta=1e-6, event=1, bounds={"x": (-1, 1), "b": (0, 1)}, seed=1)
    fit = dp.dp_glm("b ~ x", frame, method="objpert", **call)
    text = str(fit.summary())
    assert "n/d" in text and "No z and P" in " ".join(text.split())
    assert fit.pvalues.isna().all() and np.isfinite(fit.conf_int().to_numpy()).all()
    again = type(fit).from_json(fit.to_json())
    assert again.pvalues.isna().all() and "n/d" in str(again.summary())
    fit = dp.dp_glm("b ~ x", frame, method="scoring", **call)
    assert "n/d" not in str(fit.summary()) and np.isfinite(fit.pvalues).all()
    shown = fit.errors()["error"].to_numpy()
    half = (fit.conf_int().to_numpy()[:, 1] - fit.params.to_numpy()) / inference.quantile(0.95)
    assert shown == pytest.approx(half)
    assert fit.tidy()["std_error"].to_numpy() == pytest.approx(fit.bse.to_numpy())


def test_a_widened_covariance_holds_every_combination():
    """200 combinations of 6 coefficients, biases of none to 20 errors: seed 5."""
    rng = np.random.default_rng(5)
    A = rng.normal(size=(6, 6))
    V = A @ A.T / 2.0
    for size in (0.0, 0.2, 1.0, 20.0):
        bias = size * np.sqrt(np.diag(2.0 * V)) * rng.uniform(0, 1, 6)
        est = Estimate(tuple("abcdef"), np.zeros(6), V, V, bias=bias)
        W = inference.widened(est)
        L = rng.normal(size=(200, 6)) * (rng.random((200, 6)) < 0.4)
        se = np.sqrt(np.einsum("ij,jk,ik->i", L, 2.0 * V, L))
        wanted = inference.half_width(se, np.abs(L) @ bias, 0.95)
        got = inference.quantile(0.95) * np.sqrt(np.einsum("ij,jk,ik->i", L, W, L))
        assert (got >= wanted * (1.0 - 1e-9)).all()
    assert inference.widened(Estimate(("a",), np.zeros(1), V[:1, :1], V[:1, :1])) == 2.0 * V[:1, :1]


def test_a_contrast_has_the_p_of_its_row_and_an_error_without_bias(quiet):
    import pandas as pd
    from scipy.stats import norm

    import dpmodels as dp

    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.uniform(-1, 1, (3000, 2)), columns=["x", "v"])
    frame["y"] = np.clip(frame["x"] + 0.3 * rng.standard_t(3, 3000), -5, 5)
    bounds = {"x": (-1, 1), "v": (-1, 1), "y": (-5, 5)}
    fit = dp.dp_ols("y ~ x + v", frame, eps=1, delta=1e-6, bounds=bounds, seed=1)
    found = fit.contrast({"x": 1}).summary_frame().iloc[0]
    assert found["std_error"] == pytest.approx(fit.bse["x"], rel=1e-9)
    assert abs(found["statistic"]) < abs(found["estimate"]) / found["std_error"]
    assert found["statistic"] == pytest.approx(fit.zvalues["x"], rel=1e-9)
    assert found["p_value"] == pytest.approx(2 * norm.sf(abs(found["statistic"])), rel=1e-9)
    half = (found["conf_high"] - found["conf_low"]) / 2
    error = fit.errors().loc["x", "error"]
    assert half == pytest.approx(inference.quantile(0.95) * error, rel=1e-9)


@pytest.mark.parametrize("free", [None, 3.0, 40.0])
def test_p_z_and_the_interval_of_a_row_agree_at_every_level(free):
    """2 000 random (estimate, errors, bias): the interval of level 1 - P ends at zero."""
    from scipy import stats

    rng = np.random.default_rng(11)
    sampling, privacy = np.exp(rng.normal(0.0, 2.0, (2, 2000)))
    total = np.hypot(sampling, privacy)
    bias = total * rng.choice([0.0, 0.01, 0.3, 1.0, 4.0, 30.0], 2000)
    params = (bias + total * rng.uniform(0.0, 6.0, 2000)) * rng.choice([-1.0, 1.0], 2000)
    est = Estimate(
        tuple(f"x{j}" for j in range(2000)), params, np.diag(sampling**2), np.diag(privacy**2),
        bias=bias, use_t=free,
    )  # fmt: skip
    z, p = inference.statistics(est), inference.p_values(est)
    reference = stats.norm if free is None else stats.t(free)
    assert p == pytest.approx(2.0 * reference.sf(np.abs(z)), rel=1e-9)
    assert (np.sign(z) == np.sign(params))[p < 1.0].all()
    for j in np.flatnonzero((p > 1e-9) & (p < 1 - 1e-9)):
        half = inference.half_width(total[j : j + 1], bias[j : j + 1], 1.0 - p[j], free)
        assert half[0] == pytest.approx(abs(params[j]), rel=1e-5), (j, p[j])
    for level in (0.5, 0.8, 0.95, 0.99, 0.999):
        low, high = inference.conf_int(est, level)
        clear = np.abs(p - (1.0 - level)) > 1e-9
        assert ((p < 1.0 - level) == ((low > 0.0) | (high < 0.0)))[clear].all()
        assert ((np.abs(z) > inference.quantile(level, free)) == (p < 1.0 - level))[clear].all()
    exact = bias == 0.0
    assert z[exact] == pytest.approx((params / total)[exact], rel=1e-12)


def test_statistics_of_far_estimates_are_numbers():
    est = estimate([1e3, 1e6, 5.0], [1.0, 1e3, 50.0])
    z = inference.statistics(est)
    assert np.isfinite(z).all() and z[0] == pytest.approx(999.0, rel=1e-3) and abs(z[2]) < 1e-3


@pytest.mark.parametrize("free", [None, 12.0])
def test_a_joint_test_and_its_p_value_say_the_same(free):
    """chi2 (or F) is the quantile of P; of one coefficient the test is that of its row."""
    from scipy import stats

    from dpmodels.after.inference import wald

    rng = np.random.default_rng(12)
    for k in (1, 2, 5):
        A = rng.normal(size=(k, k))
        V, bias = A @ A.T + np.eye(k), rng.uniform(0.1, 2.0, k)
        b = 3.0 * rng.normal(size=k)
        one = wald(np.eye(k), b, V, bias=bias, free=free)
        tail = stats.chi2.sf(one.adjusted, k) if free is None else (
            stats.f.sf(one.adjusted / k, k, free)
        )  # fmt: skip
        assert one.pvalue == pytest.approx(tail, rel=1e-6)
        assert one.adjusted < one.statistic
        if k == 1:
            est = Estimate(("x",), b, V / 2, V / 2, bias=bias, use_t=free)
            assert one.pvalue == pytest.approx(inference.p_values(est)[0], rel=1e-6)
            assert one.adjusted == pytest.approx(inference.statistics(est)[0] ** 2, rel=1e-5)
    far = wald(np.eye(2), np.array([300.0, 0.0]), np.eye(2), bias=np.array([1.0, 1.0]))
    assert 290.0**2 < far.adjusted < 300.0**2


def test_a_referee_can_check_a_row_by_hand(quiet):
    """The footnote's rule, from the printed numbers: P and both ends, within rounding."""
    import pandas as pd
    from scipy import optimize, stats

    import dpmodels as dp

    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.uniform(-1, 1, (4000, 2)), columns=["x", "v"])
    frame["y"] = np.clip(0.2 * frame["x"] + 0.3 * rng.standard_t(3, 4000), -5, 5)
    bounds = {"x": (-1, 1), "v": (-1, 1), "y": (-5, 5)}
    fit = dp.dp_ols("y ~ x + v", frame, eps=1, delta=1e-6, bounds=bounds, seed=1)
    table = fit.summary().table()
    heads = [c.label for c in table.columns if c.label]
    assert heads == [
        "Estimate", "Std. Error", "sampling", "privacy", "Bias <=", "2.5 %", "97.5 %", "P>|z|",
    ]  # fmt: skip
    assert any("estimate +- c SE" in line for line in table.legend)
    for row in table.rows:
        b, se, sampling, privacy, bias, low, high = (float(x) for x in row.cells[1:8])
        assert se == pytest.approx(np.hypot(sampling, privacy), rel=0.05)
        a = bias / se
        inside = lambda c, a=a: stats.norm.cdf(c - a) - stats.norm.cdf(-c - a) - 0.95  # noqa: E731
        c = optimize.brentq(inside, 1.0, 10.0 + a)
        assert (low, high) == pytest.approx((b - c * se, b + c * se), abs=0.1 * se)
        p = row.cells[8]
        if not p.startswith("<"):
            x = abs(b) / se
            tail = stats.norm.sf(x - a) + stats.norm.cdf(-x - a)
            assert float(p) == pytest.approx(tail, rel=0.25, abs=0.02)
    frame = fit.tidy()
    assert (frame["statistic"].abs() <= (frame["estimate"] / frame["std_error"]).abs()).all()


@pytest.mark.usefixtures("wide_pages")
def test_an_allowance_that_decides_alone_prints_n_d_with_its_reason(quiet):
    """A bound of five standard errors makes P near 1 whatever was found: the page says so."""
    from dataclasses import replace

    import pandas as pd

    import dpmodels as dp

    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (4000, 2))
    frame = pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "y": x[:, 0] + rng.normal(0, 0.3, 4000)})
    fit = dp.dp_ols("y ~ x + z", frame, eps=2, delta=1e-6, seed=1,
                    bounds={"x": (-1, 1), "z": (-1, 1), "y": (-3, 3)})  # fmt: skip
    est = fit._record.estimate
    se = inference.standard_errors(est)
    # x: far beyond its allowance; z: its allowance decides
    bias = np.array([0.0, 5.0, 5.0]) * se

    class Bound:
        parts = ()

        def of(self, rows):
            return np.abs(np.asarray(rows)) @ bias

    record = replace(fit._record, estimate=replace(est, bias=bias, bias_bound=Bound()))
    changed = type(fit)._of(record)
    assert inference.decided_by_bias(record.estimate).tolist() == [False, False, True]
    rows = {line.split()[0]: line for line in str(changed.summary()).splitlines() if line.strip()}
    assert "n/d" in rows["z"] and "n/d" not in rows["x"]
    assert "the allowance for bias, above three standard errors" in str(changed.summary())
    assert "three standard errors" not in str(fit.summary())
    assert np.isfinite(changed.pvalues["z"])  # the number stays in tables of numbers
    assert "n/d: the allowance" in str(changed.contrast({"z": 1.0}))


def test_the_first_figure_of_the_site_is_no_draw_that_its_allowance_decides(quiet):
    import runpy
    from pathlib import Path

    pytest.importorskip("matplotlib")
    import dpmodels as dp

    made = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "figures" / "make.py"))
    kept = []
    draw = dp.dp_ols
    made["dp"].dp_ols = lambda *a, **k: kept.append(draw(*a, **k)) or kept[-1]
    try:
        made["two_parts"]()
    finally:
        made["dp"].dp_ols = draw
    assert not inference.decided_by_bias(kept[0]._record.estimate).any()
