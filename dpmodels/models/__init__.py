"""Methods by subject; each package has methods, plans, releases, estimates and its theory."""
