"""Pure functions from DataFrames to DataFrames; expressions of the JVM only, no Python per row."""
