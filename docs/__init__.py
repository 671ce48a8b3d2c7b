"""The documentation; ``docs.site`` builds its site."""
