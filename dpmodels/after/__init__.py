"""Mathematics of released numbers: pure functions without imports from other packages.

Nothing here depends on a fit, a plan or a row. ``theory.md`` beside this file states what is
proved.
"""
