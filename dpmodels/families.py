"""Response families as data: link, what a response may be, aliases, losses that serve them.

A new family is one record here (and its loss, where a method needs one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, did_you_mean, shown

__all__ = ["FAMILIES", "LINKS", "Family", "family_of"]


def _logistic(eta: Array) -> Array:
    from scipy.special import expit

    return np.asarray(expit(eta))


#: link -> (inverse, derivative of the inverse as a function of the mean)
LINKS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "identity": (lambda eta: eta, np.ones_like),
    "logit": (_logistic, lambda mean: mean * (1 - mean)),
    "log": (np.exp, lambda mean: mean),
}


@dataclass(frozen=True)
class Family:
    """A response family.

    Attributes
    ----------
    name, link : str
    response : {"event", "real"}
        What the design accepts on the left-hand side: an event (one of two), or a number.
    loss : str
        Name of its corrected loss on a noised table.
    aliases : tuple of str
        What else it is called.
    default_method : str
        Of ``dp_glm``; empty: the first of the registry.
    """

    name: str
    link: str
    response: str
    loss: str
    aliases: tuple[str, ...] = ()
    default_method: str = ""

    @property
    def is_event(self) -> bool:
        """Whether the response is one of two."""
        return self.response == "event"


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("binomial", "logit", "event", "logistic", ("logistic", "logit", "bernoulli")),
        Family("poisson", "log", "real", "poisson"),
        Family("geometric", "log", "real", "geometric", default_method="drcl"),
    )
}


def family_of(name: Any) -> Family:
    """Return the family of a name or alias; raise ``RequestError`` otherwise."""
    names = {alias: f for f in FAMILIES.values() for alias in (f.name, *f.aliases)}
    found = names.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        raise RequestError(
            f"family={shown(name)} is not one of {list(FAMILIES)}.{did_you_mean(str(name), names)}"
        )
    return found
