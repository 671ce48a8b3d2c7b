"""Exclusive sending to a strictly ordered destination: the lease, confirms and the end of the lease."""
