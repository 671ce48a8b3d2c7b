"""Spool directories of producers: streams, lines that are records, leases, and the writer."""
