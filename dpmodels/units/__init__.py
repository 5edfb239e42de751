"""A person with several rows as the unit of privacy (``theory.md``: statements and proofs)."""

from dpmodels.units.person import Person, people_or_rows, unit_of

__all__ = ["Person", "people_or_rows", "unit_of"]
