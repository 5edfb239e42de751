"""Scores and diagnoses: every stated sensitivity holds, is attained, and half of it is caught."""

import numpy as np
import pytest

from dpmodels.audit import audit
from dpmodels.audit.cases_holdout import GROUPS, sums_of
from dpmodels.exact.prove import reach

#: Rows (x, y); a missing cell is NaN. Pairs of tables that differ in their first row.
ROWS = [np.array([x, y]) for x in (-1, -0.5, 0.5, 1) for y in (-2, -1, 0, 1, 2)]
ROWS += [np.array([np.nan, 1.0]), np.array([1.0, np.nan])]
OTHERS = np.array([[0.1, 0.3], [-0.7, 1.0], [np.nan, 0.0]])


@pytest.mark.parametrize("name", GROUPS)
def test_the_bound_holds_and_is_attained(name):
    one = GROUPS[name]
    images = [sums_of(one)(np.vstack([row, OTHERS])) for row in ROWS]
    gaps = [a - b for a in images for b in images]
    l2 = max(np.linalg.norm(g) for g in gaps)
    l1 = max(np.abs(g).sum() for g in gaps)
    most2, most1 = (reach(one.statistic, "replace", norm) / one.unit for norm in ("l2", "l1"))
    assert l2 <= most2 * (1 + 1e-12) and l1 <= most1
    assert l2 > 0.999 * most2 and l1 > 0.999 * most1


def test_the_audit_passes_and_flags_half_the_noise(monkeypatch):
    assert audit("holdout", draws=4000).passed
    from dpmodels.privacy.run import Run

    plain = Run.gaussian
    monkeypatch.setattr(
        Run, "gaussian", lambda self, name, value, s, **kw: plain(self, name, value, s / 2, **kw)
    )
    assert not audit("holdout", draws=4000).passed
