"""RabbitmqGroup: three nodes that each keep a copy of strictly ordered destinations."""

from bus.transports.rabbitmq.strict.group import PATIENCE, RabbitmqGroup

__all__ = ["PATIENCE", "RabbitmqGroup"]
