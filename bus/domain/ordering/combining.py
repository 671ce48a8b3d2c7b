"""Settings that cannot be combined with an order."""

from __future__ import annotations

from collections.abc import Iterable

from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.subscription import Subscription
from bus.errors import InvalidMessage
from bus.localized_text import localized

_GROUPED = frozenset({TransportName.KAFKA, TransportName.RABBITMQ})


def check_order(known: Destination | None, wanted: Destination, subscriptions: Iterable[Subscription]) -> None:
    """Raise ``InvalidMessage`` when a destination cannot keep the order that it is to keep, or had."""
    if known is not None and (known.ordering is Ordering.STRICT) is not (wanted.ordering is Ordering.STRICT):
        raise InvalidMessage(
            localized("a destination is strictly ordered from its beginning, or not at all"),
            hint=localized("make another destination, and have its producers send to that"),
            field="ordering",
        )
    if wanted.ordering is Ordering.NONE:
        return
    if wanted.ordering is Ordering.STRICT and wanted.transport not in _GROUPED:
        raise InvalidMessage(
            localized("the transport {transport} keeps no strict order", transport=wanted.transport),
            hint=localized("use Kafka or RabbitMQ with groups of brokers, or the ordering key"),
            field="ordering",
        )
    if known is not None and known.ordering is not Ordering.NONE and known.transport is not wanted.transport:
        raise InvalidMessage(
            localized(
                "a destination that keeps an order stays on its transport: messages would overtake on the new one"
            ),
            hint=localized("pause the producers, wait until nothing is left, and set the ordering to none first"),
            field="transport",
        )
    for subscription in subscriptions:
        check_batch(wanted, subscription)


def check_batch(destination: Destination, subscription: Subscription) -> None:
    """Raise ``InvalidMessage`` when a subscription takes batches of a destination that keeps an order."""
    if destination.ordering is not Ordering.NONE and subscription.batch > 1:
        raise InvalidMessage(
            localized(
                "{name} takes batches, of which some messages may fail and others not; {code} keeps an order",
                name=subscription.name,
                code=destination.code,
            ),
            hint=localized("set its batch to 1, or the ordering to none"),
            field="batch",
        )
