"""Models of kernel regression."""
