"""What the documents quote was measured here. A package, so that no installed one is taken for it."""
