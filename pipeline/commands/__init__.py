"""Commands of ``bus pipeline``: each opens a session, runs a job, and shows its progress."""
