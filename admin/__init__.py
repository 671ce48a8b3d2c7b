"""What people ask of the bus: configuration, search, traces, resends, spools, health."""
