"""The one array type of the package, float64 numbers of any shape; roots and quantiles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def plain(value: Any) -> Any:
    """Return Python's number for one of numpy's (``units=ids.max()``), else the value itself."""
    return value.item() if isinstance(value, np.generic) else value


Function = TypeVar("Function", bound=Callable[..., Any])


def with_numpy_defaults(function: Function) -> Function:
    """Return a function that runs under numpy's own error settings, whatever the caller set.

    Under ``np.seterr(all="raise")`` a number that underflows to 0 would end a call.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
            return function(*args, **kwargs)

    return cast(Function, run)


def dimensions(cells: Any) -> int:
    """Return the number of dimensions of a column: 2 for a frame, a table or a matrix."""
    count = getattr(cells, "ndim", None)
    if isinstance(count, int):
        return count
    return 2 if hasattr(cells, "columns") or hasattr(cells, "column_names") else 1

#: Cells between the columns of a block: columns that lie a power of two of bytes apart share their
#: places in the cache, and a product with a small matrix then takes twice as long.
ROW_PAD = 24


def brent(f: Callable[[float], float], lo: float, hi: float, **how: Any) -> float:
    """Return a root of f between ends where its signs differ, as ``scipy.optimize.brentq``.

    Either side of the root may be returned: a caller for whom one side alone is safe steps there.
    ``ValueError`` where the ends have one sign, a value is NaN or the steps are too few.
    """
    from scipy.optimize import brentq  # a tenth of a second, which not every call needs

    def value(x: float) -> float:
        y = float(f(x))
        if y != y:  # not every version of scipy looks
            raise ValueError("the function is not a number inside the bracket")
        return y

    try:
        return float(brentq(value, lo, hi, **how))
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def chi2_upper(k: float, p: float) -> float:
    """Return q with P(chi-square_k > q) = p."""
    from scipy.special import chdtri  # loaded on first use

    return float(chdtri(k, p))


def f_upper(a: float, b: float, p: float) -> float:
    """Return q with P(F_{a, b} > q) = p."""
    from scipy.special import fdtri

    # fdtri inverts the lower tail; for tiny p swap the degrees of freedom instead of forming 1-p
    return 1.0 / float(fdtri(b, a, p))
