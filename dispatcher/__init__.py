"""Takes messages from the roads and POSTs them to each subscriber's URL; every outcome is recorded before the ack."""
