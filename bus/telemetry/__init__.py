"""Metrics and logs of the bus."""
