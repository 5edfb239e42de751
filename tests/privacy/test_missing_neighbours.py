"""A row with a missing cell is the zero row, and decides nothing about the rows beside it.

Up to 0.2.0 one missing cell (an undeclared level, a missing offset or weight) switched off the
weights by leverage of all rows of its block, by cell: lengths of scores moved by up to 2 043 times
their bound. Every step of ``dp_glm`` is replayed on pairs of tables of which one has such a row;
a rare level makes some rows longer than R_H. Seeded and deterministic: no false alarms.
"""

from __future__ import annotations

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.formula.schema import Schema
from dpmodels.variables import Binary, Count, Levels, Real
from tests.replaying import replay_ratios

N = 4000
#: Verb options, how the response is drawn, what else the table has.
CASES = {
    "logit": {"family": "binomial"},
    "probit": {"family": "binomial", "link": "probit"},
    "cloglog": {"family": "binomial", "link": "cloglog"},
    "poisson": {"family": "poisson"},
    "negative binomial": {"family": "negative_binomial", "alpha": 0.5},
    "weights": {"family": "binomial", "weights": "w"},
    "counts with weights": {"family": "poisson", "weights": "w"},
    "offset": {"family": "poisson", "offset": "o"},
}


def table(case: str) -> tuple[dict[str, np.ndarray], Schema]:
    """Return (columns, schema): level "r" has five rows of 4000, events are one in twelve."""
    rng = np.random.default_rng(11)
    g = np.array(["u"] * (N - 5) + ["r"] * 5, dtype=object)
    rng.shuffle(g)
    y = (rng.random(N) < 1 / 12).astype(float)
    data = {"y": y, "g": g, "k": rng.integers(0, 2, N).astype(float),
            "w": rng.uniform(0.5, 2.0, N), "o": np.zeros(N)}  # fmt: skip
    response = Binary() if CASES[case]["family"] == "binomial" else Count(6)
    schema = Schema(y=response, g=Levels(["u", "r"]), k=Binary(), w=Real(0, 3), o=Real(-1, 1))
    return data, schema


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("case", CASES)
def test_a_missing_cell_moves_its_own_row_alone(case, relation):
    data, schema = table(case)
    options = {"weights": None, "offset": None} | CASES[case]
    options = {k: v for k, v in options.items() if v is not None}
    used = ["y", "g", "k", *(["w"] if "weights" in options else []),
            *(["o"] if "offset" in options else [])]  # fmt: skip
    data = {k: data[k] for k in used}
    plan = dp.plan(
        "y ~ g + k", schema, n=N, eps=1, delta=1e-6, verb="dp_glm", method="scoring",
        relation=relation, **({"n_guess": N} if relation == "add-remove" else {}), **options,
    )  # fmt: skip
    holes = {"y": np.nan, "g": "undeclared", "w": np.nan, "o": np.inf}
    for name, cell in holes.items():
        if name not in data:
            continue
        other = {k: v.copy() for k, v in data.items()}
        other[name][0] = cell
        base = data if relation == "replace" else {k: v[1:] for k, v in data.items()}
        for one, two in ((base, other), (other, base)):
            worst = replay_ratios(plan, one, [two])
            assert worst, "nothing was drawn"
            assert max(worst.values()) <= 1.0, (name, worst)
