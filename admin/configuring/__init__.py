"""The configuration as people write it: one resource, or a whole set."""
