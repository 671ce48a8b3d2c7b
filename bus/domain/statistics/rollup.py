"""Counters over time: accepted messages and results of their deliveries, by minute, ten minutes, hour and day.

A sheet has the counters of one such period. Sheets add up in any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from bus.domain.delivery.delivery import FINAL, Outcome, Status
from bus.domain.message import Message
from bus.domain.statistics.latency import place_of
from bus.domain.times import DAY

MINUTE: Final = 60_000
_DELIVERED: Final = Status.DELIVERED
OTHER_SOURCES: Final = "(other)"
MOST_SOURCES: Final = 2_000  # of one sheet; producers name their source themselves
MOST_POINTS: Final = 180
LONGEST: Final = 400 * DAY


class Resolution(NamedTuple):
    """Length of a period, and for how long its sheets are kept, in milliseconds."""

    step: int
    kept: int

    def start(self, time: int) -> int:
        """Return when the period of a time begins."""
        return time - time % self.step


RESOLUTIONS: Final = (
    Resolution(MINUTE, 6 * 60 * MINUTE),
    Resolution(10 * MINUTE, 3 * DAY),
    Resolution(60 * MINUTE, 35 * DAY),
    Resolution(DAY, LONGEST),
)


def resolution_for(since: int, before: int, now: int) -> Resolution:
    """Return the finest resolution that is still kept and draws a range (ms) with few enough points."""
    for resolution in RESOLUTIONS:
        if since >= now - resolution.kept and before - since <= MOST_POINTS * resolution.step:
            return resolution
    return RESOLUTIONS[-1]


class DeliveryCounts(msgspec.Struct, array_like=True):
    """Results of one subscription's deliveries.

    Attributes
    ----------
    delivered, others
        Deliveries that ended as ``delivered``, and by any other final state; one that is resent counts again.
    attempts, failed
        POSTs, and how many of them did not deliver.
    latency
        First deliveries by how long they took since they were possible, counted by the ranges of
        ``bus.domain.statistics.latency``.
    """

    delivered: int = 0
    others: dict[Status, int] = {}
    attempts: int = 0
    failed: int = 0
    latency: dict[int, int] = {}

    @property
    def ended(self) -> dict[Status, int]:
        """Deliveries by their final state."""
        return {**self.others, **({_DELIVERED: self.delivered} if self.delivered else {})}

    def end(self, status: Status, count: int) -> None:
        """Count deliveries that ended otherwise than ``delivered``."""
        self.others[status] = self.others.get(status, 0) + count

    def add(self, other: DeliveryCounts) -> None:
        """Add the counters of another one."""
        self.delivered += other.delivered
        for status, count in other.others.items():
            self.end(status, count)
        self.attempts += other.attempts
        self.failed += other.failed
        for place, count in other.latency.items():
            self.latency[place] = self.latency.get(place, 0) + count


class Sheet(msgspec.Struct, array_like=True):
    """The counters of one period: accepted messages by destination and source, deliveries by subscription."""

    accepted: dict[str, dict[str, int]] = {}
    deliveries: dict[str, dict[str, DeliveryCounts]] = {}

    def count(self, write: Message | Outcome) -> None:
        """Count a message that was accepted, or an outcome."""
        if isinstance(write, Message):
            self._accept(write.destination, write.source, 1)
            return
        counts = self._counts(write.destination, write.subscription)
        counts.attempts += write.attempt is not None
        if write.status is _DELIVERED:
            counts.delivered += 1
            if write.ready_at:
                place = place_of(write.at - write.ready_at)
                counts.latency[place] = counts.latency.get(place, 0) + 1
        else:
            counts.failed += write.attempt is not None
            if write.status in FINAL:
                counts.end(write.status, 1)

    def add(self, other: Sheet) -> None:
        """Add the counters of another sheet."""
        for destination, sources in other.accepted.items():
            for source, count in sources.items():
                self._accept(destination, source, count)
        for destination, lanes in other.deliveries.items():
            for subscription, counts in lanes.items():
                self._counts(destination, subscription).add(counts)

    def _accept(self, destination: str, source: str, count: int) -> None:
        sources = self.accepted.get(destination)
        if sources is None:
            sources = self.accepted[destination] = {}
        if source not in sources and sum(map(len, self.accepted.values())) >= MOST_SOURCES:
            source = OTHER_SOURCES
        sources[source] = sources.get(source, 0) + count

    def _counts(self, destination: str, subscription: str) -> DeliveryCounts:
        lanes = self.deliveries.get(destination)
        if lanes is None:
            lanes = self.deliveries[destination] = {}
        counts = lanes.get(subscription)
        if counts is None:
            counts = lanes[subscription] = DeliveryCounts()
        return counts


def time_of(write: Message | Outcome) -> int:
    """Return when the message was received or the outcome decided, in milliseconds since the epoch."""
    return write.received_at if isinstance(write, Message) else write.at


def added_up(sheets: Iterable[Sheet]) -> Sheet:
    """Return one sheet with the counts of all."""
    total = Sheet()
    for sheet in sheets:
        total.add(sheet)
    return total


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Sheet)


def encode_sheet(sheet: Sheet) -> bytes:
    """Return the form in which a sheet rests in the store."""
    return _encoder.encode(sheet)


def decode_sheet(payload: bytes) -> Sheet:
    """Undo ``encode_sheet``; raises ``msgspec.DecodeError`` when the bytes are something else."""
    return _decoder.decode(payload)
