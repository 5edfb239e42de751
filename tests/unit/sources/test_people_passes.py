"""People between passes: their number does not change, and those that are kept stand in secret order."""

import numpy as np
import pytest

from dpmodels.errors import SourceError
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.privacy.noise import SeededNoise
from dpmodels.sources.people import CappedRows, PeopleRows
from dpmodels.sources.tables import DictSource
from dpmodels.units import Person
from dpmodels.variables import Real

N, MOST = 40, 3
DESIGN = build_design("y ~ x", Schema(y=Real(-1, 1), x=Real(-1, 1)))


def table(seed=0, people=N):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(people), rng.integers(1, 7, people)).astype(float)
    return {"id": ids, "x": ids / N, "y": rng.uniform(-1, 1, len(ids))}


class Told(SeededNoise):
    """Noise whose permutation is known to the test."""

    def __init__(self, order):
        super().__init__(1)
        self.order = order

    def permutation(self, n):
        assert n == len(self.order)
        return self.order


def kept(columns, order):
    people = PeopleRows(DictSource(columns), N, Person("id", N, 3.0, MOST))
    rows = CappedRows(people, DESIGN.kinds, Told(order))
    (chunk,) = rows.source.chunks(["x", "y"])
    return np.array(chunk["x"]), np.array(chunk["y"])


def test_kept_people_stand_in_the_secret_order():
    """Not in that of the file, nor of their ids: only the noise knows who stands where."""
    columns = table()
    order = np.random.default_rng(7).permutation(N)
    x, y = kept(columns, order)
    assert len(x) == N * MOST
    whose = np.rint(x.reshape(N, MOST) * N)
    for person, place in enumerate(order):
        there = ~np.isnan(whose[place])
        own = columns["y"][columns["id"] == person]
        assert set(whose[place][there]) == {float(person)}
        assert there.sum() == min(MOST, len(own))
        assert set(y.reshape(N, MOST)[place][there]) <= set(own)
    other = kept(columns, np.arange(N)[::-1])[0]
    assert not np.array_equal(other, x, equal_nan=True)
    assert np.array_equal(np.sort(other), np.sort(x), equal_nan=True)


def test_one_person_moves_its_own_rows_alone():
    columns = table()
    order = np.random.default_rng(8).permutation(N)
    _, y = kept(columns, order)
    changed = {k: v.copy() for k, v in columns.items()}
    changed["y"][columns["id"] == 11] = 0.123
    _, z = kept(changed, order)
    moved = np.flatnonzero((y != z) & ~(np.isnan(y) & np.isnan(z)))
    assert set(moved // MOST) == {order[11]}


@pytest.mark.parametrize("now", [N - 3, N + 3])
@pytest.mark.parametrize("declared", [None, N])
def test_another_number_of_people_stops_the_call(now, declared):
    """Counted: any other. Declared: more; fewer are people without rows."""
    rows = PeopleRows(DictSource(table(people=now)), N, Person("id", declared, 3.0))
    if declared and now < N:
        assert sum(len(b.counts) for b in rows.people(DESIGN)) == now
        return
    with pytest.raises(SourceError, match="people"):
        list(rows.people(DESIGN))


@pytest.mark.parametrize("now", [N - 3, N + 3])
def test_where_the_number_is_private_nothing_is_compared(now):
    """Under add-remove an error would say that there is one more."""
    rows = PeopleRows(
        DictSource(table(people=now)), N, Person("id", None, 3.0), public_n=False
    )
    assert sum(len(b.counts) for b in rows.people(DESIGN)) == now
