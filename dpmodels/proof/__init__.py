"""Proofs of sensitivity: sets, statistics of rows, and the bound of each. Reads no row."""
