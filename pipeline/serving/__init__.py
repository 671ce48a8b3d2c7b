"""``bus pipeline serve``: one Spark session that stays, and runs the rollup and all other jobs."""
