"""The law of place: the integers that a row adds are a function of that row and of public facts.

Never of its block, its neighbours, their missing cells, the layout or the order of the rows. Random
combinations of verb, formula, options, relation and unit (tests/privacy/combinations.py) run their
production stage on hostile tables, as they are, then in blocks of 1, 7 and 8191 rows, and in another
order: every integer that is handed to noise is the same. On a table without a missing cell, and on
neighbours of it with one, no draw moves by more than its noise is made for. Seeded: no false alarms.
"""

import ast
import runpy
from pathlib import Path

import numpy as np
import pytest

from tests import replaying as replay
from tests.privacy.combinations import combinations
from tests.privacy.test_rows_by_themselves import other_blocks, same_value
from tests.replaying import replay_ratios, replay_stage

DEFAULT, SLOW = 200, 3000
#: Draws whose values are of single rows, in their order, or floats of all rows.
NOT_SUMS = {"table", "laplace table", "normals", "inner", "coin"}
#: Steps with a proof that is no sensitivity of what is compared.
OWN_PROOFS = ()


def compared(one, again, first, what):
    assert set(again) == set(first), (one, what)
    for name, draw in first.items():
        if draw.kind in NOT_SUMS:
            continue
        assert same_value(draw.value, again[name].value), (one, what, name)
        assert same_value(draw.weights, again[name].weights), (one, what, name)
        assert draw.sensitivity == again[name].sensitivity, (one, what, name)


def law_of_place(one, monkeypatch):
    rng = np.random.default_rng(one.number)
    data = one.columns(clean=False)
    with monkeypatch.context() as patch:
        sizes, coins = [], replay._Coins.coins
        patch.setattr(replay._Coins, "coins", lambda self, m: sizes.append(m) or coins(self, m))
        first = replay_stage(one.plan, one.source(data), 0)
    cuts = ((np.array, 8191), (np.asfortranarray, 7), (np.array, 1))
    for layout, width in cuts[: 1 if one.n > 8191 else 3]:
        with monkeypatch.context() as patch:
            other_blocks(patch, layout, width)
            compared(one, replay_stage(one.plan, one.source(data), 0, first), first, f"blocks of {width}")
    if not sizes:  # coins go by the order of the rows, whatever is in them
        order = shuffled(rng, data.get("id"), one.n)
        moved = {name: cells[order] for name, cells in data.items()}
        compared(one, replay_stage(one.plan, one.source(moved), 0, first), first, "another order")


def shuffled(rng, ids, n):
    """Another order of the rows; those of one person stay in theirs."""
    order = rng.permutation(n)
    if ids is not None:
        for person in np.unique(ids[~np.isnan(ids)]):
            mine = np.flatnonzero(ids[order] == person)
            order[mine] = np.sort(order[mine])
    return order


def replaced(one, data, place, source, at):
    out = {name: cells.copy() for name, cells in data.items()}
    for name in out:
        if name != "id":
            out[name][place] = source[name][at]
    return out


def neighbours(one):
    """A table without a missing cell; others that differ in one row, most of them with one."""
    rng = np.random.default_rng(one.number)
    clean, wild = one.columns(clean=True), one.columns(clean=False)
    place = int(rng.integers(one.n))
    if one.relation != "replace":  # the last one comes or goes: coins of the others stay theirs
        units = clean["id"] if one.unit else np.arange(one.n)
        gone = {name: cells[units != units.max()] for name, cells in clean.items()}
        new = {name: np.full(3, 1e6) if name == "id" else cells for name, cells in wild.items()}
        rows = [rng.choice(one.n, 3 if one.unit else 1) for _ in range(3)]
        return clean, [gone, *({name: np.append(cells, new[name] if name == "id" else new[name][at])
                                for name, cells in clean.items()} for at in rows)]  # fmt: skip
    out = [replaced(one, clean, place, wild, at) for at in rng.choice(one.n, 3, replace=False)]
    gone = {name: cells.copy() for name, cells in clean.items()}
    for name, cells in gone.items():
        if name != "id":
            cells[place] = None if cells.dtype == object else np.nan
    return clean, [gone, *out]


def bounded(one):
    clean, others = neighbours(one)
    whole, *rest = map(one.source, (clean, *others))
    ratios = replay_ratios(one.plan, whole, rest, seed=1, skip=OWN_PROOFS)
    assert max(ratios.values(), default=0.0) <= 1.0 + 1e-9, (one, ratios)


def test_features_of_people_are_those_of_their_own_rows(monkeypatch):
    """``dp.per_person`` under every verb of people: place, and what one changed row moves."""
    met = set()
    for one in combinations(500_000, 24, features=True):
        law_of_place(one, monkeypatch)
        bounded(one)
        met.add((one.verb, one.relation))
    assert len(met) >= 7, met


@pytest.mark.parametrize("part", range(10))
def test_a_row_is_the_same_wherever_it_is(part, monkeypatch):
    for one in combinations(10_000 * part, DEFAULT // 10):
        law_of_place(one, monkeypatch)


@pytest.mark.parametrize("part", range(3))
def test_so_it_is_in_more_rows_than_a_block_has(part, monkeypatch):
    for one in combinations(5_000 + 10_000 * part, 4, n=8300):
        law_of_place(one, monkeypatch)


@pytest.mark.parametrize("part", range(10))
def test_a_missing_cell_among_whole_rows_moves_no_more_than_is_charged(part):
    for one in combinations(10_000 * part, DEFAULT // 10):
        bounded(one)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(30))
def test_three_thousand_combinations(part, monkeypatch):
    for one in combinations(1_000_000 + 10_000 * part, SLOW // 30):
        law_of_place(one, monkeypatch)
        bounded(one)


# -- what is decided for a whole block: a lint of the rooms that see rows -----------------------------
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "dpmodels"
#: Groups of .ci/trusted.py whose files see rows.
ROOMS = ("The wall", "From cells to integers", "Whose rows these are", "Passes")
#: Decisions by a largest or smallest number that a NaN would turn off for other rows, each with a
#: reason why it cannot.
ALLOWED = {
    "formula/program.py:codes": "codes are whole numbers: none of them is NaN",
}
_SKIPPED = {"max": (ast.Gt, ast.GtE), "min": (ast.Lt, ast.LtE)}
#: c < x.max() is x.max() > c.
_FLIPPED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def of_block(tree):
    """Yield (function, line) of ``x.max() > c``, ``x.min() < c``: False where a cell is missing.

    ``x.max() <= c`` is the form to use: with a NaN it is False, and each row goes its own way.
    """
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for part in ast.walk(function):
            if not (isinstance(part, ast.Compare) and len(part.ops) == 1):
                continue
            op, flipped = type(part.ops[0]), _FLIPPED.get(type(part.ops[0]))
            for side, by in ((part.left, op), (part.comparators[0], flipped)):
                called = side.func if isinstance(side, ast.Call) else None
                if getattr(called, "attr", "") in _SKIPPED and by in _SKIPPED[called.attr]:
                    yield function.name, part.lineno


def found_in(text):
    return {name for name, _ in of_block(ast.parse(text))}


def test_no_missing_cell_decides_for_a_block():
    script = runpy.run_path(str(ROOT / ".ci" / "trusted.py"))
    files = [f for title, _, files in script["grouped"]() if title in ROOMS for f in files]
    found = {
        f"{file}:{name}" for file in files for name in found_in((PACKAGE / file).read_text())
    }
    assert len(files) > 20
    assert found == set(ALLOWED), found ^ set(ALLOWED)


@pytest.mark.parametrize(
    "line",
    ["if not long.max(initial=0.0) > top:\n        return psi", "if x.max() > c:\n        x = 1",
     "if c < x.max():\n        x = 1", "if x.min() < 0 or y:\n        return", "while not x.min() <= c:\n        pass"],
)  # fmt: skip
def test_the_lint_sees_the_form_that_was_a_leak(line):
    assert found_in(f"def f(x):\n    {line}\n") == {"f"}


@pytest.mark.parametrize("line", ["if x.max() <= c:\n        return x", "if not x.max() <= c:\n        x = 1"])
def test_the_lint_lets_the_form_pass_that_a_missing_cell_cannot_turn_off(line):
    assert found_in(f"def f(x):\n    {line}\n") == set()
