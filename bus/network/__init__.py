"""The network below all clients: names to addresses, and addresses to connections."""
