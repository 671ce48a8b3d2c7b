"""RabbitMQ as a transport."""

from bus.transports.rabbitmq.config import ClusterUrl, Patience, RabbitmqConfig, parse_cluster
from bus.transports.rabbitmq.transport import BACKUP, PRIMARY, RabbitmqTransport

__all__ = ["BACKUP", "PRIMARY", "ClusterUrl", "Patience", "RabbitmqConfig", "RabbitmqTransport", "parse_cluster"]
