"""Reports as single HTML files, with charts, that need nothing else."""
