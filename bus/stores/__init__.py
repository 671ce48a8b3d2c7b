"""Stores of traces, unfinished work and configuration; stores do not depend on each other."""
