"""Recovery after an unclean end: restores bookkeeping, salvages files, reports a cut log, reads SQLite's raw pages."""
