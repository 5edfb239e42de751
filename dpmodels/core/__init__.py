"""The wall around rows: opaque rows, sets that clip and sum them, and methods as programs."""
