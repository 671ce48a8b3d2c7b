"""One contract suite per port; every adapter inherits it, the in-memory one included."""
