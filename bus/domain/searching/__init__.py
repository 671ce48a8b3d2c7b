"""Searches: their conditions, and masks of their results."""
