"""One JSONL history per run: what producers tried and what subscribers got (reliability.md)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from tests.harness.records import Call


class Event(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line.

    Attributes
    ----------
    index
        The place in the merged history; -1 in a process's own file.
    t
        Seconds since the epoch.
    type
        ``invoke`` before a call, then ``ok``, ``fail`` (certainly without effect) or ``info`` (unknown).
    key, seq
        What the producer sent, unique together; a delivery without ``seq`` is known by ``id`` only.
    """

    index: int = -1
    t: float
    process: str
    type: Literal["invoke", "ok", "fail", "info"]
    f: Literal["publish", "deliver"]
    key: str = ""
    seq: int | None = None
    id: str = ""
    sha256: str = ""
    subscription: str = ""
    attempt: int = 0


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Event)


class History:
    """A process's own file of events; each is with the kernel before the call returns, so SIGKILL loses none."""

    def __init__(self, path: Path, process: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._process = process
        # A torn last line would swallow the next event.
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def publish(
        self,
        type_: Literal["invoke", "ok", "fail", "info"],
        seq: int,
        sha256: str,
        *,
        key: str = "",
        id: str = "",  # noqa: A002
    ) -> None:
        """Log a step of one send; without a key of its own its key is the process's name."""
        event = Event(
            t=time.time(),
            process=self._process,
            type=type_,
            f="publish",
            key=key or self._process,
            seq=seq,
            id=id,
            sha256=sha256,
        )
        os.write(self._file, _encode(event) + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_history(path: Path) -> list[Event]:
    """Return the events of a file, without torn lines: what such a line would have said did not happen yet."""
    if not path.exists():
        return []
    events = []
    for line in path.read_bytes().splitlines():
        try:
            events.append(_decoder.decode(line))
        except msgspec.DecodeError:
            continue
    return events


def write_history(path: Path, events: Iterable[Event]) -> None:
    """Write a merged history."""
    path.write_bytes(b"".join(_encode(event) + b"\n" for event in events))


def delivery_of(call: Call) -> Event:
    """Return the event of a call that was answered 2xx; the subscription is named by the path."""
    return Event(
        t=call.t,
        process="subscriber",
        type="ok",
        f="deliver",
        key=call.key,
        seq=call.seq,
        id=call.id,
        sha256=call.sha256,
        subscription=call.path,
        attempt=call.attempt,
    )


def merge(published: Iterable[Event], calls: Iterable[Call]) -> list[Event]:
    """Return one history in order of time, with its indexes."""
    deliveries = (delivery_of(call) for call in calls if 200 <= call.status < 300)
    events = sorted([*published, *deliveries], key=lambda event: event.t)
    for index, event in enumerate(events):
        event.index = index
    return events
