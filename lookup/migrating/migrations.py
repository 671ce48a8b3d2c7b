"""Migrations as documents of the store, kept on disk, and what each proxy says of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bus.cluster.member import COLLECTION as MEMBERS
from bus.domain.routing.migration import Migration, refuse_second
from bus.domain.routing.rooms import Route
from bus.errors import Conflict, NotFound
from bus.localized_text import AnyText, localized
from bus.ports.store import Document, DocumentStore
from bus.stores.snapshot import NOTE, Snapshot, read_kept

_log = logging.getLogger(__name__)
COLLECTION: Final = "lookup_migrations"
CONFIRMED: Final = "lookup_confirmed"
_MARK: Final = "begun"
MARK: Final = (COLLECTION, _MARK)
"""A document that is there as soon as there is any other: a store without it was emptied."""
_LOADED_WITHIN: Final = 2.0
_ROLE: Final = "lookup"


class _Member(msgspec.Struct):
    """The fields of a process that count; another version's may have more, or fewer."""

    owner: str
    node: str
    roles: tuple[str, ...]
    started_at: int


class ProxyConfirmation(msgspec.Struct, frozen=True):
    """The state that one proxy confirms.

    Attributes
    ----------
    life
        When that life of it began, as its membership says.
    turns
        By migration, the turn that it has in force.
    elsewhere
        Migrations that are not begun here, since the topic has another route than the one of before.
    at_home
        Those whose last route its file gives.
    """

    life: int
    turns: Mapping[str, int] = {}
    elsewhere: frozenset[str] = frozenset()
    at_home: frozenset[str] = frozenset()


class Migrations:
    """The migrations of all topics, the same in every proxy by the store's compare-and-set.

    While the store is unreachable the last ones known are in force, after a restart those on this process's disk.

    Parameters
    ----------
    kept
        The same documents, with ``COLLECTION`` among those that it keeps on disk, and ``MARK`` as its mark.
    data
        The data directory.
    """

    def __init__(self, documents: DocumentStore, kept: Snapshot, data: Path) -> None:
        self._documents = documents
        self._kept = kept
        self._found: dict[str, tuple[Migration, int]] = {}
        self._said: tuple[str, ProxyConfirmation] | None = None
        self._take(read_kept(data, COLLECTION) or ())

    @property
    def all(self) -> list[Migration]:
        """All of them, the one that began last first."""
        return sorted((found for found, _ in self._found.values()), key=lambda one: (-one.began_at, one.id))

    def get(self, migration_id: str) -> Migration:
        """Return one; raises ``NotFound``."""
        if migration_id not in self._found:
            raise NotFound(
                localized("there is no migration {id}", id=repr(migration_id)),
                hint=localized("see which there are: {command}", command="bus lookup status"),
            )
        return self._found[migration_id][0]

    def latest(self) -> list[Migration]:
        """Return the last one of each topic."""
        found: dict[str, Migration] = {}
        for migration, _ in self._found.values():
            if migration.topic not in found or number_of(migration) > number_of(found[migration.topic]):
                found[migration.topic] = migration
        return list(found.values())

    def routes(self) -> dict[str, Route]:
        """Return the routes that they put in force, by topic."""
        return {one.topic: one.route for one in self.latest() if not one.is_settled}

    def usual(self, migration: Migration) -> Route | None:
        """Return the route of the topic's migration before, as far as that has one in force still."""
        before = self._found.get(f"{migration.topic}-{number_of(migration) - 1}")
        return before[0].route if before is not None and not before[0].is_settled else None

    def next_number(self, topic: str) -> int:
        """Return the number of a topic's next migration; raises ``Conflict`` while it is in one."""
        last = next((one for one in self.latest() if one.topic == topic), None)
        if last is None:
            return 1
        if not last.has_ended:
            raise refuse_second(last)
        return number_of(last) + 1

    async def load(self) -> None:
        """Read them all; while the store is unreachable they stay as they are.

        Raises
        ------
        StoreError
            The store is unreachable, and nothing was ever kept.
        """
        async with asyncio.timeout(_LOADED_WITHIN):
            self._take(await self._kept.list(COLLECTION))

    async def start(self, migration: Migration) -> None:
        """Add one; durable when it returns.

        Raises
        ------
        Conflict
            Another request began one of this topic at the same time.
        """
        await ensure_mark(self._kept)
        try:
            version = await self._kept.put(COLLECTION, migration.id, msgspec.json.encode(migration), version=0)
        except Conflict as error:
            raise refuse_second(migration) from error
        self._found[migration.id] = (migration, version)

    async def replace(self, before: Migration, after: Migration) -> None:
        """Change one; durable when it returns.

        Raises
        ------
        Conflict
            Another request changed it first, or it is not known as ``before`` here any more.
        """
        known, version = self._found.get(before.id, (None, 0))
        if known != before:
            raise _changed(before)
        try:
            stored = await self._kept.put(COLLECTION, before.id, msgspec.json.encode(after), version=version)
        except Conflict as error:
            raise _changed(before) from error
        self._found[before.id] = (after, stored)

    async def confirm(self, owner: str, said: ProxyConfirmation) -> None:
        """Report to the other proxies what this one has in force."""
        if (owner, said) != self._said:
            await self._documents.put(CONFIRMED, owner, msgspec.json.encode(said))
            self._said = (owner, said)

    async def confirmed(self) -> dict[str, ProxyConfirmation | None]:
        """Return what each live proxy says in this life, by its node and owner; None for one that said nothing.

        Which proxies live says the store at that moment, and not this process, which may have been cut off from it.
        """
        members = [_member(document) for document in await self._documents.list(MEMBERS)]
        found = {document.key: _confirmed(document) for document in await self._documents.list(CONFIRMED)}
        if self._said is not None and self._said[0] not in found:
            self._said = None  # the store was emptied: it is reported again
        answers: dict[str, ProxyConfirmation | None] = {}
        for member in members:
            if member is not None and _ROLE in member.roles:
                said = found.get(member.owner)
                is_of_now = said is not None and said.life == member.started_at
                answers[f"{member.node} ({member.owner})"] = said if is_of_now else None
        return answers

    def _take(self, documents: Sequence[Document]) -> None:
        found: dict[str, tuple[Migration, int]] = {}
        for document in documents:
            if document.key in (_MARK, NOTE):
                continue
            try:
                found[document.key] = (msgspec.json.decode(document.value, type=Migration), document.version)
            except (msgspec.DecodeError, UnicodeDecodeError):
                _log.error("the migration %s is of another version; it has no effect here", document.key)
        self._found = found


async def ensure_mark(kept: Snapshot) -> None:
    """Write the mark before the first document; a store that was emptied gets back the one that it had first."""
    if await kept.get(*MARK) is None:
        await kept.put(*MARK, b"{}")


def number_of(migration: Migration) -> int:
    """Return the number of a migration among those of its topic."""
    return int(migration.id.rpartition("-")[2])


def unconfirmed(migration: Migration, said: Mapping[str, ProxyConfirmation | None]) -> list[AnyText]:
    """Return the proxies that do not confirm that they have a migration's step in force."""
    missing: list[AnyText] = []
    for name, one in said.items():
        if one is not None and migration.id in one.elsewhere:
            missing.append(localized("the proxy {name} has another route for it in its file", name=name))
        elif one is None or one.turns.get(migration.id) != migration.turn:
            missing.append(localized("the proxy {name} has not said that it answers so", name=name))
    return missing


def is_home(migration: Migration, said: Mapping[str, ProxyConfirmation | None]) -> bool:
    """Whether the files of all proxies give the last route."""
    return all(one is not None and migration.id in one.at_home for one in said.values())


def _member(document: Document) -> _Member | None:
    """Return a process; None for one that the others have declared gone."""
    try:
        return msgspec.json.decode(document.value, type=_Member)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _confirmed(document: Document) -> ProxyConfirmation | None:
    try:
        return msgspec.json.decode(document.value, type=ProxyConfirmation)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _changed(migration: Migration) -> Conflict:
    return Conflict(
        localized("{id} was changed meanwhile; nothing was changed here", id=migration.id),
        hint=localized("look at it again: {command}", command=f"bus lookup status {migration.id}"),
    )
