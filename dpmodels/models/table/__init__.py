"""Tables, quantiles and tests, the steps before a regression. ``theory.md`` has the proofs."""
