"""Requests that the client library lacks: metadata, administration with errors, ends with a deadline."""
