"""Audits of the generalized-PTR family, and mutants that each must flag."""

import math

import numpy as np
import pytest

from dpmodels.audit.kit import SensitivityCheck
from tests.privacy.cases import posterior as cases

ROOT = math.sqrt(2.0)


@pytest.mark.parametrize(
    ("statistic", "neighbours", "factor"),
    [
        (cases.objpert_ratio, lambda: cases._objpert_cases(False, "add-remove"), ROOT),
        (cases.objpert_ratio, lambda: cases._objpert_cases(True, "add-remove"), ROOT),
        (cases.posterior_ratio, cases._linear_cases, ROOT),
        (cases.score_ratio, cases._linear_cases, ROOT),
        # in one dimension a replaced row moves the score by B, not 2 B: the claim has room
        (cases.objpert_ratio, lambda: cases._objpert_cases(False, "replace"), 3.0),
        # the Renyi bound is four times the truth here
        (cases.hessian_ratio, cases._hessian_cases, 3.0),
    ],
)
def test_noise_too_small_is_flagged(statistic, neighbours, factor):
    """A lost sqrt(2) of a Gaussian tail where the claim is tight; a factor 3 where it is not."""
    honest = SensitivityCheck("honest", statistic, neighbours, 1.0 + 1e-4, "linf").run()
    mutant = SensitivityCheck(
        "mutant", lambda case: statistic(case, factor), neighbours, 1.0 + 1e-4, "linf"
    ).run()
    assert honest.passed, str(honest)
    assert not mutant.passed, str(mutant)


def test_the_published_removal_bound_is_flagged():
    """log(1 + B^2/lam*), right for adding only, is below what removing a row can do."""

    def published(case):
        value = cases._log_bound(case)
        if case is None:
            return value
        X, _, lam, _ = case
        star = lam / 30.0 * 1.3 + float(np.linalg.eigvalsh(X.T @ X)[0])
        return value * -math.log1p(-1 / star) / math.log1p(1 / star)

    def single():
        x, y = np.append(np.full(400, 0.2), 1.0)[::-1, None], np.append(np.ones(400), -1.0)[::-1]
        yield (x, y, 30.0 / 1.3, 1.0), None

    honest = SensitivityCheck("honest", cases._log_bound, single, 1.0 + 1e-9, "linf").run()
    mutant = SensitivityCheck("mutant", published, single, 1.0 + 1e-9, "linf").run()
    assert honest.passed and not mutant.passed


def test_a_row_map_without_its_ball_is_flagged():
    """The bug of a block with a missing row: the ball must not be switched off."""
    from dpmodels.own.minimum import WorkingRows

    class NoBall(WorkingRows):
        def apply(self, block):
            return WorkingRows(self.scale, self.shift, np.inf, np.inf).apply(block)

    def norms(kind):
        def statistic(rows):
            working = kind(np.ones(2), np.zeros(2), 1.0, 2.0)
            X, _, w = working.apply(rows.T.copy())
            return (np.linalg.norm(X, axis=0) * w).max(initial=0.0)

        return statistic

    def pairs():
        rng = np.random.default_rng(0)
        for _ in range(40):
            rows = rng.normal(0, 5, (6, 3))
            rows[:, 2] = 0
            rows[0, 0] = np.nan
            yield rows, np.zeros((0, 3))

    good = SensitivityCheck("ball", norms(WorkingRows), pairs, 1.0).run()
    bad = SensitivityCheck("no ball", norms(NoBall), pairs, 1.0).run()
    assert good.passed and not bad.passed


def test_a_projector_with_the_published_constant_is_looser_and_gap_two_fails():
    """Sensitivity 1/(2 (gap - 1)) instead of 1/(sqrt 2 (gap - 1)): flagged."""
    check = SensitivityCheck(
        "mutant", lambda M: cases.projector(M, 1), _tight_pair,
        lambda M, N: cases._gap_bound(M, N) / math.sqrt(2.0),
    )  # fmt: skip
    assert not check.run().passed
    honest = SensitivityCheck(
        "honest", lambda M: cases.projector(M, 1), _tight_pair, cases._gap_bound
    )
    assert honest.run().passed


def _tight_pair():
    """A row at 45 degrees to the axes of a diagonal matrix, small gap."""
    for g in (1.5, 2.0, 3.0, 10.0):
        for angle in np.linspace(0.05, 1.5, 60):
            x = np.array([np.cos(angle), np.sin(angle)])
            M = np.diag([5.0 + g, 5.0])
            yield M, M + np.outer(x, x)
            yield M, M - np.outer(x, x)
