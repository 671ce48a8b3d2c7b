"""Norms of hourly series, in numpy: no Spark here."""
