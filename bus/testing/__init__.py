"""In-memory adapters and contract suites, shipped so that others can verify an adapter of their own."""
