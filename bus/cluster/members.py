"""Who is there: each process tells of itself every second, and knows the others by what they tell."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, Protocol

import msgspec

from bus.cluster.member import COLLECTION, Member
from bus.cluster.pulse import BEAT, Pulse
from bus.domain.delivery.shares import Shares, View
from bus.domain.health.vitals import UnreachableProcess
from bus.domain.times import SKEW
from bus.errors import Conflict, StoreError
from bus.ports.clock import Clock
from bus.ports.store import Document, DocumentStore
from bus.sentences import Said, sentence
from bus.waits import first_of

_log = logging.getLogger(__name__)
_INTERVAL: Final = 1.0
_APART: Final = 0.1
_SILENT: Final = 5.0
_ROTATE: Final = 10.0
_ASK: Final = 0.1
_FORGOTTEN: Final = 600.0
_FORGOTTEN_WITH_RECORDS: Final = 86_400.0
_SHARED_WITHIN: Final = 10.0
_AHEAD_FOR: Final = 10.0

Probe = Callable[[Member], Awaitable[bool]]
Listener = Callable[[], Awaitable[None]]


class KeptView(Protocol):
    """One view on this process's disk."""

    def read(self) -> View:
        """Return it; one without owners when none can be read."""
        ...

    async def write(self, view: View) -> None:
        """Replace it, as far as the disk lets; durable when it returns."""
        ...


class _Sight(NamedTuple):
    """A member, its document, and when that was first seen (monotonic seconds).

    ``ahead`` is by how much (ms) its clock is ahead of this process's, at least: what was told took a while to come
    here. ``too_far_since`` is since when that is more than clocks may differ by.
    """

    member: Member
    document: Document
    at: float
    ahead: int
    too_far_since: float | None


class _Unread(NamedTuple):
    """A document that cannot be read, or of a process declared gone, and when it was first seen (monotonic)."""

    document: Document
    at: float
    unreachable: UnreachableProcess | None

    def is_forgotten(self, now: float) -> bool:
        """Whether it is old enough to be deleted."""
        has_records = self.unreachable is not None and self.unreachable.records > 0
        return now - self.at > (_FORGOTTEN_WITH_RECORDS if has_records else _FORGOTTEN)


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
        Returns its argument with all fields that change, but for those that this class sets itself.
    beyond
        Returns the subscriptions of which more requests are in flight, or could be started, than ``shares`` allows;
        set by the dispatcher.
    is_reshared
        Returns whether the dispatcher follows ``shares``; until then the document keeps the earlier view.
    told_at
        When (monotonic seconds) this process last began to write its document, of those times that the store took it.
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
        self.beyond: Callable[[], AbstractSet[str]] = frozenset
        self.is_reshared: Callable[[], bool] = lambda: True
        self._sights: dict[str, _Sight] = {}
        self._unread: dict[str, _Unread] = {}
        self._unsure: set[str] = set()
        self._looking = asyncio.Lock()
        self._pulse = Pulse(clock)
        self._listeners: list[Listener] = []
        self._has_changed = asyncio.Event()
        self._version: int | None = None
        self.told_at = float("-inf")
        self._news = asyncio.Event()
        self._joined_at = self._settled_at = clock.monotonic()
        self.shares = Shares(self._me.sharer)
        self._without_since: float | None = self._settled_at

    @property
    def me(self) -> Member:
        """What this process said of itself last."""
        return self._me

    @property
    def others(self) -> list[Member]:
        """The other processes that are alive."""
        return [sight.member for sight in self._sights.values()]

    @property
    def all(self) -> list[Member]:
        """Every process that is alive, this one first."""
        return [self._me, *self.others]

    @property
    def unreachable(self) -> list[UnreachableProcess]:
        """The processes that cannot be reached.

        One is removed when it is back, when a sweeper has emptied its queues, and after ten minutes; one with records
        on its disk after a day.
        """
        return [unread.unreachable for unread in self._unread.values() if unread.unreachable is not None]

    async def forget(self, owners: AbstractSet[str]) -> None:
        """Delete the documents of unreachable processes whose queues are empty.

        Raises
        ------
        StoreError
            Some are not deleted.
        """
        for owner in [one.owner for one in self.unreachable if one.owner in owners]:
            await self._documents.delete(COLLECTION, owner)

    def seen(self, owner: str) -> float:
        """Return how many seconds ago a process told of itself last; 0 for this one and for one that is not known."""
        sight = self._sights.get(owner)
        return self._clock.monotonic() - sight.at if sight is not None else 0.0

    @property
    def may_start(self) -> bool:
        """Whether requests may start: not after it stood still, until it knows whether it was declared gone."""
        return self._pulse.is_steady

    @property
    def trouble(self) -> Said:
        """Why this dispatcher, which holds messages, has had no permits for some time; empty when it has some."""
        if not self._me.is_dispatcher or not self._me.held or self._without_since is None:
            return ""
        seconds = self._clock.monotonic() - self._without_since
        if seconds < _SHARED_WITHIN:
            return ""
        missing = [member for member in self.others if member.is_dispatcher and member.view != self.shares.view]
        who = ", ".join(f"{member.node} ({member.url}, {member.owner})" for member in missing)
        return sentence(
            "no permits for {seconds} s, so that what it holds waits; they are not shared out yet by {who}",
            seconds=f"{seconds:.0f}",
            who=who or sentence("nobody that is known"),
        )

    @property
    def clocks(self) -> Said:
        """Which processes' clocks have been too far ahead of this one's for a while; empty for none."""
        until = self._clock.monotonic() - _AHEAD_FOR
        ahead = [
            f"{sight.member.node} ({sight.member.url}) by {sight.ahead / 1000:.0f} s"
            for sight in self._sights.values()
            if sight.too_far_since is not None and sight.too_far_since <= until
        ]
        if not ahead:
            return ""
        return sentence(
            "clocks may differ by {seconds} s and are ahead of this process's on {nodes}: waits and leases are shorter "
            "or longer by that; have all hosts take their time from the same servers",
            seconds=SKEW // 1000,
            nodes=", ".join(ahead),
        )

    def lead(self, role: str = "") -> int:
        """Return by how much (ms) other processes' clocks, or those of a role, are ahead of this one's at most."""
        return max(
            (sight.ahead for sight in self._sights.values() if not role or role in sight.member.roles), default=0
        )

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` when this process's shares of permits have changed; never while in it.

        One that raises is called again a second later.
        """
        self._listeners.append(listener)

    async def run(self) -> None:
        """Write this process's document and read the others', every second and after ``hurry``, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat())
            group.create_task(self._inform())
            while True:
                await self._pause()
                try:
                    await self.step()
                except Exception:  # noqa: BLE001 - whatever it is, silence would have the others take this one for gone
                    _log.exception("this process could not tell of itself; it goes on and tries again")

    def hurry(self) -> None:
        """Tell at once what is new."""
        self._news.set()

    async def _pause(self) -> None:
        """Wait a second, or until there are news; many at once are told together."""
        await self._clock.sleep(_APART)
        await first_of(self._clock.sleep(_INTERVAL), self._wait_for_news())
        self._news.clear()

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(BEAT)
            self._pulse.beat()
            if not self._pulse.is_steady:
                self.hurry()

    async def _wait_for_news(self) -> None:
        await self._news.wait()

    async def _inform(self) -> None:
        """Call the listeners, in a task of its own, so that a slow one does not make this process silent."""
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            for listener in self._listeners:
                try:
                    await listener()
                except Exception:  # noqa: BLE001 - whatever it is, it must not end the bus
                    _log.exception("the shares of now are not in force everywhere; again in a second")
                    self._has_changed.set()
            if self._has_changed.is_set():
                await self._clock.sleep(_INTERVAL)

    async def step(self) -> None:
        """Write this process's document and read the others', once."""
        # What it stands still for from now on is for the next step.
        doubts = self._pulse.beat()
        try:
            await self._tell()
            await self._look()
            await self._check_silent()
        except StoreError as error:
            _log.debug("members stay as they were while the store does not answer: %s", error)
        else:
            await self._settle_shares()
        if self.is_reshared():
            self._pulse.forgive(doubts)

    async def join(self) -> None:
        """Enter: with nobody else there, or without a store to ask, this process has permits when it returns."""
        await self.step()
        await self.step()
        if self._me.is_dispatcher and self._version is None:
            sharer, kept = self._me.sharer, self._kept.read()
            self._change(lambda: self.shares.resume(kept if sharer in kept.owners else View((sharer,))))

    async def confirmed(self, revision: int, *, within: float) -> bool:
        """Wait until every other process that is alive has a state of the configuration in force; whether they have.

        Parameters
        ----------
        within
            Seconds to wait at most.
        """
        until = self._clock.monotonic() + within
        while True:
            # Also before the first answer: one that is starting may have joined just now.
            with contextlib.suppress(StoreError):
                await self._look()
            if all(member.revision >= revision for member in self.others):
                return True
            if self._clock.monotonic() >= until:
                return False
            await self._clock.sleep(_ASK)

    async def leave(self) -> None:
        """Take the document away; called when nothing is in flight any more."""
        try:
            await self._documents.delete(COLLECTION, self._me.owner)
        except StoreError as error:
            _log.warning("the others notice later that this process has gone: %s", error)

    async def _tell(self) -> None:
        try:
            await self._put()
        except Conflict:
            await self._catch_up()
            await self._put()

    async def _put(self) -> None:
        beyond, view = frozenset(self.beyond()), self.shares.view if self.is_reshared() else self._me.view
        told_at = self._clock.now()
        began = told_at - round((self._clock.monotonic() - self._joined_at) * 1000)
        self._me = msgspec.structs.replace(
            self.describe(self._me), view=view, beyond=beyond, began=began, told_at=told_at
        )
        value, begun = msgspec.json.encode(self._me), self._clock.monotonic()
        self._version = await self._documents.put(COLLECTION, self._me.owner, value, version=self._version)
        self.told_at = begun

    async def _catch_up(self) -> None:
        """Find out why the document has another version: it was taken away, or a failed write took effect after all."""
        found = await self._documents.get(COLLECTION, self._me.owner)
        self._version = found.version if found is not None else 0
        if found is not None and (own := self._read(found)) is not None and own.started_at == self._me.started_at:
            return
        _log.warning("the others took this process for gone, or the store was wiped; permits are shared anew")
        self._pulse.doubt()
        self._change(lambda: self.shares.want(View()))
        if found is None:
            # The others' documents may be missing as well: who was alive counts as alive until silent for too long.
            self._unsure = set(self._sights)

    async def _look(self) -> None:
        async with self._looking:
            now = self._clock.monotonic()
            found = {document.key: document for document in await self._documents.list(COLLECTION)}
            for owner in set(self._sights) - set(found) - self._unsure:
                del self._sights[owner]
            for owner in set(self._unread) - set(found):
                del self._unread[owner]
            for owner, document in found.items():
                if owner != self._me.owner:
                    self._see(owner, document, now)

    def _see(self, owner: str, document: Document, now: float) -> None:
        self._unsure.discard(owner)
        known = self._sights.get(owner) or self._unread.get(owner)
        if known is not None and known.document == document:
            return
        member = self._read(document)
        if member is None:
            self._sights.pop(owner, None)
            self._unread[owner] = _Unread(document, now, _unreachable(document))
        else:
            self._unread.pop(owner, None)
            ahead = max(0, member.told_at - self._clock.now())
            before = self._sights.get(owner)
            since = before.too_far_since if before is not None and before.too_far_since is not None else now
            self._sights[owner] = _Sight(member, document, now, ahead, since if ahead > SKEW else None)

    def _read(self, document: Document) -> Member | None:
        """Return what a process tells; None when it was declared gone, or is of another version."""
        try:
            return msgspec.json.decode(document.value, type=Member)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if document.key not in self._unread and _unreachable(document) is None:
                _log.warning("the process %s is of another version; it is left out", document.key)
            return None

    async def _check_silent(self) -> None:
        """Probe those who have not told anything for a while, all at once, and declare gone who does not answer."""
        now = self._clock.monotonic()
        silent = [sight for sight in self._sights.values() if now - sight.at > _SILENT]
        answers = await asyncio.gather(*(self._probe(sight.member) for sight in silent))
        for sight, lives in zip(silent, answers, strict=True):
            if not lives:
                await self._declare_gone(sight)
        for owner in [owner for owner, unread in self._unread.items() if unread.is_forgotten(now)]:
            await self._documents.delete(COLLECTION, owner)

    async def _declare_gone(self, sight: _Sight) -> None:
        member = sight.member
        if member.owner in self._unsure:
            self._unsure.discard(member.owner)
            self._sights.pop(member.owner, None)
            return
        try:
            # It must learn of it, or it would go on with permits that others have by then.
            await self._documents.put(
                COLLECTION, member.owner, msgspec.json.encode(_unreachable_now(member)), version=sight.document.version
            )
        except Conflict:
            return  # it has told of itself meanwhile
        _log.warning("process %s (%s, %s) is gone", member.node, member.owner, ", ".join(member.roles))
        self._sights.pop(member.owner, None)

    async def _settle_shares(self) -> None:
        """Change to the view of those alive now, and use the whole share of it once every dispatcher is on it."""
        if not self._me.is_dispatcher:
            return
        others = [member for member in self.others if member.is_dispatcher]
        dispatchers = sorted([self._me, *others], key=lambda member: (member.sharer, member.owner))
        sharers = tuple(dict.fromkeys(member.sharer for member in dispatchers))
        wanted = View(sharers, self._rotation(dispatchers[0].owner))
        self._change(lambda: self.shares.want(wanted))
        is_heard = not any(member.owner in self._unsure for member in others)
        if is_heard and all(member.view == wanted for member in (self._me, *others)):
            was_settled = self.shares.is_settled
            self._change(lambda: self.shares.grant(self._me.beyond.union(*(member.beyond for member in others))))
            if not was_settled:
                self._settled_at = self._clock.monotonic()
                await self._kept.write(wanted)

    def _change(self, change: Callable[[], None]) -> None:
        """Change the shares, and have the listeners called if they are different now."""
        before = self.shares.version
        change()
        if self.shares.version != before:
            self._has_changed.set()
        if self.shares.has_any:
            self._without_since = None
        elif self._without_since is None:
            self._without_since = self._clock.monotonic()

    def _rotation(self, first: str) -> int:
        """Return the rotation: the first dispatcher raises it every so often, and the others follow that one."""
        if first != self._me.owner:
            return self._sights[first].member.view.rotation
        shares, now = self.shares, self._clock.monotonic()
        if len(shares.view.owners) > 1 and shares.is_settled and now - self._settled_at >= _ROTATE:
            return shares.view.rotation + 1
        return shares.view.rotation


def _unreachable_now(member: Member) -> UnreachableProcess:
    records = sum(spool.records for spool in member.spools.values())
    return UnreachableProcess(member.owner, member.node, member.url, member.roles, member.told_at, records)


def _unreachable(document: Document) -> UnreachableProcess | None:
    try:
        return msgspec.json.decode(document.value, type=UnreachableProcess)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
