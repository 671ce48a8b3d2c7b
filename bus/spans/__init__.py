"""Spans on their way out of a process: recorded, encoded as OTLP, sent to a collector."""
