"""A proxy in front of the nsqlookupds of several sites, which any NSQ client takes for an nsqlookupd."""
