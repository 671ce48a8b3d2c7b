"""A proxy in front of the nsqlookupds of several rooms, which any NSQ client takes for an nsqlookupd."""
