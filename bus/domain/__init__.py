"""The rules of the bus, without any I/O."""
