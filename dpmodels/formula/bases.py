"""Several columns from one number: splines with public knots, polynomials."""
