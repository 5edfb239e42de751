"""Exact sums of rows: maps into sets, products, cells, and the request for a noisy sum."""
