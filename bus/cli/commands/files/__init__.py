"""Commands that work on the bus's files, with or without a bus that runs."""
