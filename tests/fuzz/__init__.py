"""Parsers of what strangers send, each fed with inputs that a coverage-guided fuzzer makes of examples."""
