"""Partition files: one for each day of ids and retention class."""
