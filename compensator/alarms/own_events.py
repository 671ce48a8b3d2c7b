"""The bus's own events become messages: what changed from one look to the next, and what processes have kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from bus.client.network.http import ReceiverClient, Reply
from bus.client.spooling.line import Head, Line
from bus.domain.health.facts import Facts, Lane
from bus.domain.health.incidents import Watch
from bus.domain.own_events import CODE, OwnEvent, own_event
from bus.domain.times import format_time
from bus.errors import BusError, ReceiverUnavailable
from bus.ports.clock import Clock
from bus.stores.own_events import OwnEvents
from bus.telemetry.outage import Outage

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger(__name__)
_TURN: Final = 1.0
_WITHIN: Final = 10.0


class _EventsLook(NamedTuple):
    """The state of one look from which events are derived."""

    paused: Mapping[Lane, str]
    open: frozenset[Lane]
    incidents: Mapping[str, int]


class Changes:
    """Returns the changes since the look before; the first look of a process returns none."""

    def __init__(self) -> None:
        self._seen: _EventsLook | None = None

    def since(self, facts: Facts, watch: Watch) -> list[OwnEvent]:
        """Return the events between the look before and this one."""
        before, now = self._seen, _seen(facts, watch)
        self._seen = now
        if before is None:
            return []
        found = [*_changes(before, now, facts.now), *_incidents(before, watch)]
        return [one for one in found if one.destination != CODE]  # what happens to events makes none


class OwnEventSender:
    """Brings kept events to a receiver, until it has accepted them.

    Parameters
    ----------
    receivers
        Returns the URLs of those that are alive.
    transport
        For tests.
    """

    def __init__(
        self,
        kept: OwnEvents,
        receivers: Callable[[], list[str]],
        api_key: str,
        is_telling: Callable[[], bool],
        clock: Clock,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._kept = kept
        self._receivers = receivers
        self._api_key = api_key
        self._is_telling = is_telling
        self._clock = clock
        self._transport = transport
        self._outage = Outage(_log, f"events wait, nobody takes messages to {CODE}")
        self._turn = 0

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            is_more = False
            if self._is_telling() and self._kept.is_wanted():
                try:
                    is_more = await self._send()
                except (BusError, OSError) as error:
                    self._outage.goes_on(error)
                else:
                    self._outage.is_over()
            await self._clock.sleep(0 if is_more else _TURN)

    async def _send(self) -> bool:
        """Send some, and return whether there were any; raises ``ReceiverUnavailable`` when not all were accepted."""
        events = await self._kept.some(self._clock.now())
        if not events:
            return False
        urls = self._receivers()
        if not urls:
            raise ReceiverUnavailable("no receiver is alive")
        self._turn += 1
        reply = await asyncio.to_thread(self._post, urls[self._turn % len(urls)], events)
        if reply.results is None:
            raise ReceiverUnavailable(reply.failure)
        pairs = list(zip(events, reply.results, strict=True))
        await self._kept.remove(event for event, result in pairs if result.is_taken)
        for event, result in pairs:
            if not result.is_taken:
                raise ReceiverUnavailable(f"{event.key}: {result.error}")
        return True

    def _post(self, url: str, events: Sequence[OwnEvent]) -> Reply:
        client = ReceiverClient(url, self._api_key or None, self._clock, _WITHIN, self._transport)
        try:
            return client.post([_line(event) for event in events], [Head(event.id, CODE) for event in events])
        finally:
            client.close()


def _line(event: OwnEvent) -> bytes:
    line = Line(
        id=event.id,
        destination=CODE,
        sent_at=event.at,
        content_type="application/json",
        source="bus",
        biz_id=event.key.partition(":")[2][:128],
        routing_key=event.type,
        body=msgspec.Raw(msgspec.json.encode(event)),
    )
    return msgspec.json.encode(line)


def _seen(facts: Facts, watch: Watch) -> _EventsLook:
    return _EventsLook(
        {one.key: one.paused_reason for one in facts.subscriptions if one.paused},
        frozenset((one.destination, one.subscription) for one in facts.breakers),
        {one.id: one.closed_at for one in watch.incidents.values()},
    )


def _changes(before: _EventsLook, now: _EventsLook, at: int) -> Iterator[OwnEvent]:
    for lane in now.paused.keys() - before.paused.keys():
        yield _of("subscription.paused", lane, at, reason=now.paused[lane])
    for lane in before.paused.keys() - now.paused.keys():
        yield _of("subscription.resumed", lane, at)
    for lane in now.open - before.open:
        yield _of("breaker.opened", lane, at)
    for lane in before.open - now.open:
        yield _of("breaker.closed", lane, at)


def _of(type_: str, lane: Lane, at: int, **data: str) -> OwnEvent:
    return own_event(type_, f"{'/'.join(lane)}@{at}", at, *lane, **data)


def _incidents(before: _EventsLook, watch: Watch) -> Iterator[OwnEvent]:
    for incident in watch.incidents.values():
        was_open = incident.id in before.incidents and not before.incidents[incident.id]
        first = incident.shown[0]
        about = {
            "incident": incident.id,
            "cause": incident.cause,
            "severity": incident.severity,
            "what": str(first.what),
        }
        place = (first.destination or "", first.subscription or "")
        if incident.id not in before.incidents and not incident.closed_at:
            yield own_event("alarm.opened", incident.id, incident.opened_at, *place, **about)
        elif was_open and incident.closed_at:
            opened = format_time(incident.opened_at)
            yield own_event("alarm.over", incident.id, incident.closed_at, *place, **about, opened_at=opened)
