"""Membership: each process writes its document every second, and reads those of the others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec

from bus.async_helpers import first_of
from bus.cluster.lease import ENDED, PROMISE_LASTS, Lease, Promise, Question, has_majority
from bus.cluster.member import COLLECTION, Member
from bus.cluster.saved_views import SavedViews
from bus.cluster.unreachable import (
    MissingDispatcher,
    UnreadableDocument,
    address_of,
    have_majority,
    missing_dispatchers,
    read_unreachable,
    unreachable_document,
)
from bus.domain.delivery.concurrency_shares import Shares, View
from bus.domain.health.vitals import UnreachableProcess
from bus.domain.times import SKEW
from bus.errors import Conflict, StoreError
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.ports.store import Document, DocumentStore

_log = logging.getLogger(__name__)
_INTERVAL: Final = 1.0
_APART: Final = 0.1
_SILENT: Final = 5.0
_ROTATE: Final = 10.0
_ASK: Final = 0.1
_RENEW: Final = 0.5
_SHARED_WITHIN: Final = 10.0
_AHEAD_FOR: Final = 10.0
_OFFSETS: Final = 5
"""Documents of this process for which it remembers how its clock was: the others' are known by then."""

Probe = Callable[[Member], Awaitable[bool | None]]
AskPromise = Callable[[Member, Question], Awaitable[Promise | None]]
Listener = Callable[[], Awaitable[None]]


class KeptViews(Protocol):
    """The record of shared slots on this process's disk."""

    def read(self) -> SavedViews:
        """Return it; nothing when it cannot be read."""
        ...

    async def write(self, kept: SavedViews) -> None:
        """Replace it, as far as the disk lets; durable when it returns."""
        ...


class _Sighting(NamedTuple):
    """A member, its document, and when that was first seen (monotonic seconds).

    ``ahead`` is by how much (ms) its clock is ahead of this process's, at least: its report took a while to arrive
    here. ``behind`` is by how much it is behind, at most. ``too_far_since`` is since when it is ahead by more than
    clocks may differ by.
    """

    member: Member
    document: Document
    at: float
    ahead: int
    behind: int
    too_far_since: float | None


class Members:
    """The processes of one bus that are alive.

    A process whose document has not changed for a while, and that does not answer either, is declared dead. While the
    store does not answer, everything stays as it was, the shares of slots too; one that starts meanwhile takes the
    share that it had last. A dispatcher uses its share only under a ``Lease``.

    Parameters
    ----------
    me
        Document of this process.
    probe
        Asks a silent process for its name: True if it runs, False if it has ended, None if neither is certain.
    ask
        Asks a dispatcher for a promise (``promise``) to this process; None when it does not answer.
    kept
        Storage of the views that bound this process's shares.

    Attributes
    ----------
    describe
        Returns its argument with all fields that change, but for those that this class sets itself.
    beyond
        Returns the subscriptions of which more requests are in flight, or could be started, than ``shares`` allows;
        set by the dispatcher.
    is_reshared
        Returns whether the dispatcher follows ``shares``; until then the document keeps the earlier view.
    slower
        Returns the subscriptions a request to which may last for so many seconds; set by the dispatcher.
    told_at
        When (monotonic seconds) this process last began to write its document, of those times that the store took it.
    missed_at
        When (monotonic seconds) it last learned that it was declared unreachable.
    """

    def __init__(
        self,
        documents: DocumentStore,
        clock: Clock,
        me: Member,
        probe: Probe,
        ask: AskPromise,
        kept: KeptViews,
    ) -> None:
        self._documents = documents
        self._clock = clock
        self._probe = probe
        self._ask_promise = ask
        self._kept = kept
        self._me = me
        self.describe: Callable[[Member], Member] = lambda member: member
        self.beyond: Callable[[], AbstractSet[str]] = frozenset
        self.is_reshared: Callable[[], bool] = lambda: True
        self.slower: Callable[[float], AbstractSet[str]] = lambda _: frozenset()
        self._sights: dict[str, _Sighting] = {}
        self._unread: dict[str, UnreadableDocument] = {}
        self._known: dict[str, Member] = {}
        self._unsure: set[str] = set()
        self._looking = asyncio.Lock()
        self._lease = Lease(clock)
        self._is_missed = self._is_leaving = False
        self._listeners: list[Listener] = []
        self._has_changed = asyncio.Event()
        self._version: int | None = None
        self.told_at = self.missed_at = float("-inf")
        self._offsets: deque[int] = deque(maxlen=_OFFSETS)
        self._news = asyncio.Event()
        self._joined_at = self._settled_at = clock.monotonic()
        self.shares = Shares(self._me.sharer)
        self._written: SavedViews | None = None
        self._has_shared = True
        self._without_since: float | None = self._settled_at

    @property
    def me(self) -> Member:
        """The last document of this process."""
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
        return [unread.process for unread in self._unread.values() if unread.process is not None]

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
        """Return how many seconds ago a process reported last; 0 for this one and for an unknown one."""
        sight = self._sights.get(owner)
        return self._clock.monotonic() - sight.at if sight is not None else 0.0

    @property
    def may_start(self) -> bool:
        """Whether requests may start: not longer after the last proof that its share is its own than a lease lasts."""
        return self._lease.is_held

    @property
    def trouble(self) -> AnyText:
        """Reason why this dispatcher with queued messages has started no requests for some time; empty when it may."""
        if not self._me.is_dispatcher or not self._me.held:
            return ""
        if self._without_since is None:
            if self._lease.over_for < _SHARED_WITHIN:
                return ""
            return localized(
                "no requests start and its messages stay queued: for {seconds} s neither the store nor more than half "
                "of the dispatchers have answered; the others may use its slots",
                seconds=f"{self._lease.over_for:.0f}",
            )
        seconds = self._clock.monotonic() - self._without_since
        if seconds < _SHARED_WITHIN:
            return ""
        missing = [member for member in self.others if member.is_dispatcher and member.view != self.shares.view]
        who = ", ".join(f"{member.node} ({member.url}, {member.owner})" for member in missing)
        return localized(
            "no permits for {seconds} s, so that what it holds waits; they are not shared out yet by {who}",
            seconds=f"{seconds:.0f}",
            who=who or localized("nobody that is known"),
        )

    @property
    def clocks(self) -> AnyText:
        """Which processes' clocks have been too far ahead of this one's for a while; empty for none."""
        until = self._clock.monotonic() - _AHEAD_FOR
        ahead = [
            f"{sight.member.node} ({sight.member.url}) by {sight.ahead / 1000:.0f} s"
            for sight in self._sights.values()
            if sight.too_far_since is not None and sight.too_far_since <= until
        ]
        if not ahead:
            return ""
        return localized(
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

    @property
    def too_slow(self) -> int:
        """By how much (ms) this process's clock is behind most others', or was put back within the last seconds."""
        ahead = sorted([0, *(sight.ahead for sight in self._sights.values())])
        put_back = max((offset - self._offset() for offset in self._offsets), default=0)
        return max(ahead[(len(ahead) - 1) // 2], put_back)

    def _offset(self) -> int:
        return self._clock.now() - round(self._clock.monotonic() * 1000)

    @property
    def too_fast(self) -> int:
        """By how much (ms) this process's clock is ahead of the others'; 0 if clocks may differ by that."""
        fresh = self._clock.monotonic() - _SILENT
        behind = sorted(sight.behind for sight in self._sights.values() if sight.at > fresh)
        middle = behind[(len(behind) - 1) // 2] if behind else 0
        return middle if middle > SKEW else 0

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` when this process's shares of slots have changed; never while in it.

        One that raises is called again a second later.
        """
        self._listeners.append(listener)

    async def run(self) -> None:
        """Write this process's document and read the others', every second and after ``hurry``, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew())
            group.create_task(self._inform())
            while True:
                await self._pause()
                try:
                    await self.step()
                except Exception:  # noqa: BLE001 - for any error: without reports the others would declare this process dead
                    _log.exception("this process could not tell of itself; it goes on and tries again")

    def hurry(self) -> None:
        """Write the document of this process at once."""
        self._news.set()

    async def _pause(self) -> None:
        """Wait a second, or until there is a change; many changes at once are written together."""
        await self._clock.sleep(_APART)
        await first_of(self._clock.sleep(_INTERVAL), self._wait_for_news())
        self._news.clear()

    async def _renew(self) -> None:
        """Renew the lease by the promises of others while the store does not take this process's document in time."""
        while True:
            await self._clock.sleep(_RENEW)
            if self._me.is_dispatcher and self._lease.is_short:
                self.hurry()
                await self._ask_for_promises()

    async def _ask_for_promises(self) -> None:
        begun = self._clock.monotonic()
        # One that was declared unreachable may be back, while the view without it is not settled.
        unreachable = {one.owner: address_of(one) for one in self.unreachable}
        known = unreachable | self._known | {owner: sight.member for owner, sight in self._sights.items()}
        asked = [member for member in known.values() if member.is_dispatcher and member.owner != self._me.owner]
        answers = await asyncio.gather(*(self._promise_of(member) for member in asked))
        found = list(zip((member.sharer for member in asked), answers, strict=True))
        for answer in answers:
            # The store may have failed in the middle of a change: a view that bounds one bounds both.
            if answer is not None and set(answer.views) & set(self.shares.bounds):
                self._change(partial(self.shares.bind, answer.views))
        refused = {sharer for sharer, answer in found if answer is not None and not answer.is_promised}
        promised = {self._me.sharer, *(sharer for sharer, answer in found if answer not in (None, ENDED))} - refused
        if not refused and None not in answers:
            # One that has ended promises nothing, but no other process is left with which it could have shared anew
            # before, and if it starts again it changes no view within the time of this lease.
            promised.update(sharer for sharer, _ in found)
        if has_majority(promised, self.shares.bounds) and not self._is_missed:
            self._lease.renew(begun)

    async def _promise_of(self, member: Member) -> Promise | None:
        """Return the answer of a dispatcher; None when it does not answer, and may run."""
        question = Question(member.owner, self._me.address(), self.shares.bounds)
        answer = await self._ask_promise(member, question)
        if answer is None and await self._probe(member) is False:
            return ENDED
        return answer

    def promise(self, question: Question) -> Promise:
        """Promise a dispatcher to change to no view that it does not agree with for some seconds.

        That is refused if its shares are not bound by each view that bounds those here, since others may use, or come
        to use, slots that it had; and if another process was asked, or a later run of that dispatcher is known.
        """
        asking, bounds = question.asking, self.shares.bounds
        known = self._sights.get(asking.owner)
        is_promised = (
            question.asked == self._me.owner
            and not self._is_leaving
            and (known is None or known.member.started_at <= asking.started_at)
            and not set(bounds) - {View(), *question.views}
        )
        if is_promised:
            self._known[asking.owner] = asking
            self._lease.promise(asking.owner)
        return Promise(is_promised, tuple(view for view in bounds if view.owners))

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
        try:
            await self._keep()
            await self._tell()
            await self._look()
            await self._check_silent()
        except StoreError as error:
            _log.debug("members stay as they were while the store does not answer: %s", error)
        else:
            self._settle_shares()

    async def join(self) -> None:
        """Enter: with no other process alive, or without a store, this process has slots when it returns."""
        kept = self._kept.read()
        self._has_shared = bool(kept.views)
        await self.step()
        await self.step()
        if self._me.is_dispatcher and self.told_at == float("-inf"):
            sharer = self._me.sharer
            has_others = any({sharer} < set(view.owners) for view in kept.views)
            views = kept.views if has_others else (View((sharer,)),)
            self._known = {member.owner: member for member in kept.others}
            self._change(lambda: self.shares.resume(views))
            self._version = None  # its document is read when the store answers: it may have been declared unreachable
            await self._ask_for_promises()
        await self._keep()

    async def _keep(self) -> None:
        """Write the views that bound the shares to the disk, before they are in the store."""
        others = tuple(member.address() for member in self.others if member.is_dispatcher)
        kept = SavedViews(self.shares.all_bounds, others)
        if self._me.is_dispatcher and self.shares.bounds != (View(),) and kept != self._written:
            await self._kept.write(kept)
            self._written = kept

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
        """Delete the document, once no promise binds this process; called when no request is in flight."""
        self._is_leaving = True
        while self._lease.promised:
            await self._clock.sleep(_ASK)
        try:
            await self._documents.delete(COLLECTION, self._me.owner)
        except StoreError as error:
            _log.warning("the others notice later that this process has gone: %s", error)

    async def _tell(self) -> None:
        if self._version is None:
            await self._catch_up()
        try:
            await self._put()
        except Conflict:
            await self._catch_up()
            await self._put()

    async def _put(self) -> None:
        self._offsets.append(self._offset())
        is_reshared = self.is_reshared()
        beyond, view = frozenset(self.beyond()), self.shares.view if is_reshared else self._me.view
        told_at = self._clock.now()
        began = told_at - round((self._clock.monotonic() - self._joined_at) * 1000)
        self._me = msgspec.structs.replace(
            self.describe(self._me),
            view=view,
            beyond=beyond,
            began=began,
            told_at=told_at,
            lapsed_for=self._lapsed_for(),
        )
        value, begun = msgspec.json.encode(self._me), self._clock.monotonic()
        self._version = await self._documents.put(COLLECTION, self._me.owner, value, version=self._version)
        self.told_at = begun
        self._is_missed &= not is_reshared
        if not self._is_missed:
            self._lease.renew(begun)

    async def _catch_up(self) -> None:
        """Read this process's document: an earlier run's, that of a failed write that took effect, or none."""
        found = await self._documents.get(COLLECTION, self._me.owner)
        is_first, self._version = self._version is None, found.version if found is not None else 0
        own = self._read(found) if found is not None else None
        if own is not None and (is_first or own.started_at == self._me.started_at):
            return
        if is_first and self.shares.bounds == (View(),):
            return  # it uses no share of an earlier run
        if is_first and found is None:
            await self._look()
            if not (self._sights or self._unread):
                return  # no other process could have declared it unreachable
        _log.warning("the others took this process for gone, or the store was wiped; permits are shared anew")
        self._is_missed, self.missed_at = True, self._clock.monotonic()
        self._lease.end()
        self._change(lambda: self.shares.want(View()))
        if found is None:
            # The others' documents may be missing as well: who was alive counts as alive until silent for too long.
            self._unsure = set(self._sights)

    async def _look(self) -> None:
        async with self._looking:
            now = self._clock.monotonic()
            found = {document.key: document for document in await self._documents.list(COLLECTION)}
            self._known.clear()
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
            self._unread[owner] = UnreadableDocument(document, now, read_unreachable(document))
        else:
            self._unread.pop(owner, None)
            ahead = max(0, member.told_at - self._clock.now())
            before = self._sights.get(owner)
            since = before.too_far_since if before is not None and before.too_far_since is not None else now
            # The document that is read first may have been written long ago.
            behind = max(0, self._clock.now() - member.told_at) if before is not None else 0
            self._sights[owner] = _Sighting(member, document, now, ahead, behind, since if ahead > SKEW else None)

    def _read(self, document: Document) -> Member | None:
        """Return the document of a process; None when it was declared dead, or is of another version."""
        try:
            return msgspec.json.decode(document.value, type=Member)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if document.key not in self._unread and read_unreachable(document) is None:
                _log.warning("the process %s is of another version; it is left out", document.key)
            return None

    async def _check_silent(self) -> None:
        """Probe processes that have not reported for a while, all at once; declare dead those that do not answer."""
        now = self._clock.monotonic()
        silent = [sight for sight in self._sights.values() if now - sight.at > _SILENT]
        answers = await asyncio.gather(*(self._probe(sight.member) for sight in silent))
        for sight, lives in zip(silent, answers, strict=True):
            if not lives:
                await self._declare_gone(sight, has_ended=lives is False)
        for owner in [owner for owner, unread in self._unread.items() if unread.is_forgotten(now)]:
            await self._documents.delete(COLLECTION, owner)

    async def _declare_gone(self, sight: _Sighting, *, has_ended: bool) -> None:
        member = sight.member
        # In a store that was wiped there is no document to replace.
        version = 0 if member.owner in self._unsure else sight.document.version
        value, owner = unreachable_document(member, has_ended=has_ended), member.owner
        try:
            # It must get this message, or it would keep using slots that other processes have by then.
            version = await self._documents.put(COLLECTION, owner, value, version=version)
        except Conflict:
            return  # it has reported meanwhile
        document = Document(owner, version, value)
        self._unread[owner] = UnreadableDocument(document, self._clock.monotonic(), read_unreachable(document))
        _log.warning("process %s (%s, %s) is gone", member.node, owner, ", ".join(member.roles))
        self._unsure.discard(owner)
        self._sights.pop(owner, None)

    def _settle_shares(self) -> None:
        """Change to the view of those alive now, and use the whole share of it once every dispatcher is on it."""
        if not self._me.is_dispatcher:
            return
        others = [member for member in self.others if member.is_dispatcher]
        dispatchers = sorted([self._me, *others], key=lambda member: (member.sharer, member.owner))
        sharers = tuple(dict.fromkeys(member.sharer for member in dispatchers))
        missing = missing_dispatchers(self._unread.values(), self._clock.monotonic())
        if not self._may_leave_out(missing, dispatchers):
            return
        wanted = View(sharers, self._rotation(dispatchers[0].owner))
        self._change(lambda: self.shares.want(wanted))
        is_heard = not any(member.owner in self._unsure for member in others)
        if is_heard and all(member.view == wanted for member in (self._me, *others)):
            beyond = self._me.beyond.union(self._still_in_flight(others), *(member.beyond for member in others))
            was_settled = self.shares.is_settled
            self._change(lambda: self.shares.grant(beyond))
            self._has_shared = True
            if not was_settled:
                self._settled_at = self._clock.monotonic()

    def _may_leave_out(self, missing: Sequence[MissingDispatcher], dispatchers: Sequence[Member]) -> bool:
        """Whether a view of these may be had: no other dispatcher can have, or get, a lease by promises."""
        sharers, owners = {member.sharer for member in dispatchers}, {member.owner for member in dispatchers}
        if missing and self._clock.monotonic() - self._joined_at < PROMISE_LASTS:
            return False  # a former run of this process may have promised something
        if not self._lease.promised <= owners:
            return False
        # A new process has no share to use meanwhile.
        return not self._has_shared or not have_majority(missing, sharers)

    def _still_in_flight(self, others: Sequence[Member]) -> AbstractSet[str]:
        """Return the subscriptions to which dispatchers that cannot be reached may have requests in flight."""
        told = [self._lapsed_for(), *(member.lapsed_for for member in others)]
        ages = [age for age in told if age is not None]
        return self.slower(min(ages)) if ages else frozenset()

    def _lapsed_for(self) -> float | None:
        """Return for how long (seconds) all dispatchers that cannot be reached have had no lease; None without any."""
        missing = missing_dispatchers(self._unread.values(), self._clock.monotonic())
        ages = [one.age for one in missing if not one.has_ended] + self._lease.lapses(self._sights)
        return min(ages, default=None)

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
        # A dispatcher that cannot write its document cannot agree; the slots whose turn it is would be unused.
        is_heard = all(now - sight.at <= _SILENT for sight in self._sights.values() if sight.member.is_dispatcher)
        if is_heard and len(shares.view.owners) > 1 and shares.is_settled and now - self._settled_at >= _ROTATE:
            return shares.view.rotation + 1
        return shares.view.rotation
