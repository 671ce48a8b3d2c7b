"""Youzan's fork of NSQ (0.3.7-HA) as one process: nsqds with partitions, leaders and ordered channels, and nsqlookupds.

It keeps to what the fork's servers were seen to do on the wire, and moves leaders, stops writes and loses partitions
when it is told to. ``running.YouzanDouble`` starts one; ``oracle`` has a program with the fork's own client.
"""
