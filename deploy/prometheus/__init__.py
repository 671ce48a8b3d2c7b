"""Configuration and alarms for Prometheus."""
