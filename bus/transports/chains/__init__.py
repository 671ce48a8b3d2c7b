"""Strictly ordered destinations: written to one group of brokers after the other, and read in that order."""
