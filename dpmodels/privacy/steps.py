"""A step: one declared mechanism of a plan, under the name the ledger prints."""

from __future__ import annotations

from dataclasses import dataclass

from dpmodels.privacy.mechanisms import Mechanism

__all__ = ["Step"]


@dataclass(frozen=True)
class Step:
    """One line of the ledger.

    Attributes
    ----------
    name : str
        What is released ("scale matrix", "coefficients", ...); unique within a plan.
    mechanism : Gaussian, Pure, Approximate, Profile or RDP
        The curve that this step is charged with.
    share : float or None
        Share of the method's currency (mu^2 for Gaussian plans), for printing.
    failure : float
        Probability that the step adds outright (a (0, delta) part), in addition to the curve.
    reply_test : bool
        True if the step can end in "no reply".
    conditional : bool
        True if an answer before it may make it needless (it is charged all the same).
    label : str
        Kind as printed in the ledger; empty: derived from the mechanism.
    """

    name: str
    mechanism: Mechanism
    share: float | None = None
    failure: float = 0.0
    reply_test: bool = False
    label: str = ""
    conditional: bool = False
