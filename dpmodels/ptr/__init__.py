"""Propose-Test-Release and its efficient form: test privately that the data are safe, then answer."""
