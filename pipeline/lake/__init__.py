"""The lake: Parquet files that are part of a table only once a manifest names them."""
