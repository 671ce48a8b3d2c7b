"""Takes messages from the transports and POSTs them to each subscriber; an outcome is recorded before the ack."""
