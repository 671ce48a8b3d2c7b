"""Sending alone to a strictly ordered destination: the lease, who waits for its confirms, and how it ends."""
