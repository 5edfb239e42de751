"""Gain of an attacker from a pair (eps, delta)."""

from __future__ import annotations

from dpmodels.attacker import Explanation, of_guarantee
from dpmodels.errors import RequestError, choice
from dpmodels.privacy.asked import checked_number, checked_unit
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Step, eps_gdp


def explain(
    *, eps: float | None = None, delta: float = 0.0, mu: float | None = None,
    relation: str = "replace", unit: str = "record",
) -> Explanation:  # fmt: skip
    """Return the gain of an attacker from a pair: sentences, numbers and a picture.

    Parameters
    ----------
    eps, delta : float
        The pair. Only the pair is known, so this is the worst release that it allows.
        ``fit.privacy.explain()`` knows the mechanisms, and its numbers are smaller.
    mu : float, optional
        Of Gaussian noise alone (mu-GDP), in place of ``eps``: the curve is then exact.
    relation : {"replace", "add-remove"}
    unit : str
        "record", or the column that identifies people.

    Returns
    -------
    Explanation
        ``print`` it; ``.statement()``, ``.tidy()``, ``.plot()``, ``.power(0.05)``.

    Raises
    ------
    RequestError
        The numbers are no guarantee, or both eps and mu are given.

    Privacy
    -------
    A function of public numbers: costs nothing.

    Examples
    --------
    >>> import dpmodels as dp
    >>> round(dp.explain(eps=1).right, 4)
    0.7311
    """
    choice("relation", relation, ("replace", "add-remove"))
    delta, unit = checked_number("delta", delta, positive=False), checked_unit(unit)
    if (eps is None) == (mu is None):
        raise RequestError("explain needs eps= or mu=, for example explain(eps=1, delta=1e-6)")
    if delta >= 1.0 or (mu is not None and delta == 0.0):
        raise RequestError(
            "delta= must be below 1, and above 0 with mu=, for example explain(mu=0.25, delta=1e-6)"
        )
    if mu is not None:
        mu = checked_number("mu", mu, positive=False)
        step, eps = Step("Gaussian noise", Gaussian(mu)), eps_gdp(mu, delta)
    else:
        eps = checked_number("eps", eps, positive=False)
        step = Step("the pair", Approximate(eps, delta))
    return of_guarantee(Guarantee((step,), eps, delta, relation, unit))
