"""Models of principal components."""
