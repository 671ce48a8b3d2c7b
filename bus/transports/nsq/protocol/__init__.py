"""NSQ's protocols as bytes and documents: nothing here decides anything."""
