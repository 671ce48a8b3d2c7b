"""Where traces, unfinished work and configuration rest; stores do not know each other."""
