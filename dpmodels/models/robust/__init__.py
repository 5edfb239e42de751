"""Robust regression: Huber, expectiles, a user's own loss of the residual."""
