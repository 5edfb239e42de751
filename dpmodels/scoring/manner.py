"""How the passes of a model treat rows: one record a kind of model, chosen by public numbers.

What is better for five columns is worse for thirty, and what helps least squares harms events
(``theory.md``, 3): the rules that differ stand here side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "FEW", "LEAST_SQUARES", "MANY", "TAME", "WIDE", "WIDE_LEAST_SQUARES", "Manner",
    "columns_noise", "manner_of",
]  # fmt: skip

#: From this many columns on least squares has many; the same for the shares of its passes, where
#: the noise (:func:`columns_noise`) is above the second number too.
COLUMNS, WIDE = 6, 0.008
#: The same for models of a mean.
COLUMNS_OF_MEANS = 10


@dataclass(frozen=True)
class Manner:
    """What differs between kinds of models in a pass over rows.

    Attributes
    ----------
    by_leverage : bool
        Scores carry the weight ``min(1, R_H^2/|v|^2)`` that the ball of the information gives a
        row anyway: step and information are of one weighted fit (Mallows).
    shrinks : bool
        The released information is shrunk towards its mean eigenvalue as far as noise explains
        its spread; the last step loses a part of what noise explains.
    signed : bool
        The histogram of lengths is by the sign of the score.
    narrow : bool
        The radius of the information follows its noise.
    clip : float
        Least C over sqrt p.
    ordinary : float
        Least R_L^2 over p: up to there rows count as ordinary.
    far : bool
        What lies beyond C is released too where mu n is large.
    """

    by_leverage: bool = False
    shrinks: bool = False
    signed: bool = False
    narrow: bool = False
    clip: float = 1.5
    ordinary: float = 2.0
    far: bool = False


#: People, and scores with a bound (quantiles, Huber).
TAME = Manner()
#: Least squares with few and with many columns.
LEAST_SQUARES = Manner(far=True)
WIDE_LEAST_SQUARES = Manner(
    by_leverage=True, shrinks=True, signed=True, narrow=True, clip=2.25, ordinary=1.5, far=True
)
#: Models of a mean with few and with many columns.
FEW = Manner(by_leverage=True)
MANY = Manner(by_leverage=True, shrinks=True)


def columns_noise(mu: float, n: int, p: int) -> float:
    """Return ``p^1.5/(mu n)``: what the spectral noise of an information grows with. Public."""
    return p**1.5 / (mu * n) if mu > 0.0 and n > 0 else float("inf")


def manner_of(p: int, *, averages: bool, of_mean: bool, people: bool) -> Manner:
    """Return the manner of a model, by public numbers.

    Parameters
    ----------
    p : int
        Columns.
    averages : bool
        The information does not depend on the fit: least squares.
    of_mean : bool
        A family with a link.
    people : bool
        The unit is a person.
    """
    if people:
        return TAME
    if averages:
        return WIDE_LEAST_SQUARES if p >= COLUMNS else LEAST_SQUARES
    if of_mean:
        return MANY if p >= COLUMNS_OF_MEANS else FEW
    return TAME
