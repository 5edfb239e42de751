"""Models of linear regression."""
