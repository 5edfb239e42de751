"""Releases that have a proof of their own, beside which they stand."""
