"""Accepts messages durably, publishes them to their transport and writes them to the store."""
