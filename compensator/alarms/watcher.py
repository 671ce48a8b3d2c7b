"""Watches the bus every few seconds, and sends each channel its notifications until it has taken them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Final

import msgspec

from bus.domain.health.alarms import alarms, is_known
from bus.domain.health.channels import Channel, Notice, notice
from bus.domain.health.facts import Facts
from bus.domain.health.incidents import Incident, Notification, Watch, advance
from bus.domain.health.rulebook import Rulebook
from bus.domain.identity import new_id
from bus.domain.own_events import CODE
from bus.errors import StoreError
from bus.localized_text import AnyText, joined, localized
from bus.ports.clock import Clock
from bus.stores.own_events import OwnEvents
from bus.telemetry import metrics
from bus.transports.backoff import Backoff
from compensator.alarms.alarm_file import KeptWatch
from compensator.alarms.own_events import Changes
from compensator.alarms.sending import ChannelNotifier
from compensator.alarms.texts import sign_of_life, text_of

_log = logging.getLogger(__name__)
INTERVAL: Final = 5.0
"""Seconds between two looks."""
_TURN: Final = 1.0
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 300.0
_MOST_FAILURES: Final = 3
"""Notices that a channel may refuse in a turn: one that it never takes holds up no other."""
_TROUBLED: Final = 3
"""Failures in a row after which a channel is a part that is not well."""
_MOST_SERIES: Final = 500
_BLIND: Final = 4 * INTERVAL
_MOVED: Final = 1000
"""Milliseconds by which the wall clock and the monotonic one may differ between two looks."""
_CUT_OFF: Final = 60.0
"""Seconds without the store after which each process that has the role sends notifications."""


class Watcher:
    """Sends notifications from one of all processes that have the role; the others keep the same state.

    Parameters
    ----------
    is_first
        Whether this process sends notifications.
    look
        Returns the bus as it is now.
    pages
        The URL of the pages; empty where it is not configured.
    """

    def __init__(
        self,
        look: Callable[[], Awaitable[Facts]],
        kept: KeptWatch,
        own_events: OwnEvents,
        channels: Sequence[Channel],
        sending: ChannelNotifier,
        book: Rulebook,
        is_first: Callable[[], bool],
        clock: Clock,
        noise: Callable[[], float],
        pages: str,
    ) -> None:
        self._facts = look
        self._kept = kept
        self._own_events = own_events
        self._changes = Changes()
        self._channels = channels
        self._sending = sending
        self._book = book
        self._is_first = is_first
        self._clock = clock
        self._noise = noise
        self._pages = pages
        self._watch = Watch()
        self._keeping = asyncio.Lock()
        self._cut_off_since: float | None = None
        self._looked_at = float("-inf")
        self._read_at: tuple[int, float] | None = None
        self._failures: dict[str, tuple[int, AnyText]] = {}

    @property
    def is_telling(self) -> bool:
        """Whether this process sends notifications."""
        if self._is_first():
            return True
        # Then it is unknown whether the first one lives: twice is better than not at all.
        since = self._cut_off_since
        return since is not None and self._clock.monotonic() - since > _CUT_OFF

    @property
    def trouble(self) -> AnyText:
        """The channels that do not take their notifications, and why; empty for none."""
        return joined(
            localized("channel {name}: {error}", name=name, error=error)
            for name, (count, error) in self._failures.items()
            if count >= _TROUBLED
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        self._watch = await self._kept.read()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_for_ever())
            for channel in self._channels:
                serve = self._live if channel.heartbeat else self._serve
                group.create_task(serve(channel))

    async def _look_for_ever(self) -> None:
        while True:
            try:
                await self._look()
            except Exception:  # noqa: BLE001 - the next look may do
                _log.exception("a look for alarms failed; the next one is in %g s", INTERVAL)
            await self._clock.sleep(INTERVAL)

    async def _look(self) -> None:
        if not self.is_telling:
            self._read_at = None  # stored times are by the clock of the process that sends notifications
            self._watch = await self._kept.stored(self._watch)
            self._note_cut_off()
            return
        facts = (await self._facts())._replace(lasting={one.cause for one in self._watch.open})
        now = self._follow_clock()
        await self._kept.learn_silences(now)  # before channels are notified of what is found
        found = alarms(facts, self._book, self._watch.active)
        self._watch = advance(
            self._watch, found, lambda key: is_known(facts, key), self._book, now, lambda: new_id(now)
        )
        await self._keep()
        await self._tell_changes(facts)
        self._looked_at = self._clock.monotonic()
        exchanged = await self._kept.exchange(self._watch)
        self._note_cut_off()
        for id_, incident in exchanged.incidents.items():
            # Notifications that channels took meanwhile stay recorded.
            current = self._watch.incidents.get(id_)
            self._change(incident if current is None else current.with_what_was_told(incident))

    def _follow_clock(self) -> int:
        """Return the time; if the clock was set since the last call, shift the times of what is open as well."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        moved = now - self._read_at[0] - round((monotonic - self._read_at[1]) * 1000) if self._read_at else 0
        self._read_at = (now, monotonic)
        if abs(moved) > _MOVED:
            _log.warning(
                "the clock was set by %.1f s, or the machine was suspended; the times of open alarms are adjusted",
                moved / 1000,
            )
            self._watch = self._watch.moved(moved)
            self._kept.is_behind = True  # another process may have sent notifications meanwhile
        return now

    def _note_cut_off(self) -> None:
        if not self._kept.is_behind:
            self._cut_off_since = None
        elif self._cut_off_since is None:
            self._cut_off_since = self._clock.monotonic()

    async def _tell_changes(self, facts: Facts) -> None:
        """Send the changes since the last look as messages of the bus; nothing depends on that."""
        try:
            await self._own_events.keep(self._changes.since(facts, self._watch))
        except StoreError as error:
            _log.warning("changes of this look are not told of in %s: %s", CODE, error)

    async def _serve(self, channel: Channel) -> None:
        """Send a channel its notifications, one after the other, each until it has taken it."""
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, self._noise)
        while True:
            pause = _TURN
            failures = 0
            for id_ in list(self._watch.incidents):
                if (due := self._due(channel, id_)) is None:
                    continue
                if await self._tell(channel, self._watch.incidents[id_], due):
                    backoff.succeed()
                    continue
                pause = backoff.fail()
                failures += 1
                if failures == _MOST_FAILURES:
                    break
            await self._clock.sleep(pause)

    def _due(self, channel: Channel, id_: str) -> Notice | None:
        if not self.is_telling:
            return None
        now = self._follow_clock()
        # As it is now: it may have changed while the one before was sent.
        incident = self._watch.incidents.get(id_)
        return notice(channel, incident, self._kept.silences, now) if incident is not None else None

    async def _tell(self, channel: Channel, incident: Incident, due: Notice) -> bool:
        now = self._clock.now()
        # Owed first, on disk: whatever happens to this process, the channel gets a notification, be it that it is over.
        owed = {**incident.owed, channel.name: incident.owed.get(channel.name, now)}
        self._change(msgspec.structs.replace(incident, owed=owed))
        await self._keep()
        text = text_of(due, incident, self._pages, now)
        severity = None if due is Notice.OVER else incident.severity
        error = await self._sending.tell(channel, text, severity)
        self._note(channel, error)
        if error:
            return False
        current = self._watch.incidents.get(incident.id, incident)
        told = Notification(self._clock.now(), incident.severity, due is Notice.OVER)
        self._change(
            msgspec.structs.replace(
                current,
                told={**current.told, channel.name: told},
                owed={name: at for name, at in current.owed.items() if name != channel.name},
            )
        )
        await self._keep()
        return True

    async def _live(self, channel: Channel) -> None:
        """Send a channel signs of life, as long as this process watches the bus."""
        while True:
            is_looking = self._clock.monotonic() - self._looked_at < _BLIND
            if self.is_telling and is_looking:
                error = await self._sending.tell(channel, sign_of_life(self._pages), None)
                self._note(channel, error)
                pause = channel.heartbeat / 1000
                await self._clock.sleep(min(pause, _FIRST_PAUSE) if error else pause)
            else:
                await self._clock.sleep(_TURN)

    def _note(self, channel: Channel, error: AnyText) -> None:
        metrics.ALARM_NOTICES.labels(channel.name, "failed" if error else "taken").inc()
        if error:
            count = self._failures.get(channel.name, (0, ""))[0] + 1
            self._failures[channel.name] = (count, error)
            _log.warning("channel %s was not told of an alarm, and will be: %s", channel.name, error)
        else:
            self._failures.pop(channel.name, None)
            _log.info("channel %s was told", channel.name)

    def _change(self, incident: Incident) -> Incident:
        self._watch = self._watch.with_incident(incident)
        return incident

    async def _keep(self) -> None:
        """Keep what is known when it is this one's turn, so that nothing older is written over it."""
        async with self._keeping:
            await self._kept.write(self._watch)

    def measure(self) -> Callable[[], None]:
        """Return the function that sets the gauges of alarms."""
        counts = dict.fromkeys(("critical", "warning", "info"), 0)
        for incident in self._watch.open:
            counts[incident.severity.value] += 1

        alarms = {
            (one.rule, one.severity.value, one.destination or "", one.subscription or "")
            for incident in (self._watch.open if self.is_telling else ())
            for one in incident.open_alarms
        }

        def fill() -> None:
            for severity, count in counts.items():
                metrics.ALARMS.labels(severity).set(count)
            metrics.ALARM.clear()
            for labels in islice(alarms, _MOST_SERIES):
                metrics.ALARM.labels(*labels).set(1)

        return fill
