"""Counters over time, and what people read in them."""
