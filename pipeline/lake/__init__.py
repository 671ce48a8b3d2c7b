"""The lake: Parquet files that count only once a manifest names them."""
