"""Notifies people of problems: a role of its own, whose channels depend on nothing that it watches."""
