"""RabbitmqGroup: three nodes that keep a copy each of what has a strict order."""

from bus.transports.rabbitmq.strict.group import PATIENCE, RabbitmqGroup

__all__ = ["PATIENCE", "RabbitmqGroup"]
