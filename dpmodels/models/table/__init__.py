"""Tables, quantiles and tests: what comes before a regression. ``theory.md`` has the proofs."""
