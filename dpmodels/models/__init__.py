"""Rooms by what is estimated; each has methods, plans, releases, estimates and its theory."""
