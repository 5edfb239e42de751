"""Models of the Gaussian Bayes classifier."""
