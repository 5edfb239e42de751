"""The mathematics of what is done with released numbers: pure functions, ground floor.

Nothing here knows a fit, a plan or a row. ``theory.md`` beside this file states what is proved.
"""
