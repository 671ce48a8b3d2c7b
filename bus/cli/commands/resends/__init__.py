"""Deliveries that are made again, and deliveries that are discarded."""
