"""Youzan's fork of NSQ (0.3.7-HA) as one process: nsqds with partitions, leaders and ordered channels, and nsqlookupds.

It keeps to what the fork's servers were seen to do on the wire, and when it is told to, moves leaders, also to who is
behind, stops writes, loses partitions and answers, and hangs. ``running.YouzanDouble`` starts one; ``oracle`` has a
program with the fork's own client.
"""
