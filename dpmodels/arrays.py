"""The one array type of the package: float64 numbers of any shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def plain(value: Any) -> Any:
    """Return Python's number for one of numpy's (``units=ids.max()``), else the value itself."""
    return value.item() if isinstance(value, np.generic) else value
