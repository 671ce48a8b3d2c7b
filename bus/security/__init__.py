"""Who may call the bus, whom the bus may call, and how a subscriber knows that it was the bus."""
