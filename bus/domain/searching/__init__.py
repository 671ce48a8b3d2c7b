"""What a search asks for, and what it may show."""
