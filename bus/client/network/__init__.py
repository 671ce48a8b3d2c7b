"""Connections to receivers: one or those that it names, with backoff."""
