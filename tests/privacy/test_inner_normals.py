"""Normals that a mechanism uses inside: the law of what it returns is the one that is proved.

The replay of neighbours cannot see them (they are no draw beside a value). Here they are set: a
release is run with every unit vector in their place, so that the root of the covariance is read
off the outputs and compared with the matrix of the proof, computed from the rows by plain numpy.
"""

import dataclasses
import math

import numpy as np
import pytest

from dpmodels.errors import PrivacyBugError
from dpmodels.own.minimum import LogisticLoss, PoissonLoss, WorkingRows
from dpmodels.own.tilted import COEF_STEP, INEXACT_STEP
from dpmodels.quiet import quiet
from dpmodels.sources.rows import Rows
from dpmodels.sources.tables import DictSource
from dpmodels.sums.ask import Ask
from tests.privacy.test_replay import COUNTS, EVENT, Case, tables
from tests.replaying import ReplayRun


class SetNormals(ReplayRun):
    """A run whose inner normals are given; all other draws are those of the first run."""

    normals = None

    def inner_normals(self, name, size):
        super().inner_normals(name, size)
        return np.zeros(size) if self.normals is None else self.normals[:size].copy()


def released(case, data, first=None, normals=None):
    plan = case.plan()
    run = SetNormals(plan.steps, 0, first)
    run.normals = normals
    rows = Rows(DictSource(data), len(next(iter(data.values()))), public_n=plan.n is not None)
    with quiet(), np.errstate(all="ignore"):
        out = plan.backend.release(plan, Ask(rows, run, plan.request.relation))
    return plan, out, run.drawn


def covariance(case, data, name, size):
    """Return (plan, release without normals, covariance of the named value)."""
    plan, centre, drawn = released(case, data)
    at = np.ravel(centre.values[name])[:size]
    large = 2.0**12  # the map is linear in the normals, and rounded on a grid
    columns = []
    for unit in np.eye(size):
        _, moved, _ = released(case, data, drawn, large * unit)
        columns.append((np.ravel(moved.values[name])[:size] - at) / large)
    root = np.array(columns).T
    return plan, centre, root @ root.T


def design_rows(plan, data):
    """Return the filled rows (q, n) of the design."""
    rows = Rows(DictSource(data), len(next(iter(data.values()))), public_n=False)
    return np.hstack([b.copy() for b in rows.blocks(plan.design)])


def plain_rows(case, seed=0):
    """A table without wild cells, one regressor shorter than the others."""
    rng = np.random.default_rng(seed)
    plan = case.plan()
    data, _ = tables(case, plan)
    for name, cells in data.items():
        if cells.dtype == float and name != "y":
            data[name] = cells * rng.uniform(0.2, 0.9, len(cells))
    return data


def unit_moments(plan, data, radius):
    """Return (X'X, p) of rows in unit half-ranges, scaled into the ball, by plain numpy."""
    rows = design_rows(plan, data)
    lo, hi = plan.design.intervals().T
    X = []
    for row in rows.T:
        x = [
            1.0 if c.kind == "intercept" else (2 * v - a - b) / (b - a)
            for c, v, a, b in zip(plan.design.columns, row, lo, hi, strict=False)
        ]
        size = math.sqrt(sum(v * v for v in x))
        X.append(np.array(x) * min(1.0, radius / size))
    X = np.array(X)
    return X.T @ X


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_hessian_shaped_noise_of_logistic_fits(relation):
    """N(theta*, (gamma (H + lam I))^-1), H at theta*: with alpha in place of lam nothing is proved."""
    case = Case(
        "dp_glm", "gptr", schema=EVENT, n=3000, eps=4.0, shape="hessian", relation=relation
    )
    data = plain_rows(case)
    plan, centre, found = covariance(case, data, "theta", 3)
    detail, theta = plan.detail, centre.values["theta"]
    X, _, w = detail.working.apply(design_rows(plan, data))
    a = 1.0 / (1.0 + np.exp(-(theta @ X)))
    A = (X * (w * a * (1.0 - a))) @ X.T + detail.lam * np.eye(3)
    assert float(centre.values["alpha"]) > detail.lam * 1.002  # the two can be told apart
    assert found == pytest.approx(np.linalg.inv(A) / centre.detail[-1], rel=1e-4, abs=1e-12)


def test_posterior_draws_have_the_covariance_of_their_proof():
    """ops: (gamma (X'X + lam I))^-1, by public numbers alone."""
    case = Case("dp_ols", "ops", n=40)
    data = plain_rows(case)
    plan, done, found = covariance(case, data, "draws", 3)
    detail = plan.detail
    A = unit_moments(plan, data, detail.B) + detail.lam * np.eye(3)
    assert found == pytest.approx(np.linalg.inv(A) / done.detail.gamma, rel=1e-4)


@pytest.mark.parametrize("method", ["adaops", "gptr"])
def test_draws_after_two_bounds_have_the_covariance_of_their_proof(method):
    alone = {"scoring": False} if method == "gptr" else {}
    case = Case("dp_ols", method, n=40, eps=60.0, table="short", **alone)
    data = plain_rows(case)
    plan, centre, found = covariance(case, data, "draws", 3)
    done = centre.detail
    A = unit_moments(plan, data, plan.detail.B) + done.lam * np.eye(3)
    inverse = np.linalg.inv(A)
    expected = (
        inverse / done.gamma if math.isnan(done.sigma) else done.sigma**2 * inverse @ inverse
    )
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("schema, family", [(EVENT, "binomial"), (COUNTS, "poisson")])
def test_the_tilt_of_objective_perturbation_is_sigma_times_normals(schema, family, relation):
    """At the optimum the gradient of the rows is ``-(lam theta + sigma b)``, within the tolerance."""
    case = Case("dp_glm", "objpert", schema=schema, family=family, relation=relation)
    data = plain_rows(case)
    normals = np.array([3.0, -2.0, 1.0])
    plan, out, drawn = released(case, data, None, normals)
    detail = plan.detail
    # the optimum, before the noise that pays for its being inexact
    theta = np.asarray(drawn[INEXACT_STEP].value, dtype=float) * drawn[INEXACT_STEP].unit
    thins, top = not detail.loss.one_sided, None if detail.loss.one_sided else 6.0
    working = WorkingRows(
        *out.detail, detail.radius, detail.reach, top, thins
    )
    X, y, w = working.apply(design_rows(plan, data))
    eta = theta @ X
    if detail.loss.one_sided:
        slope = 1.0 / (1.0 + np.exp(-eta)) - y
    else:
        slope = np.exp(np.minimum(eta, math.log(detail.loss.cap))) - y
    left = X @ (w * slope) + detail.lam * theta + detail.sigma * normals
    assert np.linalg.norm(left) <= detail.tol
    assert np.linalg.norm(detail.sigma * normals) > 1e3 * detail.tol
    # its noise is that of the distance between two minima, each this near to its own
    assert drawn[INEXACT_STEP].unit * 2.0**30 == pytest.approx(2.0 * detail.tol / detail.lam)
    # and sigma is the noise of the curve that is charged: B score / rho
    (step,) = [s for s in plan.steps if s.name == COEF_STEP]
    rho = dict(step.mechanism.parameters)["rho"]
    assert detail.sigma * rho == pytest.approx(detail.loss.score * detail.radius, rel=1e-6)


@pytest.mark.parametrize("change", ["rho", "kappa", "n", "loss"])
@pytest.mark.parametrize("schema, family", [(EVENT, "binomial"), (COUNTS, "poisson")])
def test_a_minimum_with_other_numbers_than_were_charged_is_refused(schema, family, change):
    case = Case("dp_glm", "objpert", schema=schema, family=family)
    plan, data = case.plan(), plain_rows(case)
    other = {
        "rho": 1.01 * plan.detail.rho, "kappa": 1.01 * plan.detail.kappa, "n": plan.n - 1,
        "loss": PoissonLoss(3.0) if family == "binomial" else LogisticLoss(),
    }  # fmt: skip
    changed = dataclasses.replace(plan.detail, **{change: other[change]})
    rows = Rows(DictSource(data), plan.n)
    with quiet(), np.errstate(all="ignore"), pytest.raises(PrivacyBugError):
        run = SetNormals(plan.steps, 0, None)
        plan.backend.release(dataclasses.replace(plan, detail=changed), Ask(rows, run))


def test_set_normals_are_seen():
    """The oracle fails where the noise is of another size."""
    case = Case("dp_ols", "ops", n=40)
    data = plain_rows(case)
    plan, done, found = covariance(case, data, "draws", 3)
    other = dataclasses.replace(plan.detail, lam=1.3 * plan.detail.lam)
    A = unit_moments(plan, data, other.B) + other.lam * np.eye(3)
    assert found != pytest.approx(np.linalg.inv(A) / done.detail.gamma, rel=1e-4)
