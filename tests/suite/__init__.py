"""How a run of the tests goes: in which process each runs, how many examples are tried, and how long it may take."""
