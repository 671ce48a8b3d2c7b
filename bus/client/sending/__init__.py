"""Sending from spools to the receivers: from this process's own spool, and from orphaned ones."""
