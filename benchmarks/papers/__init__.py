"""The published tables and figures again: a script a paper, an argument an item."""
