"""Trace events of a producer: written beside its spool, and shipped."""
