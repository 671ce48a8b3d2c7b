"""Shared parts of acceptance tests and benchmarks: processes of the bus, a subscriber, a producer, the checker."""
