"""The guarantee of a call: computed from the mechanisms of its plan, never typed in."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpmodels.errors import PrivacyBugError
from dpmodels.privacy.composition import delta_of_parts, eps_of_parts
from dpmodels.privacy.steps import Step

__all__ = ["Guarantee"]

_RELATIONS = {"replace": "replace one row; n is public", "add-remove": "add or remove one row"}


@dataclass(frozen=True)
class Guarantee:
    """What a release promises, to whom, and by which mechanisms.

    Attributes
    ----------
    steps : tuple of Step
        The mechanisms, those that a no-reply skipped included.
    eps, delta : float
        The requested pair. Construction fails if the steps do not compose to it.
    relation : {"replace", "add-remove"}
    unit : str
        "record" or "attribute".
    seeded : bool
        True if the noise came from a seed: then nothing is promised.
    notes : tuple of str
        Qualifications that belong to the statement (float noise, ...).
    """

    steps: tuple[Step, ...]
    eps: float
    delta: float
    relation: str = "replace"
    unit: str = "record"
    seeded: bool = False
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        # One part in 1e9 of slack pays for root finders; the noise is rounded up by as much.
        if self.delta_at(self.eps) > self.delta * (1 + 1e-8) + 1e-300:
            raise PrivacyBugError(
                f"the steps of this plan compose to delta = {self.delta_at(self.eps)!r} at "
                f"eps = {self.eps!r}, above the requested {self.delta!r}"
            )

    def delta_at(self, eps: float) -> float:
        """Return delta(eps) of the composed steps."""
        return delta_of_parts(self.steps, eps)

    def eps_at(self, delta: float) -> float:
        """Return the smallest eps with delta(eps) <= delta."""
        return eps_of_parts(self.steps, delta)

    def statement(self) -> str:
        """Return the promise in one sentence."""
        if self.seeded:
            return "NOT PRIVATE: the noise was seeded"
        text = (
            f"(eps = {self.eps:g}, delta = {self.delta:g})-DP; neighbours: "
            f"{_RELATIONS[self.relation]}; unit: one {self.unit}"
        )
        return "; ".join((text, *self.notes))
