"""Hooks for the test suite. Nothing here is public, and nothing made with it is private."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

#: A noise source that replaces the real one in calls made inside the context.
NOISE: ContextVar[Any] = ContextVar("dpmodels_test_noise", default=None)
#: Let exceptions of the private stage through with their own text.
RERAISE: ContextVar[bool] = ContextVar("dpmodels_test_reraise", default=False)


class ZeroNoise:
    """All Gaussian and Laplace draws are 0, every coin of positive probability replies."""

    private = False

    def discrete_gaussian(self, sigma2: Fraction, size: int) -> list[int]:
        """Return zeros."""
        return [0] * size

    def discrete_laplace(self, scale: Fraction, size: int) -> list[int]:
        """Return zeros."""
        return [0] * size

    def normals(self, size: int) -> npt.NDArray[np.float64]:
        """Return zeros."""
        return np.zeros(size)

    def exponentials(self, size: int) -> npt.NDArray[np.float64]:
        """Return ones."""
        return np.ones(size)

    def uniforms(self, size: int) -> npt.NDArray[np.float64]:
        """Return one half."""
        return np.full(size, 0.5)

    def integers_below(self, n: int, size: int) -> list[int]:
        """Return the middle."""
        return [n // 2] * size

    def bernoulli(self, p: float) -> bool:
        """Return True for any positive probability."""
        return p > 0

    def coins(self, size: int) -> npt.NDArray[np.uint8]:
        """Return the same scramble of bytes each time."""
        return np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)

    def permutation(self, n: int) -> npt.NDArray[np.intp]:
        """Return a fixed scramble."""
        return np.random.default_rng(0).permutation(n)


@contextmanager
def noise_source(source: Any, *, reraise: bool = True) -> Iterator[None]:
    """Use ``source`` for all noise; exceptions of the private stage keep their text."""
    a, b = NOISE.set(source), RERAISE.set(reraise)
    try:
        yield
    finally:
        NOISE.reset(a)
        RERAISE.reset(b)
