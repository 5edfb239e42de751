"""Survival: tables of follow-up, their curves and tests. ``theory.md`` has the proofs."""
