"""Transports from the receiver to the dispatcher; no transport depends on another one."""
