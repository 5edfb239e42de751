"""Noised tables (ZIL / SL noise) and estimation with corrected losses; see ``theory.md``."""
