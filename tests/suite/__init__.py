"""The setup of a test run: processes, number of examples, and time limits."""
