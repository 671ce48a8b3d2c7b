"""Several processes that are one bus: who is there, what each holds, and the way from one to another."""
