"""Local queues whose process is gone: they are found, their records moved on, and then they are removed."""
