"""Models of generalised linear models."""
