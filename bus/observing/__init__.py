"""The whole bus as one process sees it, for those who show it and those who tell people of it."""
