"""What is usual for a series of hours, in numpy: no Spark here."""
