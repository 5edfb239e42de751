"""Releases that have a proof of their own: the note of each stands in its first line."""
