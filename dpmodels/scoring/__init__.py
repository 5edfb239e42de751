"""Private Fisher scoring: one release of clipped scores at a released fit, and one Newton step."""
