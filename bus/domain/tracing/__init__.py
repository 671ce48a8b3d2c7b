"""The trace of a message: trace events, failures, partition."""
