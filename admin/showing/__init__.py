"""Views of messages and of the bus, limited to the rights of the reader."""
