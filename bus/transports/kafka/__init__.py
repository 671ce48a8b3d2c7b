"""Kafka as a road; needs the extra ``kafka``."""

from bus.transports.kafka.config import KafkaConfig, bootstrap_servers
from bus.transports.kafka.transport import KafkaTransport

__all__ = ["KafkaConfig", "KafkaTransport", "bootstrap_servers"]
