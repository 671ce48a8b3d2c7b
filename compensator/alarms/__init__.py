"""Tells people of what needs them: a role of its own, whose road depends on nothing that it watches."""
