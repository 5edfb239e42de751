"""Guarantees, composition, calibration, noise, ledger, audit: shared by every method.

No method draws noise, composes guarantees or converts between relations for itself. This package
has no code for regression.
"""
