"""The hops of a message: its trace as one list in the order of time, with gaps marked.

Times are of the clocks of several machines: a step may seem to take no time, or to come before another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bus.domain.delivery.delivery import FINAL, Attempt, Origin, Resend, Status
from bus.domain.delivery.intervention import Intervention
from bus.domain.delivery.reasons import reason_of
from bus.domain.delivery.receipt import Receipt
from bus.domain.message import Message
from bus.domain.times import format_time
from bus.domain.tracing.trace import DeliveryTrace, Trace
from bus.localized_text import N_, AnyText, localized

_ATTEMPT: Final = {
    Origin.TRANSPORT: N_("attempt {n}"),
    Origin.RETRY: N_("attempt {n}, a retry"),
    Origin.STUCK: N_("attempt {n}, stuck until the compensator handed it over"),
    Origin.RESEND: N_("attempt {n}, a resend"),
}
_ENDED: Final = {
    Status.DELIVERED: N_("delivered"),
    Status.SKIPPED: N_("skipped"),
    Status.CANCELED: N_("canceled"),
    Status.PARKED: N_("parked"),
    Status.DEAD: N_("dead"),
}


class Hop(NamedTuple):
    """One step of a message.

    Attributes
    ----------
    at
        Milliseconds since the epoch; None where that is not known.
    place
        ``producer``, ``receiver``, ``dispatcher``, ``subscriber``, ``compensator``, ``person``, or a transport's name.
    what
        A sentence, or what the subscriber's side said.
    subscription, node, attempt
        Of which delivery, on which process, and the id of the attempt; empty where there is none.
    is_missing
        The step says that something is missing which should be known.
    """

    at: int | None
    place: str
    what: AnyText
    subscription: str = ""
    node: str = ""
    attempt: str = ""
    is_missing: bool = False


def hops_of(trace: Trace, attempts: Mapping[str, Sequence[Attempt]], carrier: str) -> list[Hop]:
    """Return the steps of a message in the order of time.

    Parameters
    ----------
    attempts
        The attempts to include, by subscription and in order; a step says that others are left out.
    carrier
        The place from which dispatchers take it: the transport's name, or ``dispatcher`` where there is none between.

    Returns
    -------
    list
        A step without a time comes first when it is about the message, else last.
    """
    message = trace.message
    hops = [_NOT_ARRIVED] if message is None else list(_arrival(message, trace))
    for name, delivery in sorted(trace.deliveries.items()):
        hops += _delivery(name, delivery, attempts.get(name, ()), carrier)
    known = sorted((hop for hop in hops if hop.at is not None), key=_at)
    return [hop for hop in hops if hop is _NOT_ARRIVED] + known + [hop for hop in hops if _is_open(hop)]


_NOT_ARRIVED: Final = Hop(
    None,
    "receiver",
    localized("the message itself has not arrived in the store; what is known comes from dispatchers"),
    is_missing=True,
)


def _arrival(message: Message, trace: Trace) -> Iterable[Hop]:
    if message.edited_from:
        yield Hop(message.sent_at, "person", localized("made of {message} by editing", message=message.edited_from))
    else:
        sent = localized("sent by {source}", source=message.source) if message.source else localized("sent")
        yield Hop(message.sent_at or None, "producer", sent)
    yield Hop(message.received_at, "receiver", localized("received, {count} bytes", count=trace.body_bytes))
    if message.deliver_at > message.received_at:
        yield Hop(message.deliver_at, "compensator", localized("time to deliver it"))
    if not trace.deliveries:
        yield Hop(message.received_at, "receiver", localized("no subscription takes it"))


def _delivery(name: str, delivery: DeliveryTrace, attempts: Sequence[Attempt], carrier: str) -> Iterable[Hop]:
    for resend in delivery.resends:
        yield Hop(resend.at, "person", _resent(resend), name)
    before = 0
    for attempt in attempts:
        if attempt.n > before + 1:
            yield _left_out(name, before + 1, attempt.n - 1, attempt.started_at)
        yield from _attempt(name, attempt, carrier)
        before = max(before, attempt.n)
    if before < delivery.attempts_made:
        yield _left_out(name, before + 1, delivery.attempts_made, delivery.at)
    yield from _state(name, delivery, carrier)


def _resent(resend: Resend) -> AnyText:
    if not resend.reason:
        return localized("resent by {name}", name=resend.by)
    return localized("resent by {name}: {reason}", name=resend.by, reason=reason_of(resend.reason, by=resend.by))


def _left_out(name: str, first: int, last: int, at: int) -> Hop:
    if first == last:
        return Hop(at, "dispatcher", localized("attempt {n} is not told here", n=first), name, is_missing=True)
    what = localized("attempts {first} to {last} are not told here", first=first, last=last)
    return Hop(at, "dispatcher", what, name, is_missing=True)


def _attempt(name: str, attempt: Attempt, carrier: str) -> Iterable[Hop]:
    if attempt.taken_at:
        yield Hop(attempt.taken_at, carrier, _taken(attempt.receipt), name, attempt.node, attempt.id)
    what = localized(_ATTEMPT[attempt.by], n=attempt.n)
    yield Hop(attempt.started_at, "dispatcher", what, name, attempt.node, attempt.id)
    answer = attempt.error or localized("answered HTTP {status}", status=str(attempt.status_code))
    ended = attempt.started_at + round(attempt.duration)
    yield Hop(ended, "subscriber", answer, name, attempt.node, attempt.id)


def _taken(receipt: Receipt | None) -> AnyText:
    """Return the hop at which a dispatcher took a message over, with its broker's receipt."""
    if receipt is None:
        return localized("taken over by a dispatcher")
    told: dict[str, int | AnyText] = {
        "server": receipt.server,
        "id": receipt.id,
        "time": format_time(receipt.at),
        "n": receipt.times,
    }
    if receipt.partition is None:
        return localized("taken over by a dispatcher from {server}: {id}, there since {time}, sent {n} times", **told)
    told |= {"partition": receipt.partition, "trace": receipt.trace_id or "0"}
    if receipt.offset is None or receipt.size is None:
        return localized(
            "taken over by a dispatcher from {server}, partition {partition}: id {id}, trace id {trace}, "
            "there since {time}, sent {n} times",
            **told,
        )
    return localized(
        "taken over by a dispatcher from {server}, partition {partition}: id {id}, trace id {trace}, "
        "{size} bytes at {offset}, there since {time}, sent {n} times",
        **told,
        size=receipt.size,
        offset=receipt.offset,
    )


def _state(name: str, delivery: DeliveryTrace, carrier: str) -> Iterable[Hop]:
    if delivery.status in FINAL:
        ended: AnyText = localized(_ENDED[delivery.status])
        if delivery.reason:
            ended = localized("{state}: {reason}", state=ended, reason=reason_of(delivery.reason))
        by_a_person = Intervention.parse(delivery.reason)
        yield Hop(delivery.at, "person" if by_a_person else "dispatcher", ended, name)
    elif delivery.status is Status.PENDING and delivery.reason:
        yield Hop(delivery.at, "dispatcher", reason_of(delivery.reason), name)
    elif delivery.status is Status.PENDING:
        yield Hop(None, carrier, localized("no dispatcher has told of it yet"), name, is_missing=True)
    else:
        yield Hop(delivery.due_at, "compensator", localized("the next attempt is due"), name)


def _at(hop: Hop) -> int:
    return hop.at or 0


def _is_open(hop: Hop) -> bool:
    return hop.at is None and hop is not _NOT_ARRIVED
