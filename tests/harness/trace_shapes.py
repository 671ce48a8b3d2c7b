"""Every shape of a trace that the domain allows: what is written of it to a store, and what events tell of it.

Each shape is a message of its own with one delivery. What may still happen to some of them is in a partition of its
own, since an archive leaves such a partition alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, product
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from bus.domain.delivery.delivery import FINAL, Compensation, Delivery, Origin, Outcome, Resend, Status, due_row
from bus.domain.delivery.reasons import NOT_AGAIN
from bus.domain.destination import Destination
from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.domain.subscription import PAUSED_BY_410, PAUSED_BY_PERSON, Subscription
from bus.domain.tracing import events
from bus.domain.tracing.events import TraceEvent
from bus.ports.store import Store
from bus.registry import DESTINATIONS, SUBSCRIPTIONS
from bus.testing.writes import NOON, attempt, message, outcome

OPEN_DAYS: Final = 7
PAUSED: Final = {"by-person": PAUSED_BY_PERSON, "by-410": PAUSED_BY_410}
_FINDINGS: Final = {
    Status.PENDING: "held",
    Status.RETRYING: "under_way",
    Status.RESEND: "under_way",
    Status.DEAD: "dead",
    Status.PARKED: "parked",
}
_TRIED: Final = (Status.RETRYING, Status.DELIVERED, Status.DEAD)
_ALONE: Final = (Status.SKIPPED, Status.CANCELED, Status.RESEND)  # what comes about without a POST
_FIRST, _LAST, _NEVER = "first", "last", "never"
_LATER: Final = 3_600_000


class Shape(NamedTuple):
    """One message.

    Attributes
    ----------
    name
        What is special about it.
    writes, due
        What the store gets, in this order.
    told
        What events tell of it.
    finding
        What a proof finds of its delivery; empty for one that is simply done.
    """

    name: str
    writes: list[Message | Outcome]
    due: list[Compensation]
    told: list[TraceEvent]
    finding: str
    subscription: str = "shop"

    @property
    def id(self) -> str:
        """The message's id."""
        first = self.writes[0]
        return first.id if isinstance(first, Message) else first.message_id

    @property
    def has_arrived(self) -> bool:
        """Whether the message itself came to the store, and not only outcomes."""
        return any(isinstance(write, Message) for write in self.writes)

    @property
    def is_unfinished(self) -> bool:
        """Whether something is still to happen to it."""
        return not self.has_arrived or self.finding in ("held", "under_way")


def every_shape(start: int = NOON) -> list[Shape]:
    """Return all shapes; their ids are of the first second from ``start`` (ms), so that none is passed by another."""
    times = count(start + 1)
    plain = [
        _of_state(next(times), *state)
        for state in product(Status, range(3), range(2), (_FIRST, _LAST, _NEVER))
        if _is_allowed(*state)
    ]
    return [
        *plain,
        *(_paused(next(times), name) for name in PAUSED),
        _scheduled(next(times)),
        _for_nobody(next(times)),
        _tried_for_days(next(times)),
        _bare_attempt(next(times)),
        _dead_at_once(next(times)),
    ]


async def fill(store: Store, shapes: Iterable[Shape]) -> None:
    """Write all of them, and the configuration that they are of."""
    destination = Destination(code="orders")
    await store.put(DESTINATIONS, "orders", msgspec.json.encode(destination))
    for name in ("shop", *PAUSED):
        reason = PAUSED.get(name, "")
        made = Subscription(
            destination="orders", name=name, url="http://subscriber/hook", paused=bool(reason), paused_reason=reason
        )
        await store.put(SUBSCRIPTIONS, f"orders/{name}", msgspec.json.encode(made))
    for shape in shapes:
        await store.write(shape.writes)
        await store.compensate(shape.due)
    await store.close()


def _is_allowed(status: Status, attempts: int, generation: int, arrives: str) -> bool:
    if status is Status.PENDING:
        return (attempts, generation, arrives) == (0, 0, _FIRST)
    return not (status in _TRIED and not attempts) and not (status is Status.RESEND and not generation)


def _of_state(at: int, status: Status, attempts: int, generation: int, arrives: str) -> Shape:
    """Return a delivery that came to a state after some POSTs, in its first life or after a resend of a dead one."""
    sent = _message(at, ends=status in FINAL)
    lives = [_life(sent, Status.DEAD, 1, 0)] if generation else []
    if status is not Status.PENDING:
        lives.append(_life(sent, status, attempts, generation))
    outcomes = [each for life in lives for each in life]
    told = [_event(each, sent) for each in outcomes if each.status is not Status.RESEND]
    if arrives != _NEVER:
        told = [events.accepted(sent), events.published(sent, "direct", confirmed=True, at=sent.received_at), *told]
    writes: list[Message | Outcome] = {
        _FIRST: [sent, *outcomes],
        _LAST: [*outcomes, sent],
        _NEVER: list[Message | Outcome](outcomes),
    }[arrives]
    name = f"{status} after {attempts} in generation {generation}, message {arrives}"
    return Shape(name, writes, [], told, _FINDINGS.get(status, ""))


def _message(at: int, *, ends: bool = False, **changes: Any) -> Message:
    """Return a message that is made at a time; one that ``ends`` is kept longer than those of which more may come."""
    times = {"id": new_id(at), "sent_at": at, "received_at": at + 2}
    return message(**{"expected": ("shop",), "retention_days": 30 if ends else OPEN_DAYS, **times, **changes})


def _life(sent: Message, status: Status, attempts: int, generation: int) -> list[Outcome]:
    """Return the outcomes of one generation, each POST but the last being retried."""
    first = generation + 1  # of the generation before there was one POST
    posts = [outcome(sent, "shop", Status.RETRYING, first + place, generation=generation) for place in range(attempts)]
    at, made = sent.received_at + 1_000, generation + attempts
    begun = Resend(generation, "", "ann", "again", at) if generation else None
    if status in _ALONE or not attempts:
        end = outcome(sent, "shop", status, made, generation=generation, attempt=None, at=at, reason="by hand")
        return [*posts, replace(end, resend=begun, due_at=at if status is Status.RESEND else 0)]
    return [*posts[:-1], outcome(sent, "shop", status, made, generation=generation, resend=begun)]


def _event(found: Outcome, sent: Message) -> TraceEvent:
    return events.canceled(found) if found.status is Status.CANCELED else events.settled(found, sent)


def _paused(at: int, name: str) -> Shape:
    sent = _message(at, expected=(name,))
    handed = events.handed(Delivery(sent, name, by=Origin.STUCK), sent.received_at + 5)
    return Shape(f"paused {name}", [sent], [], [events.accepted(sent), handed], "held", name)


def _scheduled(at: int) -> Shape:
    sent = _message(at, deliver_at=at + 24 * _LATER)
    return Shape("scheduled", [sent], [due_row(sent)], [events.accepted(sent)], "under_way")


def _for_nobody(at: int) -> Shape:
    sent = _message(at, ends=True, expected=(), replay=f"again {new_id(at)}", edited_from=new_id(at))
    return Shape("for nobody", [sent], [], [events.accepted(sent)], "", "")


def _tried_for_days(at: int) -> Shape:
    """Return more POSTs than a trace keeps."""
    sent = _message(at)
    posts = [outcome(sent, "shop", Status.RETRYING, place) for place in range(1, 1_101)]
    return Shape("tried for days", [sent, *posts], [], [events.accepted(sent), _event(posts[-1], sent)], "under_way")


def _bare_attempt(at: int) -> Shape:
    """Return a POST that nobody answered, of a message without anything that may be left out."""
    sent = _message(at, ends=True, source="", biz_id="", body=b"", sent_at=0)
    bare = replace(attempt("a", 1, at), status_code=None, error="", phases=(None,) * 6, node="")
    end = outcome(sent, "shop", Status.PARKED, attempt=bare)
    return Shape("bare", [sent, end], [], [events.accepted(sent), _event(end, sent)], "parked")


def _dead_at_once(at: int) -> Shape:
    """Return a delivery that its subscription gave up after the first attempt, since it was refused."""
    sent = _message(at, ends=True)
    refused = replace(attempt("a", 1, at), status_code=422, error="")
    end = outcome(sent, "shop", Status.DEAD, attempt=refused, reason=f"HTTP 422{NOT_AGAIN}")
    return Shape("dead after the first attempt", [sent, end], [], [events.accepted(sent), _event(end, sent)], "dead")
