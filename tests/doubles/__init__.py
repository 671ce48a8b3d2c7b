"""Stand-ins for servers that cannot be installed: they speak the protocols, and do as they are told."""
