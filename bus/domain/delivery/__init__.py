"""What becomes of one message for one subscription: attempts, retries, permits, verdicts."""
