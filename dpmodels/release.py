"""A release: noisy numbers and the guarantee that produced them. The far side of the wall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.privacy.guarantee import Guarantee

__all__ = ["Release"]


@dataclass(frozen=True)
class Release:
    """What left the private stage.

    Attributes
    ----------
    values : mapping of str to array
        Released numbers by step name (or a name the method documents). Everything here went
        through :class:`dpmodels.privacy.run.Run` or is public.
    guarantee : Guarantee
    design : Design
        The design with all intervals known (bought ones filled in).
    reply : bool
        False: the private test did not pass (or ranges could not be bought).
    why : str
        For a no-reply, which *kind* of step ended the run ("ranges", "test"): an output of the
        mechanism, paid for, and safe to print.
    detail : object
        The method's own frozen record (public numbers derived from released ones).
    """

    values: Mapping[str, npt.NDArray[np.float64]]
    guarantee: Guarantee
    design: Design
    reply: bool = True
    why: str = ""
    detail: Any = field(default=None)
