"""Propose-Test-Release and its efficient form: test that the data are safe, then answer."""
