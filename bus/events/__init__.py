"""Trace events on their way out of a process: gathered in memory, closed into blocks, written to files."""
