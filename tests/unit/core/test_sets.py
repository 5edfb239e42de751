"""Sets clip whatever a formula returns: hostile results, neighbours and the proved bounds."""

import math

import numpy as np
import pytest

from dpmodels.core.classes import Classes
from dpmodels.core.kernels import KERNEL, AtPoints, OnGrid
from dpmodels.core.means import CountAndPowers, Means, PairMoments, PowersOfRows, WeightedMeans
from dpmodels.core.release import Release
from dpmodels.core.rows import Rows
from dpmodels.core.sets import Bins, Counted, Marks, Moments, Reading
from dpmodels.core.tables import Table, Tables
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.sets import STEPS, Ball, Blocks, Box
from dpmodels.sources.people import BlockOfPeople
from tests.one_pass import added, sums_of

WILD = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.7, 1e9, -1e9, 1e300, -1e300, 1e-300, np.inf, -np.inf, np.nan]
)
TABLES = [Table(6, ((0, 2), (1, 1))), Table(12, ((0, 4),), 0, 1)]
SETS = {
    "marks": Marks(3), "counted": Counted(3, 1.5), "bins": Bins(3, 5), "moments": Moments(3, 2.0),
    "means": Means(3), "weighted means": WeightedMeans(2), "powers": CountAndPowers(3, squares=True),
    "powers of rows": PowersOfRows(3),
    "count and sums": CountAndPowers(3, squares=False), "pair": PairMoments(),
    "tables": Tables([3, 2], TABLES, (0.5, 0.5), unused=True),
    "whole": Tables([3, 2], TABLES[:1], (1.0,), geometric=True),
}  # fmt: skip
#: What a formula returns of three hostile numbers, where it is not these.
FORMULAS = {
    "weighted means": lambda z: (z[:2], z[2]), "pair": lambda z: z[:2],
    "tables": lambda z: (z[:2], z[2], z[1]), "whole": lambda z: z[:2],
}  # fmt: skip


def hostile(m=120, seed=0):
    """Results (3, m) that a wrong formula may return."""
    rng = np.random.default_rng(seed)
    return np.hstack([rng.choice(WILD, (3, m)), rng.normal(size=(3, m)) * 10.0 ** rng.uniform(-3, 3, m)])


def release_of(name):
    return Release("", SETS[name], FORMULAS.get(name, lambda z: z), None)


def alone(release, results, part, norm="l2"):
    """Return what each row adds, flat, in the statistic's layout and in units of its lattice."""
    out = []
    for j in range(results.shape[1]):
        sums = part.take(added(release, [results[:, [j]].copy()]))
        out.append(np.asarray(part.statistic.flat(sums.values, norm), dtype=float))
    return np.array(out) * part.statistic.weights(norm) * part.statistic.step


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("name", sorted(set(SETS) - {"powers"}))  # which are for L1 alone
def test_no_result_of_a_formula_leaves_its_set(name, relation):
    """Two rows are apart by at most the proved sensitivity, one and none too; it is nearly met."""
    release = release_of(name)
    for part in release.into.parts(""):
        rows = alone(release, hostile(), part)
        none = np.zeros((1, rows.shape[1]))
        most = sensitivity(part.statistic, relation, "l2")
        if relation == "replace":
            rows = rows if name in ("tables", "whole") else np.vstack([rows, none])
            moved = np.linalg.norm(rows[:, None] - rows[None], axis=2).max()
        else:
            moved = np.linalg.norm(rows, axis=1).max()
        assert 0.55 * most < moved <= most * (1.0 + 1e-12)


@pytest.mark.parametrize("of", ["counts", "sums", "sums and counts", "squares", "squares by class"])
@pytest.mark.parametrize("within", [Ball(3), Box(3), Blocks(3, ((1, 2),))])
def test_no_result_leaves_its_class(within, of):
    """Hostile numbers and codes: a row adds to one class or to none, within the proved bound."""
    into = Classes(3, within, np.array([0.0, 0.1, 0.0]), np.array([1.0, 2.0, 1.0]))
    reading = Reading(None, (lambda z: (z[:3], z[3]),), (into,))
    query, code = into.query(reading, of), np.random.default_rng(1).choice([*WILD, 2.0, 1.0], 240)
    table = np.vstack([hostile(), code])

    def laid_down(block):
        return np.asarray(query.statistic.flat(query.part(reading.over([block])).values, "l2"), dtype=float)

    each = np.array([laid_down(table[:, [j]].copy()) for j in range(240)])
    assert (each.sum(axis=0) == laid_down(table.copy())).all()  # whatever stands beside it
    each = np.vstack([each, 0.0 * each[:1]]) * query.statistic.weights("l2") * query.statistic.step
    moved = np.linalg.norm(each[:, None] - each[None], axis=2).max()
    assert 0.55 < moved / sensitivity(query.statistic, "replace", "l2") <= 1.0 + 1e-12


@pytest.mark.parametrize("into", [AtPoints(np.array([[0.0, 0.5], [3.7, -1.0]]), 0.5), OnGrid(np.zeros((1, 2)), 0.5)])
def test_no_result_outweighs_its_kernel(into):
    """Hostile features and responses: labels are no longer than the weights, which are one row's."""
    heaviest = 0
    for j in range(240):
        row = hostile()[:, [j]]
        high, low, *masses = sums_of(into, lambda z: (z[:2], z[2]), [row]).arrays
        label = high.astype(object) * 2**22 + low
        if isinstance(into, OnGrid):
            mass, most = masses[0].astype(object) * 2**15, 2**39
            assert mass.sum() == (0 if np.isnan(row).any() else most)
        else:
            mass, most = masses[0].astype(object) * 2**22 + masses[1], int(KERNEL)
            assert max(mass) <= most
        assert min(mass) >= 0 and (abs(label) <= mass).all()
        heaviest = max(heaviest, max(mass) / most)
    assert heaviest == 1.0


@pytest.mark.parametrize("name", ["powers", "count and sums", "tables"])
def test_no_result_leaves_its_set_in_l1(name):
    release = release_of(name)
    (part,) = release.into.parts("")
    rows = alone(release, hostile(), part, "l1")
    moved = np.abs(rows[:, None] - rows[None]).sum(axis=2).max()
    assert 0.55 < moved / sensitivity(part.statistic, "replace", "l1") <= 1.0 + 2.0**-18


def entries(sums):
    """Return exact sums as one list of integers."""
    arrays = sums.arrays if hasattr(sums, "arrays") else (sums,)
    return np.concatenate([np.ravel(a) for a in arrays]).astype(object)


@pytest.mark.parametrize("name", SETS)
def test_a_row_adds_the_same_beside_any_other(name):
    """Integers: the sum over a block is that of its rows, in any order and cut anywhere."""
    release, results = release_of(name), hostile(seed=3)
    whole = entries(added(release, [results.copy()]))
    turned = entries(added(release, [results[:, ::-1].copy()]))
    parts = entries(added(release, [results[:, :7].copy(), results[:, 7:].copy()]))
    single = sum(entries(added(release, [results[:, [j]].copy()])) for j in range(results.shape[1]))
    for other in (turned, parts, single):
        assert (whole == other).all()


@pytest.mark.parametrize("name", ["means", "weighted means", "tables"])
def test_a_person_adds_what_one_row_may_in_every_set(name):
    """Whole people of hostile rows: apart by at most the sensitivity of one row's set."""
    rng, release = np.random.default_rng(4), release_of(name)
    people = [rng.choice(WILD, (3, many)) for many in rng.integers(1, 6, 60)]
    blocks = [BlockOfPeople(rows, np.zeros(1, int), np.array([rows.shape[1]])) for rows in people]
    if name == "means":
        release = Release("", Means(3, people=True), lambda z: z, None)
    for part in release.into.parts(""):
        flat = np.array([
            np.asarray(part.statistic.flat(part.take(added(release, [one])).values, "l2"), dtype=float)
            for one in blocks
        ]) * part.statistic.weights("l2") * part.statistic.step  # fmt: skip
        moved = np.linalg.norm(flat[:, None] - flat[None], axis=2).max()
        most = sensitivity(part.statistic, "replace", "l2")
        assert 0.4 * most < moved <= most * (1.0 + 1e-12)


@pytest.mark.parametrize("into", [Marks(2), Counted(2, math.sqrt(2.0), people=True)])
def test_a_person_adds_what_one_row_may(into):
    """Of a person with any rows: a mark if one is marked, the mean of the complete rows."""
    rng = np.random.default_rng(2)
    counts = rng.integers(1, 6, 60)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rows = rng.choice(WILD, (2, counts.sum()))
    release, most = Release("", into, lambda z: z, None), int(STEPS)
    for a, many in zip(starts, counts, strict=True):
        block = BlockOfPeople(rows[:, a : a + many], np.zeros(1, int), counts[:1] * 0 + many)
        person = [int(x) for x in added(release, [block])]
        assert all(abs(x) <= most for x in person)
        if isinstance(into, Counted):
            assert person[0] in (0, most) and all(2 * abs(x) <= most for x in person[1:])
            if not person[0]:
                assert not any(person)


def test_a_formula_that_is_no_function_of_a_row_is_refused():
    from dpmodels.errors import PrivacyBugError

    release = Release("", Marks(1), lambda z: z - z.mean(), None)
    with pytest.raises(PrivacyBugError):
        added(release, [np.ones((1, 5))])
    with pytest.raises(PrivacyBugError):
        added(Release("", Marks(1), lambda z: Rows(np.asarray(z)), None), [np.ones((1, 5))])
