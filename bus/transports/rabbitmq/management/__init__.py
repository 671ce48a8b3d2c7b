"""The management plugin of RabbitMQ."""

from bus.transports.rabbitmq.management.api import Management
from bus.transports.rabbitmq.management.config import ManagementUrl, parse_management

__all__ = ["Management", "ManagementUrl", "parse_management"]
