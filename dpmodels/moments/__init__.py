"""Noisy second moments: the exact Gram matrix, and least squares from it."""
