"""Models of second moments."""
