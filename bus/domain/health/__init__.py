"""Alarms, and the health that each process reports."""
