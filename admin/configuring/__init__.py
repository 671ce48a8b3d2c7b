"""The configuration as written in requests and files: one resource, or a whole set."""
