"""New releases about a fit that exists: its performance on held-out rows, its diagnostics."""
