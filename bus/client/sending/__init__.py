"""From a spool to the receivers: this process's own, and those of processes that are gone."""
