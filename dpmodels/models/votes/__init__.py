"""Models of votes."""
