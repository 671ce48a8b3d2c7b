"""Counters over time, and figures derived from them."""
