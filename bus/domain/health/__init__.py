"""What needs a person, and what a process tells of how it is."""
