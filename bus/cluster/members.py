"""Who is there: each process tells of itself every second, and knows the others by what they tell."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

import msgspec

from bus.cluster.member import COLLECTION, Member
from bus.domain.shares import Shares, View
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.store import Document, DocumentStore

_log = logging.getLogger(__name__)
_INTERVAL: Final = 1.0
_SILENT: Final = 5.0
_ROTATE: Final = 10.0
_ASK: Final = 0.1

Probe = Callable[[Member], Awaitable[bool]]
Listener = Callable[[], Awaitable[None]]


class KeptView(Protocol):
    """One view on this process's disk."""

    def read(self) -> View:
        """Return it; one without owners when none can be read."""
        ...

    def write(self, view: View) -> None:
        """Replace it, as far as the disk lets."""
        ...


class _Sight(NamedTuple):
    """A member, the version of its document, and when that was first seen (monotonic seconds)."""

    member: Member
    version: int
    at: float


class Members:
    """The processes of one bus that are alive.

    A process whose document has not changed for a while, and that does not answer either, is gone. While the store
    does not answer, everything stays as it was, the shares of permits too; one that starts meanwhile takes the share
    that it had last.

    Parameters
    ----------
    me
        What this process is.
    probe
        Asks a silent process whether it lives.
    kept
        Where the view that this process went by last is kept.

    Attributes
    ----------
    describe
        Adds to ``me`` what changes, but for the view.
    has_shrunk
        Whether the requests in flight are within what ``shares`` allows; set by whoever makes requests.
    """

    def __init__(
        self,
        documents: DocumentStore,
        clock: Clock,
        me: Member,
        probe: Probe,
        kept: KeptView,
    ) -> None:
        self._documents = documents
        self._clock = clock
        self._probe = probe
        self._kept = kept
        self._me = me
        self.describe: Callable[[Member], Member] = lambda member: member
        self.has_shrunk: Callable[[], bool] = lambda: True
        self._sights: dict[str, _Sight] = {}
        self._listeners: list[Listener] = []
        self._published = View()
        self._has_told = False
        self._news = asyncio.Event()
        self._rotated_at = clock.monotonic()
        self.shares = Shares(self._me.owner)

    @property
    def me(self) -> Member:
        """What this process said of itself last."""
        return self._me

    @property
    def others(self) -> list[Member]:
        """The other processes that are alive."""
        return [sight.member for owner, sight in self._sights.items() if owner != self._me.owner]

    @property
    def all(self) -> list[Member]:
        """Every process that is alive, this one first."""
        return [self._me, *self.others]

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` whenever this process's shares of permits have changed."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Tell and look every second, and when there are news, until cancelled."""
        while True:
            await self._pause()
            await self.step()

    def hurry(self) -> None:
        """Tell at once what is new."""
        self._news.set()

    async def _pause(self) -> None:
        """Wait a second, or until there are news."""
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(self._clock.sleep(_INTERVAL)), group.create_task(self._wait_for_news())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        self._news.clear()

    async def _wait_for_news(self) -> None:
        await self._news.wait()

    async def step(self) -> None:
        """Tell and look once."""
        try:
            await self._tell()
            await self._look()
        except StoreError as error:
            _log.debug("members stay as they were while the store does not answer: %s", error)
            return
        await self._settle_shares()

    async def join(self) -> None:
        """Enter: with nobody else there, or without a store to ask, this process has permits when it returns."""
        await self.step()
        await self.step()
        if self._me.is_dispatcher and not self._has_told:
            owner = self._me.owner
            kept = self._kept.read()
            await self._change(lambda: self.shares.resume(kept if owner in kept.owners else View((owner,))))

    async def confirmed(self, revision: int, *, within: float) -> bool:
        """Wait until every other process that is alive has a state of the configuration in force; whether they have.

        Parameters
        ----------
        within
            Seconds to wait at most.
        """
        until = self._clock.monotonic() + within
        while any(member.revision < revision for member in self.others):
            if self._clock.monotonic() >= until:
                return False
            await self._clock.sleep(_ASK)
            with contextlib.suppress(StoreError):
                await self._look()
        return True

    async def leave(self) -> None:
        """Take the document away; called when nothing is in flight any more."""
        try:
            await self._documents.delete(COLLECTION, self._me.owner)
        except StoreError as error:
            _log.warning("the others notice later that this process has gone: %s", error)

    async def _tell(self) -> None:
        if self._has_told and await self._documents.get(COLLECTION, self._me.owner) is None:
            _log.warning("the others took this process for gone; it shares permits with them anew")
            await self._change(lambda: self.shares.want(View()))
        if self.has_shrunk():
            self._published = self.shares.view
        self._me = msgspec.structs.replace(self.describe(self._me), view=self._published)
        await self._documents.put(COLLECTION, self._me.owner, msgspec.json.encode(self._me))
        self._has_told = True

    async def _look(self) -> None:
        now = self._clock.monotonic()
        found = {document.key: document for document in await self._documents.list(COLLECTION)}
        for owner in set(self._sights) - set(found):
            del self._sights[owner]
        for owner, document in found.items():
            await self._see(owner, document, now)

    async def _see(self, owner: str, document: Document, now: float) -> None:
        known = self._sights.get(owner)
        if known is not None and known.version == document.version:
            if owner != self._me.owner and now - known.at > _SILENT and not await self._probe(known.member):
                await self._bury(known.member)
            return
        try:
            member = msgspec.json.decode(document.value, type=Member)
        except msgspec.DecodeError:
            _log.warning("the process %s is of another version; it is left out", owner)
            return
        self._sights[owner] = _Sight(member, document.version, now)

    async def _bury(self, member: Member) -> None:
        _log.warning("process %s (%s, %s) is gone", member.node, member.owner, ", ".join(member.roles))
        del self._sights[member.owner]
        await self._documents.delete(COLLECTION, member.owner)

    async def _settle_shares(self) -> None:
        """Go over to the view of now, and use all of it once everybody has shrunk to it."""
        if not self._me.is_dispatcher:
            return
        dispatchers = sorted(member.owner for member in self.all if member.is_dispatcher)
        wanted = View(tuple(dispatchers), self._rotation(dispatchers[0]))
        await self._change(lambda: self.shares.want(wanted))
        others = [member.view for member in self.others if member.is_dispatcher]
        if self.shares.bounds != (wanted,) and all(view == wanted for view in (self._published, *others)):
            await self._change(self.shares.grant)
            self._kept.write(wanted)

    async def _change(self, change: Callable[[], None]) -> None:
        """Change the shares, and have it known when they are others now."""
        before = self.shares.bounds
        change()
        if self.shares.bounds != before:
            for listener in self._listeners:
                await listener()

    def _rotation(self, first: str) -> int:
        """Return the turn that the first dispatcher says it is; as that one, take turns."""
        if first != self._me.owner:
            return self._sights[first].member.view.rotation
        now = self._clock.monotonic()
        if len(self.shares.view.owners) > 1 and now - self._rotated_at >= _ROTATE:
            self._rotated_at = now
            return self.shares.view.rotation + 1
        return self.shares.view.rotation
