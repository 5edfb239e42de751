"""Models of a noised table: any number of analyses of one release."""
