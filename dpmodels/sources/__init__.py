"""Any table becomes chunks of named columns. Private rows live here and nowhere further.

Estimation, inference and reporting never import this room; a test of the import graph keeps it so.
"""
