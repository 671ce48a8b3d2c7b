"""Bodies of the admin API; unknown fields are refused, fields not sent keep their defaults."""
