"""Clusters of Youzan's fork of NSQ, whose topics have partitions: their layout, and publishing to them."""
