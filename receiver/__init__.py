"""Accepts messages durably, publishes them to their road and writes them to the store."""
