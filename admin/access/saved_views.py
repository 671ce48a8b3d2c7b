"""Saved views: a page and its query under a name, private or shared, kept in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import parse_qs

import msgspec

from bus.errors import Conflict, NotFound
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.store import Document, DocumentStore
from bus.security.keys import Action
from bus.security.principals import Principal

VIEWS: Final = "views"
MOST_OF_ONE: Final = 100
MOST_OF_ALL: Final = 2_000


class StoredView(msgspec.Struct, frozen=True, kw_only=True):
    """A stored view; ``kind`` and ``by`` are its owner's kind and id, ``owner`` their name when it was saved."""

    name: str
    kind: str
    by: str
    owner: str
    page: str
    query: str
    shared: bool
    updated_at: int


class VersionedView(NamedTuple):
    """A view with its version, which a change may require."""

    view: StoredView
    version: int


class SavedViews:
    """Saved views of all principals. A name is unique for its owner only: two people may each have a view of that name.

    Views that are added at the same moment may exceed the limits (``MOST_OF_ONE``, ``MOST_OF_ALL``) by their number.
    """

    def __init__(self, documents: DocumentStore, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock

    async def visible(self, principal: Principal) -> list[VersionedView]:
        """Return the principal's own views by name, then those that others share."""
        found = [_found(document) for document in await self._documents.list(VIEWS, limit=MOST_OF_ALL * 2)]
        seen = [one for one in found if _is_visible(one.view, principal)]
        return sorted(seen, key=lambda one: (not is_own(one.view, principal), one.view.name, one.view.owner))

    async def find(self, principal: Principal, name: str, owner: str | None) -> VersionedView:
        """Return the principal's view of a name, else a shared one; with ``owner`` (``user:ann``) only that owner's.

        Raises
        ------
        NotFound
            There is none, or none that this principal may see.
        """
        own = await self._documents.get(VIEWS, _key(owner or _owner(principal), name))
        if own is not None and _is_visible(_found(own).view, principal):
            return _found(own)
        for found in await self.visible(principal) if owner is None else ():
            if found.view.name == name:
                return found
        raise _missing(name)

    async def put(
        self, principal: Principal, name: str, *, page: str, query: str, shared: bool, version: int | None
    ) -> VersionedView:
        """Store a view of the principal; durable when it returns.

        Parameters
        ----------
        version
            The one that must be stored now: 0 for none, None for any.

        Raises
        ------
        Conflict
            Another version is stored, or the limit of views is reached.
        """
        key = _key(_owner(principal), name)
        if await self._documents.get(VIEWS, key) is None:
            await self._check_room(principal)
        view = StoredView(
            name=name,
            kind=principal.kind,
            by=principal.id,
            owner=principal.name,
            page=page,
            query=query,
            shared=shared,
            updated_at=self._clock.now(),
        )
        try:
            return VersionedView(
                view, await self._documents.put(VIEWS, key, msgspec.json.encode(view), version=version)
            )
        except Conflict as error:
            raise Conflict(
                localized("the view {name} was changed meanwhile; nothing was changed", name=repr(name)),
                hint=localized("read it again, then change it"),
            ) from error

    async def delete(self, principal: Principal, name: str, owner: str | None) -> None:
        """Remove a view of the principal, or for an admin a shared one of others. Raises ``NotFound``."""
        found = await self.find(principal, name, owner or _owner(principal))
        if not is_own(found.view, principal):
            principal.require(Action.CONFIGURE, None)
        await self._documents.delete(VIEWS, _key(owner or _owner(principal), name))

    async def forget(self, kind: str, by: str) -> None:
        """Remove the views of a removed user or key that were not shared; shared ones stay."""
        for document in await self._documents.list(VIEWS, prefix=f"{kind}:{by}/"):
            if not _found(document).view.shared:
                await self._documents.delete(VIEWS, document.key)

    async def _check_room(self, principal: Principal) -> None:
        own = await self._documents.list(VIEWS, prefix=_key(_owner(principal), ""), limit=MOST_OF_ONE)
        if len(own) >= MOST_OF_ONE:
            raise Conflict(
                localized("{name} has {count} views; nothing was saved", name=principal.name, count=MOST_OF_ONE),
                hint=localized("remove one first"),
            )
        if len(await self._documents.list(VIEWS, limit=MOST_OF_ALL)) >= MOST_OF_ALL:
            raise Conflict(
                localized("there are {count} views; nothing was saved", count=MOST_OF_ALL),
                hint=localized("ask others to remove theirs"),
            )


def is_own(view: StoredView, principal: Principal) -> bool:
    """Whether a view is the principal's."""
    return (view.kind, view.by) == (principal.kind, principal.id)


def _is_visible(view: StoredView, principal: Principal) -> bool:
    """Whether a principal may see a view: a shared one only if they may read every destination in its query."""
    if is_own(view, principal):
        return True
    named: Sequence[str | None] = parse_qs(view.query).get("destination") or [None]
    return view.shared and all(principal.may(Action.READ, code) for code in named)


def _owner(principal: Principal) -> str:
    return f"{principal.kind}:{principal.id}"


def _key(owner: str, name: str) -> str:
    return f"{owner}/{name}"


def _found(document: Document) -> VersionedView:
    return VersionedView(msgspec.json.decode(document.value, type=StoredView), document.version)


def _missing(name: str) -> NotFound:
    return NotFound(
        localized("there is no view {name}", name=repr(name[:80])),
        hint=localized("GET /api/v1/views lists those that you may see"),
    )
