"""Quantile regression."""
