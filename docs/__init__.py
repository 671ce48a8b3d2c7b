"""What people read; ``docs.site`` makes a site of it."""
