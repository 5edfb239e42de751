"""Panels: effects of each person taken off by own rows, linear and Poisson."""
