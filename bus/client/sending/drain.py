"""Emptying an orphaned spool, by a person's command."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from bus.client.network.backoff import Backoff
from bus.client.network.receivers import Receivers
from bus.client.options import Options
from bus.client.sending.releasing import LeaseRelease
from bus.client.sending.sender import Sender, rejected, waiting
from bus.client.spooling import home
from bus.client.spooling.batch import Batch
from bus.client.spooling.lanes import CONSUMER, REJECTED, decode_rejected, lane_of
from bus.client.spooling.line import decode_line, encode_line
from bus.client.spooling.marker import Marker
from bus.clock import SystemClock
from bus.ports.spool import NewRecord
from bus.spool import BlockingSpool
from bus.spool import Options as SpoolOptions

_CHUNK: Final = 100


class DrainResult(NamedTuple):
    """The result for one directory; ``problem`` says why messages are left."""

    directory: Path
    sent: int = 0
    waiting: int = 0
    rejected: int = 0
    removed: bool = False
    problem: str = ""


def drain(
    directory: Path, url: str, api_key: str | None, *, rejected: bool, sent: Callable[[int], object]
) -> DrainResult:
    """Send the messages of a directory until a request fails; messages that are not accepted stay.

    Parameters
    ----------
    rejected
        Also send messages again that the receiver rejected.
    sent
        Called with the number of messages taken, after each request.
    """
    spool = home.adopt(directory, SpoolOptions(consumers=(CONSUMER,)))
    if spool is None:
        return DrainResult(directory, problem="its process is alive and sends by itself")
    receivers = Receivers(Options(url=url, api_key=api_key))
    try:
        if rejected:
            _restore(spool)
        return _work(spool, receivers, sent)
    finally:
        receivers.close()
        spool.close()


def _restore(spool: BlockingSpool) -> None:
    """Put rejected records back into their streams as plain messages: their producer has lost its lease permanently."""
    while records := spool.claim(CONSUMER, _CHUNK, REJECTED):
        lines = [decode_line(decode_rejected(record.payload).line) for record in records]
        new = [
            NewRecord(lane_of(line.destination), encode_line(replace(line, producer=0)), record.time)
            for line, record in zip(lines, records, strict=True)
        ]
        spool.exchange(CONSUMER, records, new, urgent=True)


def _work(spool: BlockingSpool, receivers: Receivers, sent: Callable[[int], object]) -> DrainResult:
    sender = Sender(spool, SystemClock(), _backoff)
    marker = Marker(spool.directory)
    marker.end(marker.codes)
    releasing = LeaseRelease(marker, sender, _backoff())
    total, problem = _send(sender, receivers, sent)
    while not problem and releasing.step(receivers, SystemClock().monotonic()):
        sender.hurry()  # plain messages waited for that
        more, problem = _send(sender, receivers, sent)
        total += more
    stats = sender.stats()
    left, refused = waiting(stats), rejected(stats)
    if left and not problem:
        problem = "the receiver does not accept the rest now: see bus spool show, and check the API key"
    if marker.codes and not problem:
        problem = f"its leases are not released yet: {', '.join(sorted(marker.codes))}"
    if refused and not problem:
        problem = f"rejected: see bus spool show --stream {REJECTED} {shlex.quote(str(spool.directory))}"
    removed = home.retire(spool)
    return DrainResult(spool.directory, total, left, refused, removed, problem)


def _backoff() -> Backoff:
    return Backoff(60, 60, random.random)


def _send(sender: Sender, receivers: Receivers, sent: Callable[[int], object]) -> tuple[int, str]:
    """Send all messages that are due; return how many were accepted, and why a request failed."""
    total, most = 0, 1000
    while (found := _next(sender, receivers, most)) is not None:
        target, batch = found
        reply = receivers.post(target, batch, sender.report())
        sender.settle(batch, reply, receivers.learn(target, batch, reply))
        if reply.results is not None:
            taken = sum(result.is_taken for result in reply.results)
            total += taken
            sent(taken)
        elif reply.splits and len(batch.records) > 1:
            most = max(1, len(batch.records) // 2)
        elif not (reply.splits and reply.status):
            return total, reply.failure
    return total, ""


def _next(sender: Sender, receivers: Receivers, most: int) -> tuple[str, Batch] | None:
    """Return the next batch and its receiver; None when nothing is due."""
    for target in receivers.targets:
        batch = sender.gather(most, partial(receivers.takes, target))
        if batch.records:
            return target, batch
    return None
