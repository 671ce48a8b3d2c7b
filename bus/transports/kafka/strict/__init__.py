"""Two brokers of a Kafka cluster as a group that keeps a strict order (`bus.ports.broker_group`)."""

from bus.transports.kafka.strict.group import KafkaGroup

__all__ = ["KafkaGroup"]
