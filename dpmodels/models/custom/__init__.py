"""Models of a user's own estimator."""
