"""The sink of a process's trace events."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bus.bootstrap.brokers import open_kafka_events
from bus.cluster.member import Member
from bus.events.emitter import Emitter
from bus.events.file_sink import FileSink
from bus.events.files import Limits
from bus.events.gathering import EventBuffer
from bus.events.nothing import NoEvents
from bus.ports.clock import Clock
from bus.ports.events import EventSink
from bus.settings import Settings

DIRECTORY: Final = "events"


def open_events(settings: Settings, data: Path, me: Member, reserve: int, clock: Clock) -> Emitter | NoEvents:
    """Return the emitter that the settings ask for; it starts nothing before ``run``.

    Parameters
    ----------
    data
        Whose ``events`` takes files; processes may share it, and then share the limit.
    reserve
        Free bytes of the disk below which no event is written.

    Raises
    ------
    ConfigurationError
        A setting is impossible, or the extra of Kafka is missing.
    """
    if settings.events == "none":
        return NoEvents()
    gathering = EventBuffer("+".join(me.roles), me.node, me.started_at)
    sink: EventSink
    if settings.events == "kafka":
        sink = open_kafka_events(settings)
    else:
        limits = Limits(settings.events_limit, reserve)
        sink = FileSink(data / DIRECTORY, gathering.emitter, limits, clock)
    return Emitter(sink, gathering, clock)


def check_events(settings: Settings) -> None:
    """Raise ``ConfigurationError`` for what ``open_events`` would refuse; connects nowhere."""
    if settings.events == "kafka":
        open_kafka_events(settings)
