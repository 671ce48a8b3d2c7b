"""The reason why a delivery has not ended yet, or holds up others, from the present state of the bus.

No process has the place of each single message. So the statements on queues and slots hold for its subscription as a
whole, and the texts claim no more than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bus.domain.delivery.delivery import Status
from bus.domain.delivery.reasons import reason_of
from bus.domain.destination import Destination
from bus.domain.health.vitals import BreakerFigures, WorkerFigures
from bus.domain.identity import id_time
from bus.domain.subscription import Subscription
from bus.domain.times import format_time
from bus.domain.tracing.trace import Trace
from bus.localized_text import AnyText, LocalizedText, localized

_BY_THE_CLOCK: Final = (Status.RETRYING, Status.RESEND)
_BEHIND: Final = 5000  # ms; a feed that keeps up with its outcomes is never so far behind


class Cause(NamedTuple):
    """Reason why a delivery has not ended yet.

    ``name`` is ``paused``, ``removed``, ``scheduled``, ``retry``, ``order``, ``nobody``, ``breaker``, ``permits``,
    ``rate``, ``queue`` or ``under_way``; ``what`` is its text for people.
    """

    name: str
    what: LocalizedText


class Post(NamedTuple):
    """State of a subscription in one dispatcher: its slots, None without a worker, and its breaker unless closed."""

    node: str
    worker: WorkerFigures | None = None
    breaker: BreakerFigures | None = None


class Place(NamedTuple):
    """Queue with messages of a subscription; ``oldest`` (ms) is when the oldest there was received."""

    what: LocalizedText
    oldest: int


class Moment(NamedTuple):
    """Present obstacles to the deliveries of a subscription.

    Attributes
    ----------
    posts
        Of the dispatchers that are alive.
    is_whole
        All of them answered; otherwise slots and rates are unknown.
    has_clock
        A compensator is alive, or none is needed, since the dispatcher that keeps the order has what is due.
    places
        Where messages wait that were not tried yet, from the receivers to the dispatchers.
    unseen
        By node since when (ms) outcomes wait for the store there.
    """

    now: int
    posts: Sequence[Post]
    is_whole: bool
    has_clock: bool
    places: Sequence[Place]
    unseen: Mapping[str, int]


def planned(
    trace: Trace, name: str, destination: Destination | None, subscription: Subscription | None, now: int
) -> Cause | None:
    """Return the cause that configuration and schedule give; None when neither holds the delivery back."""
    delivery = trace.deliveries[name]
    if destination is None or subscription is None:
        return Cause("removed", localized("subscription removed"))
    if destination.paused:
        return Cause("paused", localized("the destination is paused"))
    if subscription.paused:
        return Cause("paused", _paused(subscription.paused_reason))
    if delivery.status in _BY_THE_CLOCK:
        return _until("retry", delivery.due_at, now)
    return _until("scheduled", trace.message.deliver_at, now) if trace.message is not None else None


def behind(message_id: str) -> Cause:
    """Return the cause of a delivery whose key is blocked by another message."""
    return Cause("order", localized("it waits for message {message}, an earlier one of its key", message=message_id))


def blocks() -> Cause:
    """Return the cause of a delivery that is dead and blocks its key."""
    return Cause("order", localized("its key waits until a person resends or skips it"))


def unread(what: LocalizedText) -> Cause:
    """Return the cause of a delivery whose subscription cannot read the messages before it now, in a strict order."""
    return Cause("order", what)


def live(trace: Trace, subscription: Subscription, moment: Moment) -> Cause | None:
    """Return the cause of a delivery for which ``planned`` has none; None when it is not known."""
    delivery = trace.deliveries[subscription.name]
    is_due = delivery.status in _BY_THE_CLOCK
    if not moment.posts:
        return Cause("nobody", localized("no dispatcher is alive, so nobody delivers"))
    if is_due and not moment.has_clock:
        return Cause("nobody", localized("no compensator is alive, which hands over what is due"))
    if (broken := _broken(moment.posts)) is not None or not moment.is_whole:
        return broken
    workers = [post.worker for post in moment.posts if post.worker is not None]
    return _held(workers, subscription) or _on_its_way(trace, workers, moment, is_due=is_due)


def _until(name: str, at: int, now: int) -> Cause | None:
    if at <= now:
        return None
    if name == "scheduled":
        return Cause(name, localized("deliver at {time}", time=format_time(at)))
    return Cause(name, localized("the next attempt is due at {time}", time=format_time(at)))


def _paused(reason: str) -> LocalizedText:
    if not reason:
        return localized("the subscription is paused")
    return localized("the subscription is paused: {reason}", reason=reason_of(reason))


def _broken(posts: Iterable[Post]) -> Cause | None:
    found = {post.node: post.breaker for post in posts if post.breaker is not None}
    if not found:
        return None
    nodes = ", ".join(sorted(found))
    last = max(found.values(), key=lambda breaker: breaker.probe_at)
    why = _answered(last.answered)
    if last.state != "open":
        return Cause("breaker", localized("the breaker on {nodes} is trying a probe: {why}", nodes=nodes, why=why))
    time = format_time(last.probe_at)
    what = localized("the breaker on {nodes} is open until a probe at {time}: {why}", nodes=nodes, time=time, why=why)
    return Cause("breaker", what)


def _answered(status: int | None) -> AnyText:
    if status is None:
        return localized("nobody answered")
    return localized("the subscriber answered HTTP {status}", status=status)


def _held(workers: Sequence[WorkerFigures], subscription: Subscription) -> Cause | None:
    """Return the limit that keeps the dispatchers from delivering: slots or the rate; None for neither."""
    working = [worker for worker in workers if worker.share]
    if not working:
        return Cause("permits", localized("no dispatcher has a share of the permits yet"))
    has_waiting = any(worker.waiting for worker in working)
    lacks_slot = any(worker.waiting and worker.lacks_slot for worker in workers)
    if lacks_slot or (has_waiting and all(worker.in_use >= worker.share for worker in working)):
        what = localized(
            "no permit is free, {used} of {total} are in use: it waits for one, or has one of them",
            used=sum(worker.in_use for worker in workers),
            total=subscription.max_concurrency,
        )
        return Cause("permits", what)
    if subscription.rate is not None and any(worker.rate_wait for worker in working):
        what = localized("the rate of the subscription holds it: {rate} a second", rate=f"{subscription.rate:g}")
        return Cause("rate", what)
    return None


def _on_its_way(trace: Trace, workers: Sequence[WorkerFigures], moment: Moment, *, is_due: bool) -> Cause:
    """Return where it is, when nothing holds it."""
    used = sum(worker.in_use for worker in workers)
    received_at = trace.message.received_at if trace.message is not None else id_time(trace.id)
    places = () if is_due else moment.places
    place = next((found.what for found in places if found.oldest <= received_at), None)
    if place is not None and used:
        what = localized("it waits in {place}, or is one of {used} requests that are under way", place=place, used=used)
        return Cause("queue", what)
    if place is not None:
        return Cause("queue", localized("it waits in {place}", place=place))
    late = {node: since for node, since in moment.unseen.items() if since < moment.now - _BEHIND}
    if late:
        nodes, time = ", ".join(sorted(late)), format_time(min(late.values()))
        what = localized("it may be out: outcomes on {nodes} wait for the store since {time}", nodes=nodes, time=time)
        return Cause("queue", what)
    if used:
        return Cause("under_way", localized("it is one of {used} requests that are under way, or is next", used=used))
    if is_due:
        return Cause("under_way", localized("it is due and about to be handed over"))
    return Cause("under_way", localized("nothing holds it: it is between two of its steps"))
