"""Local queues whose owner is gone: found, emptied to where they were going, and removed."""
