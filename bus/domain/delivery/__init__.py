"""The delivery of one message to one subscription: attempts, retries, concurrency, verdicts."""
