"""Opening what is not as it was left: bookkeeping restored, files salvaged, a cut log told, SQLite read raw."""
