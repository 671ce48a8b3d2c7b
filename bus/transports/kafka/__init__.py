"""Kafka as a transport; needs the extra ``kafka``."""

from bus.transports.kafka.config import KafkaConfig, parse_bootstrap
from bus.transports.kafka.event_sink import KafkaEventSink
from bus.transports.kafka.transport import KafkaTransport

__all__ = ["KafkaConfig", "KafkaEventSink", "KafkaTransport", "parse_bootstrap"]
