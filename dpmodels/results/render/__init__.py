"""Renderers of a summary. Each module has ``render(summary) -> str``; none computes a number."""
