"""Secret coins that can be tossed twice: a keyed stream, so that a task done again agrees."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpmodels.sources.windows import Coins

__all__ = ["KEY_BYTES", "Key", "keyed"]

#: Length of a key.
KEY_BYTES = 32
#: The key fills a whole block of SHAKE256: what follows is a function keyed by its state.
_RATE = 136
#: Bytes squeezed at once.
_SEGMENT = 1 << 16


@dataclass(frozen=True)
class Key:
    """What a task is given instead of coins.

    Attributes
    ----------
    every : int
        Each row with probability 1 / every.
    secret : bytes
        Fresh for each pass, from the noise source of the call. As confidential as the rows.
    """

    every: int
    secret: bytes = field(repr=False)

    def coins(self, part: int, purpose: int) -> Coins:
        """Return the coins of one part of the table, from its first row on."""
        return Coins(self.every, _Stream(self.secret, part, purpose).draw)


def keyed(coins: Coins | None) -> Key | None:
    """Return a key for a pass whose coins several tasks toss."""
    return None if coins is None else Key(coins.every, coins.draw(KEY_BYTES).tobytes())


class _Stream:
    """Bytes of SHAKE256(key, part, purpose, segment), one after the other."""

    def __init__(self, secret: bytes, part: int, purpose: int) -> None:
        self._head = secret.ljust(_RATE, b"\0") + part.to_bytes(8, "big") + bytes([purpose])
        self._segment = 0
        self._left = np.empty(0, dtype=np.uint8)

    def draw(self, size: int) -> npt.NDArray[np.uint8]:
        """Return the next ``size`` bytes."""
        parts, have = [self._left], len(self._left)
        while have < size:
            text = self._head + self._segment.to_bytes(8, "big")
            parts.append(np.frombuffer(hashlib.shake_256(text).digest(_SEGMENT), dtype=np.uint8))
            have += _SEGMENT
            self._segment += 1
        whole = np.concatenate(parts)
        self._left = whole[size:]
        return whole[:size]
