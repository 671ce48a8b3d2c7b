"""Ports: the bus's needs from outside, as Protocols; every adapter of a port passes the same contract suite."""
