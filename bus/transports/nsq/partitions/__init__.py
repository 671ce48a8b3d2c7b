"""Clusters of Youzan's fork of NSQ, whose topics have partitions: where they are, and what is published to them."""
