"""What acceptance tests and benchmarks share: processes of the bus, a subscriber, a producer, and the checker."""
