"""Stores of traces, unfinished work and configuration; stores do not know each other."""
