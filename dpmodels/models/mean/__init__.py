"""Models of means."""
