"""What each command of ``bus pipeline`` does: opens a session, runs a job, shows how it goes."""
