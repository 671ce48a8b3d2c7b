"""Deployment of the bus; the Python in here generates files."""
