"""Coordinators: where strictly ordered destinations agree, when that is not the store."""
