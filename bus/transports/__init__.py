"""Transports from the receiver to the dispatcher; they do not know each other."""
