"""Rules of routing NSQ topics over clusters in several sites."""
