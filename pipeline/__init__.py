"""The data pipeline: Spark jobs over trace events and the store, each ``read -> pure transform -> write``."""
