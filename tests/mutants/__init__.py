"""Faults that each break one promise, put into a copy of the tree one at a time: which of them do the tests catch?"""
