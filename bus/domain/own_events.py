"""Events of the bus itself, as messages of a destination that everyone may subscribe to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.domain.times import format_time

CODE: Final = "bus.events"
"""The destination; while there is none, no event is published."""
_EACH: Final = 200
"""Most deaths at once that are published one by one; of the others only their number."""


class OwnEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event, which is the body of its message.

    Attributes
    ----------
    id
        Of its message.
    key
        Key of the subject, the same each time that it is published: it is kept once.
    type
        Such as ``delivery.dead``; docs/events.md has all.
    at
        When, as RFC 3339.
    """

    id: str
    key: str
    type: str
    at: str
    destination: str = ""
    subscription: str = ""
    data: Mapping[str, Any] = {}


def own_event(type_: str, key: str, at: int, destination: str = "", subscription: str = "", **data: Any) -> OwnEvent:
    """Return an event that happened at a time (ms)."""
    return OwnEvent(
        id=new_id(at),
        key=f"{at:015d}:{type_}:{key}",  # in the order in which they happened
        type=type_,
        at=format_time(at),
        destination=destination,
        subscription=subscription,
        data=data,
    )


def deaths(writes: Iterable[Message | Outcome]) -> Iterator[OwnEvent]:
    """Yield an event for each delivery that died, but for those of events; of very many, the rest as counts."""
    dead = [one for one in writes if isinstance(one, Outcome) and one.status is Status.DEAD and one.destination != CODE]
    for one in dead[:_EACH]:
        yield own_event(
            "delivery.dead",
            f"{one.message_id}/{one.subscription}/{one.generation}",
            one.at,
            one.destination,
            one.subscription,
            message_id=one.message_id,
            reason=one.reason,
            attempts=one.attempts,
        )
    rest = Counter((one.destination, one.subscription) for one in dead[_EACH:])
    for (destination, subscription), count in rest.items():
        last = dead[-1]
        key = f"{destination}/{subscription}/{last.message_id}/{last.generation}"
        yield own_event("deliveries.dead", key, last.at, destination, subscription, count=count)
