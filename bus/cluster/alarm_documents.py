"""Stored documents of alarms, shared by the monitoring process and the pages: incidents, acknowledgements, silences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from bus.domain.health.channels import Silence
from bus.domain.health.incidents import Acknowledgement, Incident
from bus.errors import InvalidMessage, NotFound
from bus.localized_text import AnyText, localized
from bus.ports.store import Document, DocumentStore

WATCHER: Final = "alarms"
"""The role of processes that watch for alarms."""
INCIDENTS: Final = "incidents"
ACKNOWLEDGED: Final = "incidents_acknowledged"
SILENCES: Final = "silences"
TRIALS: Final = "alarm_trials"
MOST_SILENCES: Final = 1000
Found = TypeVar("Found")


class Trial(msgspec.Struct, frozen=True):
    """A request for test notifications, and its result by channel: empty for a channel that took it.

    ``by`` requested it ``at`` (ms); ``results`` is None until the test was done.
    """

    by: str
    at: int
    channel: str = ""
    results: dict[str, AnyText] | None = None


class AlarmDocuments:
    """Documents of the alarms: the monitoring process writes incidents, people all others, so no writer blocks another.

    All methods raise ``StoreUnavailable`` while the store is unreachable. Documents in the format of another version
    are left out.
    """

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents

    async def incidents(self) -> list[Incident]:
        """Return all of them."""
        return _decoded(await self._documents.list(INCIDENTS), Incident)

    async def incident(self, id_: str) -> Incident:
        """Return one; raises ``NotFound``."""
        found = _decoded(filter(None, [await self._documents.get(INCIDENTS, id_)]), Incident)
        if not found:
            raise NotFound(localized("there is no incident {id}", id=repr(id_)))
        return found[0]

    async def put_incident(self, incident: Incident) -> None:
        """Write one; durable when it returns."""
        await self._documents.put(INCIDENTS, incident.id, msgspec.json.encode(incident))

    async def remove_incident(self, id_: str) -> None:
        """Remove one that is long closed, and its acknowledgement."""
        await self._documents.delete(ACKNOWLEDGED, id_)
        await self._documents.delete(INCIDENTS, id_)

    async def acknowledged(self) -> dict[str, Acknowledgement]:
        """Return who acknowledged which incident."""
        documents = await self._documents.list(ACKNOWLEDGED)
        return {one.key: found for one in documents for found in _decoded([one], Acknowledgement)}

    async def acknowledge(self, id_: str, acknowledged: Acknowledgement) -> None:
        """Store that a person acknowledged an incident; durable when it returns."""
        await self._documents.put(ACKNOWLEDGED, id_, msgspec.json.encode(acknowledged))

    async def silences(self) -> list[Silence]:
        """Return all of them, those that are over too."""
        return _decoded(await self._documents.list(SILENCES), Silence)

    async def live_silences(self, now: int) -> list[Silence]:
        """Return those that are not over at a time (ms), and remove those that are."""
        found = await self.silences()
        for one in found:
            if one.until <= now:
                await self._documents.delete(SILENCES, one.id)
        return [one for one in found if one.until > now]

    async def silence(self, silence: Silence) -> None:
        """Add one; durable when it returns. Raises ``InvalidMessage`` when there are too many."""
        if len(await self.live_silences(silence.at)) >= MOST_SILENCES:
            raise InvalidMessage(localized("there are {count} silences; end some first", count=MOST_SILENCES))
        await self._documents.put(SILENCES, silence.id, msgspec.json.encode(silence), version=0)

    async def end_silence(self, id_: str) -> None:
        """End one; raises ``NotFound``."""
        if not await self._documents.delete(SILENCES, id_):
            raise NotFound(localized("there is no silence {id}", id=repr(id_)))

    async def ask_for_trial(self, id_: str, trial: Trial) -> None:
        """Request test notifications from the monitoring process."""
        await self._documents.put(TRIALS, id_, msgspec.json.encode(trial), version=0)

    async def trials(self) -> dict[str, Trial]:
        """Return the requested test notifications, done or not."""
        return {one.key: found for one in await self._documents.list(TRIALS) for found in _decoded([one], Trial)}

    async def trial(self, id_: str) -> Trial | None:
        """Return one."""
        found = await self._documents.get(TRIALS, id_)
        return next(iter(_decoded([found], Trial)), None) if found is not None else None

    async def end_trial(self, id_: str, trial: Trial | None) -> None:
        """Write the result of a test notification, or delete it."""
        if trial is None:
            await self._documents.delete(TRIALS, id_)
        else:
            await self._documents.put(TRIALS, id_, msgspec.json.encode(trial))


def _decoded(documents: Sequence[Document] | filter[Document], kind: type[Found]) -> list[Found]:
    found = []
    for document in documents:
        try:
            found.append(msgspec.json.decode(document.value, type=kind))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return found
