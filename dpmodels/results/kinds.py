"""What differs between families of fits, as data: one :class:`Kind` a verb.

A family writes, in the module that registers its methods::

    register_kind(Kind(verb="dp_glm", title="generalised linear model", link="logit"))

and every table, renderer, file and plot of this room works for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Kind", "kind_of", "register_kind"]


@dataclass(frozen=True)
class Kind:
    """The face of one verb.

    Attributes
    ----------
    verb : str
        ``"dp_ols"``.
    title : str
        Completes "Differentially private ...".
    predict : str
        ``"package.module:function"``, imported on first use; called as
        ``function(fit, new, what=, interval=, level=, se_fit=, outside=)``. Empty: this family
        has no ``predict``.
    link : str
        Name of the link that ``dpmodels.results.predict:regression`` inverts ("identity",
        "logit", "log"); a method option called ``link`` wins.
    estimates : str
        Header of the column of estimates.
    count : str
        What the header calls the length of ``params``.
    header : tuple of (str, str)
        Further header pairs: label -> name of an entry of ``Estimate.stats``.
    says : tuple of (str, str)
        Further header pairs: label -> method option that makes the model what it is.
    absent : tuple of str
        Things a reader of such a table looks for, on which nothing was spent.
    plot : str
        ``"package.module:function"`` of its picture, called as ``function(fit, ax, level=)``.
    """

    verb: str
    title: str
    predict: str = "dpmodels.results.predict:regression"
    link: str = "identity"
    estimates: str = "Estimate"
    count: str = "Coefficients"
    header: tuple[tuple[str, str], ...] = ()
    says: tuple[tuple[str, str], ...] = ()
    absent: tuple[str, ...] = ()
    plot: str = "dpmodels.results.plot:coefplot"

    def link_name(self, options: Mapping[str, Any]) -> str:
        """Return the name of the link in force."""
        return str(options.get("link") or self.link)

    def mean(self, eta: Any, options: Mapping[str, Any]) -> Any:
        """Return the mean at a linear predictor."""
        from dpmodels.results.predict import LINKS

        return LINKS[self.link_name(options)][0](eta)

    def load_predict(self) -> Callable[..., Any] | None:
        """Import the predict function; None if the family has none."""
        return _function(self.predict) if self.predict else None

    def load_plot(self) -> Callable[..., Any]:
        """Import the plot function."""
        return _function(self.plot)


def _function(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


_KINDS: dict[str, Kind] = {
    "dp_ols": Kind(
        verb="dp_ols",
        title="linear regression",
        absent=("R-squared", "residuals", "F test"),
    ),
}


def register_kind(kind: Kind) -> Kind:
    """Add the kind of a verb (or replace it).

    Parameters
    ----------
    kind : Kind

    Privacy
    -------
    Reads no data.
    """
    _KINDS[kind.verb] = kind
    return kind


def kind_of(verb: str) -> Kind:
    """Return the kind of a verb; a verb nobody registered gets a plain one."""
    if verb not in _KINDS:
        from dpmodels import registry

        registry.method_names(verb)  # imports the rooms, which register their kinds
    return _KINDS.get(verb) or Kind(verb=verb, title=f"{verb.removeprefix('dp_')} fit")
