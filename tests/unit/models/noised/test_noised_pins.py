"""Fits and layouts of noised tables on numbers whose answer is known exactly."""

import itertools
import math

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.formula.build import build_design
from dpmodels.models.noised.calibration import plan_noise
from dpmodels.models.noised.fit import sandwich
from dpmodels.models.noised.losses import Poisson
from dpmodels.models.noised.model import Model
from dpmodels.models.noised.objective import objective_of
from dpmodels.models.noised.solve import fit_linear, fit_linear_one_draw, split_errors
from dpmodels.own.noised import layout_of
from dpmodels.privacy.mechanisms import mu_gdp

# -- attributes of a + a:b -----------------------------------------------------------------------

TWO = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-1, 1))


def product_layout():
    return layout_of(build_design("~ a + a:b", TWO, na="impute-midpoint", one_sided_ok=True))


def test_an_attribute_has_the_reach_of_all_its_columns():
    """Against every pair of corner records: a moves both columns, b the product alone."""
    layout = product_layout()
    assert layout.names == ("a", "a:b")
    corners = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=2)))
    cells = np.column_stack([corners[:, 0], corners[:, 0] * corners[:, 1]]) / 2.0
    found = {}
    for name, other in (("a", 1), ("b", 0)):
        moved = [
            cells[i] - cells[j]
            for i, j in itertools.product(range(len(corners)), repeat=2)
            if corners[i, other] == corners[j, other]
        ]
        found[name] = (
            max(float(np.linalg.norm(m)) for m in moved),
            max(float(np.abs(m).sum()) for m in moved),
        )
        assert layout.attribute(name) == pytest.approx(found[name])
    assert found == {"a": (math.sqrt(2), 2.0), "b": (1.0, 1.0)}
    pairs = [layout.attribute(v) for v in layout.variables]
    assert (max(p[0] for p in pairs), max(p[1] for p in pairs)) == pytest.approx((math.sqrt(2), 2.0))
    assert layout.record == pytest.approx((math.sqrt(2), 2.0))


def test_the_noise_of_every_column_pays_for_its_worst_attribute():
    """sum over an attribute's columns of sqrt2 / sd = eps at most, and eps is reached."""
    layout = product_layout()
    assert layout.laplace_weights() == (2.0, 2.0)
    laplace = plan_noise(layout, 1.5, 0.0, unit="attribute", noise="laplace")
    for name, cost in (("a", 1.5), ("b", 0.75)):
        columns = [j for g in layout.groups if name in g.variables for j in g.columns]
        assert sum(math.sqrt(2.0) / laplace.sd[j] for j in columns) == pytest.approx(cost)
    assert laplace.record_pair == pytest.approx((1.5, 0.0))
    gauss = plan_noise(layout, 1.5, 1e-5, unit="attribute", noise="gaussian")
    assert gauss.sd == pytest.approx([math.sqrt(2.0) / mu_gdp(1.5, 1e-5)] * 2)
    sl = plan_noise(layout, 1.5, 1e-3, unit="attribute", noise="sl")
    assert sl.sensitivities == pytest.approx([math.sqrt(2.0)])
    assert sl.sd == pytest.approx([math.sqrt(2.0) / sl.c[0]] * 2)


def test_columns_of_different_attributes_have_weights_of_their_own():
    facts = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-1, 1), c=dp.Real(0, 1))
    layout = layout_of(
        build_design("~ a + a:b + c", facts, na="impute-midpoint", one_sided_ok=True)
    )
    assert dict(zip(layout.names, layout.laplace_weights(), strict=True)) == {
        "a": 2.0, "c": 1.0, "a:b": 2.0,
    }  # fmt: skip


# -- least squares whose noise has exactly its expected moments -----------------------------------

P_CLEAR, THETA, SIGMA2 = 0.3, np.array([0.5, -1.2]), 0.49
D = np.array([[0.20, 0.05], [0.05, 0.10]])
K_XY, K_YY = np.array([0.03, -0.02]), 0.15


def orthogonal(n, k, seed=0):
    """k columns, exactly orthogonal to each other, of mean square 1."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, k)))[0] * math.sqrt(n)


def exact_release(n=400):
    """x0, error and noise are exactly uncorrelated; the noise has exactly (1 - p) K."""
    base = orthogonal(n, 6)
    X0 = base[:, :2] @ np.array([[1.0, 0.4], [0.0, 0.8]])
    K = np.block([[D, K_XY[:, None]], [K_XY[None], np.array([[K_YY]])]])
    noise = base[:, 3:] @ np.linalg.cholesky((1 - P_CLEAR) * K).T
    y0 = X0 @ THETA + math.sqrt(SIGMA2) * base[:, 2]
    model = Model(X0 + noise[:, :2], y0 + noise[:, 2], K[None], P_CLEAR, "sl", ("a", "b"))
    return X0, model


def test_least_squares_of_exact_noise_is_exact():
    X0, model = exact_release()
    fit = fit_linear(model)
    assert fit.theta == pytest.approx(THETA, rel=1e-10)
    np.testing.assert_allclose(fit.M, X0.T @ X0 / model.n, rtol=1e-10)
    assert fit.sigma2 == pytest.approx(SIGMA2, rel=1e-10)


def test_scores_of_least_squares_hold_the_correction():
    """psi has mean 0 at theta with its correction and not without; the sandwich is of that psi."""
    X0, model = exact_release()
    fit, n = fit_linear(model), model.n
    u = model.y - model.X @ THETA
    correction = (1 - P_CLEAR) * (D @ THETA - K_XY)
    psi = model.X * u[:, None] + correction
    assert psi.mean(axis=0) == pytest.approx([0.0, 0.0], abs=1e-10)
    assert np.abs((psi - correction).mean(axis=0)).max() > 0.05
    bread = np.linalg.inv(X0.T @ X0 / n)
    assert fit.cov == pytest.approx(bread @ (psi.T @ psi / n) @ bread / n, rel=1e-9)
    weighted = fit_linear(
        Model(model.X, model.y, model.K, P_CLEAR, "sl", model.names, np.full(n, 3.0))
    )
    assert weighted.theta == pytest.approx(THETA, rel=1e-10)
    # weights sum to 3n: each score is 3 psi, so 9 A / (3n) / (3n)
    assert weighted.cov == pytest.approx(fit.cov, rel=1e-9)
    assert weighted.sigma2 == pytest.approx(SIGMA2, rel=1e-10)


def test_without_noise_the_one_draw_form_is_least_squares():
    """Two equal draws: 1/p + (1 - 1/p) = 1, so HC0 of the rows themselves."""
    _, model = exact_release()
    clean = Model(model.X, model.y, 0.0 * model.K, P_CLEAR, "sl", model.names)
    one, plain = fit_linear_one_draw(clean, clean), fit_linear(clean)
    assert one.theta == pytest.approx(plain.theta, rel=1e-10)
    assert one.cov == pytest.approx(plain.cov, rel=1e-8)
    assert one.sigma2 == pytest.approx(plain.sigma2, rel=1e-8)


def test_the_sampling_part_is_what_the_clean_rows_would_have():
    """sigma^2 M^-1 / n, and the privacy part is all that is left of the sandwich."""
    from types import SimpleNamespace

    from dpmodels.models.noised import solve as fitting

    X0, model = exact_release()
    fit = fit_linear(model)
    request = SimpleNamespace(inference=True, method=SimpleNamespace(name="drcl"))
    found = fitting._linear_estimate(request, model, fit, [])
    clean = SIGMA2 * np.linalg.inv(X0.T @ X0)
    assert found.vcov_sampling == pytest.approx(clean, rel=1e-6)
    assert found.vcov_privacy == pytest.approx(fit.cov - clean, rel=1e-6)
    assert np.linalg.eigvalsh(fit.cov - clean)[0] > 0
    assert found.stats["sigma"] == pytest.approx(math.sqrt(SIGMA2))
    spread = float(model.y.var()) - (1 - P_CLEAR) * K_YY
    assert found.stats["rsquared"] == pytest.approx(1 - SIGMA2 / spread)


def test_parts_add_up_and_neither_is_negative():
    """Where the clean variance exceeds the total in a direction, it is cut to the total there."""
    total = np.diag([2.0, 3.0])
    part, rest = split_errors(total, np.diag([0.5, 3.5]))
    assert part == pytest.approx(np.diag([0.5, 3.0]))
    assert rest == pytest.approx(np.diag([1.5, 0.0]), abs=1e-12)
    turned = np.array([[1.0, 0.4], [-0.4, 1.0]])
    part, rest = split_errors(turned @ total @ turned.T, turned @ np.diag([0.5, 3.5]) @ turned.T)
    assert part == pytest.approx(turned @ np.diag([0.5, 3.0]) @ turned.T)
    for nothing in (None, np.full((2, 2), math.nan)):
        whole, none = split_errors(total, nothing)
        assert (whole == total).all() and not none.any()


# -- scores of other losses ----------------------------------------------------------------------


def poisson_objective(n=60):
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, 2))])
    K = np.zeros((1, 4, 4))
    K[0, 1:3, 1:3] = [[0.3, 0.1], [0.1, 0.2]]
    model = Model(X, rng.poisson(1.5, n) * 1.0, K, 0.2, "sl", ("i", "a", "b"))
    return model, objective_of(Poisson(), model, "drcl")


def test_scores_are_the_gradients_of_single_rows():
    """psi_i is what one row adds to the gradient, the derivative through q included."""
    model, objective = poisson_objective()
    theta = np.array([0.2, 0.5, -0.7])
    psi = []
    for i in range(model.n):
        one = Model(model.X[[i]], model.y[[i]], model.K, 0.2, "sl", model.names)
        own = objective_of(Poisson(), one, "drcl")
        steps = np.eye(3) * 1e-6
        psi.append([(own.value(theta + h) - own.value(theta - h)) / 2e-6 for h in steps])
    psi = np.array(psi)
    assert objective.gradient(theta)[1] == pytest.approx(psi.mean(axis=0), abs=1e-7)
    assert objective.score_moment(theta) == pytest.approx(psi.T @ psi / model.n, rel=1e-6)
    V = objective.hessian(theta)[2]
    _, cov = sandwich(objective, theta, np.ones(3))
    assert np.linalg.eigvalsh(V)[0] > 0
    bread = np.linalg.inv(V)
    assert cov == pytest.approx(bread @ (psi.T @ psi) @ bread / model.n**2, rel=1e-5)


def test_the_correction_takes_off_what_the_noise_adds():
    """E C(x + z) = l(x) for ZIL noise z: with l = exp(eta), E exp(phi'z) = p + (1-p)/(1 - q/2)."""
    p, q, eta, y = 0.2, 0.6, np.array([0.3, -1.0]), np.array([2.0, 0.0])
    loss = Poisson()
    shown = loss.corrected(y, eta, np.array([q]), p, 1.0, 0.0, False)
    mean = p + (1 - p) / (1 - q / 2)
    clean = loss.plain(y, eta, 0.0, False)
    # the linear part - y eta has no second derivative, so it is not corrected
    assert (shown.c + y * eta) * mean == pytest.approx(clean.c + y * eta, rel=1e-10)
    assert (shown.e + y) * mean == pytest.approx(clean.e + y, rel=1e-10)
