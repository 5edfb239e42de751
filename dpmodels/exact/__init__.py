"""Exact integer sums of rows on a public lattice, and their sensitivities."""
