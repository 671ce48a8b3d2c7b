"""Spool directories of producers: lanes, lines that are records, leases, and the writer."""
