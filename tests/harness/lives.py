"""Lives of messages, step by step: its event, and its write into the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from bus.domain.delivery.delivery import Compensation, Delivery, Origin, Outcome, Resend, Status, due_row
from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.domain.tracing import events
from bus.domain.tracing.events import Stage, TraceEvent
from bus.testing.writes import message, outcome

_DAY: Final = 24 * 3_600_000


class Step(NamedTuple):
    """One step; ``write`` is what the store gets of it, ``due`` work of the compensator beside that."""

    name: str
    event: TraceEvent | None = None
    write: Message | Outcome | None = None
    due: Compensation | None = None


Life = Callable[[Message], list[Step]]


def made(destination: str, at: int, **changes: Any) -> Message:
    """Return a message that was made at a time (ms)."""
    times = {"id": new_id(at), "sent_at": at, "received_at": at + 2}
    return message(**{"destination": destination, "expected": ("shop",), **times, **changes})


def delivered(of: Message) -> list[Step]:
    return [*published(of), _end(of, Status.DELIVERED)]


def published(of: Message) -> list[Step]:
    return [*accepted(of), Step("published", events.published(of, "direct", confirmed=True, at=of.received_at + 1))]


def accepted(of: Message) -> list[Step]:
    return [Step("accepted", events.accepted(of), of)]


def sent(of: Message) -> list[Step]:
    """Return the life of a message that waits on its producer's disk."""
    return [Step("sent", TraceEvent(Stage.SENT, of.sent_at, of.id, of.destination))]


def sent_and_delivered(of: Message) -> list[Step]:
    return [*sent(of), *delivered(of)]


def unsubscribed(of: Message) -> list[Step]:
    return accepted(replace(of, expected=()))


def scheduled(of: Message) -> list[Step]:
    later = replace(of, deliver_at=of.sent_at + 30 * _DAY)
    return [Step("accepted", events.accepted(later), later, due_row(later))]


def edited(of: Message) -> list[Step]:
    """Return the life of a message that a person made of another: its transport is due work in the store."""
    first, _, end = delivered(replace(of, edited_from=new_id(of.sent_at - 1)))
    return [first, Step("published", events.published(of, "store", confirmed=True, at=of.received_at + 1)), end]


def accepted_twice(of: Message) -> list[Step]:
    """Return the life of a message of which two receivers accepted the same id."""
    return [Step("accepted again", events.accepted(replace(of, received_at=of.received_at + 1))), *delivered(of)]


def handed(of: Message) -> list[Step]:
    """Return the life of a message that no transport took, and that a compensator handed to a dispatcher."""
    refused = events.published(of, "kafka", confirmed=False, at=of.received_at + 1)
    return [
        *accepted(of),
        Step("refused", refused),
        Step("handed", events.handed(Delivery(of, "shop", by=Origin.STUCK), of.received_at + 5)),
        _end(of, Status.DELIVERED),
    ]


def to_two(of: Message) -> list[Step]:
    both = replace(of, expected=("mail", "shop"))
    mail = _end(both, Status.DELIVERED, subscription="mail")._replace(name="delivered to mail")
    return [*published(both), mail, _end(both, Status.DELIVERED)]


def retrying(of: Message) -> list[Step]:
    return [*published(of), _end(of, Status.RETRYING)]


def retried(of: Message) -> list[Step]:
    return [*retrying(of), _end(of, Status.DELIVERED, 2)]


def dead(of: Message) -> list[Step]:
    return [*retrying(of), _end(of, Status.DEAD, 2)]


def parked(of: Message) -> list[Step]:
    return [*published(of), _end(of, Status.PARKED)]


def skipped(of: Message) -> list[Step]:
    return [*published(of), _end(of, Status.SKIPPED, attempt=None)]


def canceled(of: Message) -> list[Step]:
    return [*published(of), _canceled(of)]


def canceled_retry(of: Message) -> list[Step]:
    return [*retrying(of), _canceled(of)]


def delivered_twice(of: Message) -> list[Step]:
    again = _end(of, Status.DELIVERED, 2)
    return [*delivered(of), again._replace(name="delivered again")]


def resend_waiting(of: Message) -> list[Step]:
    return [*delivered(of), _resend(of)]


def dead_resend_waiting(of: Message) -> list[Step]:
    return [*dead(of), _resend(of)]


def resend_handed(of: Message) -> list[Step]:
    delivery = Delivery(of, "shop", by=Origin.RESEND, generation=1)
    return [*resend_waiting(of), Step("handed", events.handed(delivery, of.received_at + 40))]


def resent(of: Message) -> list[Step]:
    again = _end(of, Status.DELIVERED, 2, generation=1)
    return [*resend_waiting(of), again._replace(name="delivered again")]


def resent_and_dead(of: Message) -> list[Step]:
    return [*resend_waiting(of), _end(of, Status.DEAD, 2, generation=1)]


def _end(of: Message, status: Status, attempts: int = 1, *, subscription: str = "shop", **changes: Any) -> Step:
    found = outcome(of, subscription, status, attempts, **changes)
    return Step(status.value, events.settled(found, of), found)


def _canceled(of: Message) -> Step:
    found = outcome(of, "shop", Status.CANCELED, 1, attempt=None, reason="the subscription was removed")
    return Step("canceled", events.canceled(found), found)


def _resend(of: Message) -> Step:
    at = of.received_at + 30
    begun = Resend(1, "", "ann", "again", at)
    write = outcome(of, "shop", Status.RESEND, 1, generation=1, attempt=None, resend=begun, at=at, due_at=at)
    return Step("resend", None, write)


LIVES: Final[Mapping[str, Life]] = {
    life.__name__: life
    for life in (
        *(accepted, accepted_twice, canceled, canceled_retry, dead, dead_resend_waiting, delivered, delivered_twice),
        *(edited, handed, parked, published, resend_handed, resend_waiting, resent, resent_and_dead, retried, retrying),
        *(scheduled, sent, sent_and_delivered, skipped, to_two, unsubscribed),
    )
}
