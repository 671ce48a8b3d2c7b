"""Watches the clock: due and stuck deliveries, messages to publish later, partitions past their retention."""
