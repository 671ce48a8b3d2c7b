"""The admin role: configuration, search, traces, resends, health, and the pages."""
