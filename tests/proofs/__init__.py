"""Proofs: the long versions of the tests, run in parts, whose figures are kept in ``docs/proofs``."""
