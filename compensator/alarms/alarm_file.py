"""The state of alarms from one look to the next: on this process's disk, and in the store for all others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec

from bus.cluster.alarm_documents import AlarmDocuments
from bus.domain.health.channels import Silence
from bus.domain.health.incidents import Incident, Watch, merged
from bus.errors import StoreError
from bus.files import write_whole
from bus.telemetry.outage import Outage

_log = logging.getLogger(__name__)
_WITHIN: Final = 5.0
NAME: Final = "alarms.watch"


class WatchFile:
    """A small file of a data directory."""

    def __init__(self, data: Path) -> None:
        self._path = data / NAME

    async def read(self) -> bytes | None:
        """Return its content; None when it is not there. Raises ``OSError``."""
        try:
            return await asyncio.to_thread(self._path.read_bytes)
        except FileNotFoundError:
            return None

    async def write(self, content: bytes) -> None:
        """Replace it; durable when it returns. Raises ``OSError``."""
        await asyncio.to_thread(write_whole, self._path, content)


class KeptFile(Protocol):
    """A file for a few bytes of a process, such as `WatchFile`."""

    async def read(self) -> bytes | None:
        """Return them; None when there are none. Raises ``OSError``."""
        ...

    async def write(self, content: bytes) -> None:
        """Replace them; durable when it returns. Raises ``OSError``."""
        ...


class _AlarmFile(msgspec.Struct, frozen=True):
    """The contents of the file: silences as well, so that a start without the store breaks none."""

    watch: Watch
    silences: list[Silence]


class KeptWatch:
    """Incidents on disk before a notification is sent, and in the store as soon as that takes them.

    Attributes
    ----------
    silences
        As the store had them last.
    is_behind
        Whether the store did not answer last, so that other processes may have later data.
    """

    def __init__(self, documents: AlarmDocuments, file: KeptFile) -> None:
        self._documents = documents
        self._file = file
        self._written = _AlarmFile(Watch(), [])
        self._stored: Mapping[str, Incident] = {}
        self.is_behind = True
        self._on_disk = Outage(_log, "what is known of alarms is not kept on disk")
        self._in_store = Outage(_log, "incidents are not written to the store, and acknowledgements are not read")
        self.silences: list[Silence] = []

    async def read(self) -> Watch:
        """Return the last incidents of this process's disk and the store together, and read the silences."""
        watch = await self.with_stored(await self._read_file())
        if not self.is_behind:
            with suppress(StoreError):
                self.silences = await self._documents.silences()
        return watch

    async def stored(self, watch: Watch) -> Watch:
        """Return the store's incidents, for a process that sends no notifications; ``watch`` if it is unreachable."""
        incidents = await self._read_stored()
        return watch if incidents is None else Watch(incidents=incidents)

    async def _read_stored(self) -> dict[str, Incident] | None:
        try:
            async with asyncio.timeout(_WITHIN):
                stored = {one.id: one for one in await self._documents.incidents()}
        except (StoreError, TimeoutError) as error:
            self._in_store.goes_on(error)
            self.is_behind = True
            return None
        self._stored = stored
        self.is_behind = False
        return stored

    async def with_stored(self, watch: Watch) -> Watch:
        """Return it with what the store has of incidents, which another process may have written."""
        stored = await self._read_stored()
        if stored is None:
            return watch
        both = {
            id_: merged(watch.incidents[id_], one) if id_ in watch.incidents else one for id_, one in stored.items()
        }
        return msgspec.structs.replace(watch, incidents={**watch.incidents, **both})

    async def write(self, watch: Watch) -> None:
        """Keep it on disk; durable when it returns, unless the disk takes nothing, which is logged."""
        kept = _AlarmFile(msgspec.structs.replace(watch, at=0), self.silences)
        if kept == self._written:
            return
        try:
            await self._file.write(msgspec.msgpack.encode(msgspec.structs.replace(kept, watch=watch)))
        except OSError as error:
            self._on_disk.goes_on(error)
        else:
            self._on_disk.is_over()
            self._written = kept

    async def learn_silences(self, now: int) -> None:
        """Read the silences that people have made until now; while the store is unreachable those of before hold."""
        with suppress(StoreError, TimeoutError):  # `exchange` says so
            async with asyncio.timeout(_WITHIN):
                self.silences = await self._documents.live_silences(now)

    async def exchange(self, watch: Watch) -> Watch:
        """Write to the store what has changed, and return it with what people have acknowledged meanwhile."""
        if self.is_behind:  # the store was unreachable, and may have other incidents by now
            watch = await self.with_stored(watch)
        try:
            async with asyncio.timeout(_WITHIN):
                found = await self._acknowledged(watch)
                await self._store(found.incidents)
        except (StoreError, TimeoutError) as error:
            self._in_store.goes_on(error)
            self.is_behind = True
            return watch
        self._in_store.is_over()
        return found

    async def _acknowledged(self, watch: Watch) -> Watch:
        for id_, acknowledged in (await self._documents.acknowledged()).items():
            if (incident := watch.incidents.get(id_)) is not None:
                watch = watch.with_incident(incident.with_acknowledgement(acknowledged))
        return watch

    async def _store(self, incidents: Mapping[str, Incident]) -> None:
        stored = dict(self._stored)
        for id_, incident in incidents.items():
            if stored.get(id_) != incident:
                await self._documents.put_incident(incident)
                self._stored = stored = {**stored, id_: incident}
        for id_ in self._gone(stored, incidents):
            await self._documents.remove_incident(id_)
            self._stored = stored = {key: one for key, one in stored.items() if key != id_}

    @staticmethod
    def _gone(stored: Iterable[str], incidents: Mapping[str, Incident]) -> list[str]:
        return [id_ for id_ in stored if id_ not in incidents]

    async def _read_file(self) -> Watch:
        try:
            content = await self._file.read()
            if content is None:
                return Watch()
            kept = msgspec.msgpack.decode(content, type=_AlarmFile)
        except (OSError, msgspec.DecodeError) as error:
            _log.error("what was known of alarms cannot be read, people are told anew: %s", error)
            return Watch()
        self.silences = kept.silences
        return kept.watch
