"""Releases with separate proofs: each file names its note in its first line."""
