"""The order of a subscription's deliveries: what of it is in memory, and its rows in the store."""
