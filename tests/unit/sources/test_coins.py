"""Secret coins: the exact probability of a row, what they look at, and what a guide makes of n."""

import numpy as np
import pandas as pd
import pytest

from dpmodels.errors import PrivacyBugError
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.places import WINDOW, Windows
from dpmodels.privacy.run import Run
from dpmodels.scoring.pass_plan import Pilot
from dpmodels.sources.rows import Coins, Rows
from dpmodels.sources.tasks import as_source
from dpmodels.sums.ask import Ask
from dpmodels.variables import Real

POWERS = [1, 2, 4, 8, 16, 32, 64, 128, 256]


@pytest.mark.parametrize("every", POWERS)
def test_a_row_is_read_for_exactly_its_share_of_all_bits(every):
    """Of all 2^b words of b fair bits exactly one chooses: the chance is 1 / every."""
    b = every.bit_length() - 1
    bits = (np.arange(1 << 16)[None, :] >> np.arange(max(b, 1))[:, None]) & 1  # all words, in turn
    words = np.packbits(bits.astype(np.uint8), axis=1)
    chosen = Coins(every, lambda m: words.ravel()[:m]).choose(1 << 16)
    assert len(chosen) * every == 1 << 16
    assert (chosen % every == 0).all()


def test_coins_of_rows_do_not_depend_on_chunks():
    """What is left of a toss is that of the next rows."""
    sizes, at = [1, 7, 0, 70_000, 5, 65_536, 3], 0
    found = []
    stream = np.random.default_rng(1)
    coins = Coins(8, lambda m: stream.integers(0, 256, m, dtype=np.uint8))
    for m in sizes:
        found.append(coins.choose(m) + at)
        at += m
    stream = np.random.default_rng(1)
    whole = Coins(8, lambda m: stream.integers(0, 256, m, dtype=np.uint8)).choose(at)
    assert np.array_equal(np.concatenate(found), whole)
    assert abs(len(whole) - at / 8) < 5 * np.sqrt(at * 7 / 64)  # seed 1; fails once in 1e6 seeds


def test_exact_noise_tosses_all_bytes():
    """2^16 bytes of the system: each of 256 values is seen, except once in 1e108."""
    from dpmodels.privacy.noise import ExactNoise

    tossed = ExactNoise().coins(2**16)
    assert tossed.dtype == np.uint8 and len(set(tossed.tolist())) == 256


@pytest.mark.parametrize("height", [WINDOW, 700])
def test_coins_are_tossed_for_every_row_whatever_its_cells(height):
    """Missing, wild and ordinary rows: the same tosses, and the same places are read."""
    n = 5000
    design = build_design("y ~ x", Schema(x=Real(0, 1), y=Real(0, 10_000)))
    places = np.arange(n, dtype=float)
    tables = [np.zeros(n), np.where(places % 3 == 0, np.nan, 0.5), np.full(n, 1e300)]
    asked, read = [], []
    for x in tables:
        sizes = []
        stream = np.random.default_rng(3)

        def draw(m, sizes=sizes, stream=stream):
            sizes.append(m)
            return stream.integers(0, 256, m, dtype=np.uint8)

        rows = Rows(as_source(pd.DataFrame({"x": x, "y": places})), n)
        blocks = [b.copy() for b in rows.blocks(design, height, coins=Coins(4, draw))]
        asked.append(sizes)
        read.append(np.concatenate([b[-1] for b in blocks]))
    assert asked[0] == asked[1] == asked[2]
    stream = np.random.default_rng(3)
    places_read = Coins(4, lambda m: stream.integers(0, 256, m, dtype=np.uint8)).choose(n)
    for found in (read[0], read[2]):
        assert np.array_equal(found, places_read)
    assert len(read[1]) == len(places_read)  # a row with a missing cell is read as an empty row
    whole = places_read % 3 != 0
    assert np.array_equal(read[1][whole], places_read[whole])


def test_counts_of_a_guide():
    """Early passes read by coins or by place; what the last adds is by coins, n / every."""
    coins, place = Pilot(8), Pilot(8, Windows(4, 1))
    n = 10 * WINDOW + 17
    assert Pilot().early(n) == Pilot().tail(n) == n
    assert coins.early(n) == coins.tail(n) == n // 8
    assert place.early(n) == Windows(4, 1).count(n) == 3 * WINDOW
    assert place.tail(n) == n // 8
    assert coins.early(5) == coins.tail(5) == 1
    assert coins.windows.every == 1 and place.windows.every > 1
    assert coins.start(n) == n and Pilot(8, first=4).start(n) == n // 4


def test_who_tosses():
    def reading(read, *, private):
        noise = type("Noise", (), {"private": private, "coins": lambda self, m: np.zeros(m)})()
        return Ask(None, Run((), noise))._reading(read)

    assert not reading(Pilot().read(), private=True)
    assert not reading(Pilot().read(last=True), private=True)
    coins, place = Pilot(8), Pilot(8, Windows(4, 1))
    assert reading(coins.read(), private=False)["coins"].every == 8
    for guide in (coins, place):
        assert reading(guide.read(last=True), private=False)["inner"].every == 8
    early = reading(place.read(), private=False)
    assert "coins" not in early and early["windows"].every == 4  # windows chose already
    # a seed's coins are tossed pass by pass
    assert not reading(coins.read_start(1), private=False)
    start = reading(coins.read_start(2), private=True)["coins"]
    assert start.every == 1 and [one.every for one in start.then] == [8, 8]
    assert reading(Pilot(8, first=4).read_start(1), private=False)["coins"].every == 4
    assert not reading(Pilot().read_start(2), private=True)


def test_windows_are_for_rows_that_are_replaced():
    read = Pilot(8, Windows(4, 1)).read()
    with pytest.raises(PrivacyBugError, match="replace-one"):
        Ask(None, Run((), None), "add-remove")._reading(read)
