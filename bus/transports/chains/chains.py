"""The strictly ordered destinations of a process: which of them it sends to, and which it reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from bus.async_helpers import lasting
from bus.domain.catalog import Catalog
from bus.domain.destination import Ordering
from bus.domain.message import Message
from bus.domain.ordering.chain import Chain, Lease, Role
from bus.domain.ordering.effects import Procedure
from bus.domain.ordering.reader import ChainReader
from bus.domain.ordering.sender import ChainSender
from bus.domain.ordering.tenure import TERMS, Terms
from bus.errors import NotLeader
from bus.localized_text import AnyText, localized
from bus.ports.broker_group import BrokerGroup, GroupStatus
from bus.ports.clock import Clock
from bus.ports.store import DocumentStore
from bus.telemetry import labels, metrics
from bus.transports.chains.condition import CoordinatorWatch, group_state, trouble_of
from bus.transports.chains.consumer import ChainConsumer
from bus.transports.chains.driver import ChainDriver
from bus.transports.chains.leftovers import Leftovers
from bus.transports.chains.sender import StrictSender

_log = logging.getLogger(__name__)
_AROUND: Final = 5  # signs of life between two looks at groups that are not in use
_SLACK: Final = 60_000
Listener = Callable[[], Awaitable[None]]
Groups = Mapping[str, Mapping[str, BrokerGroup]]
_Said = TypeVar("_Said")


class _Strict:
    """One destination: its sender and its reader here, as far as this process has the roles."""

    def __init__(self, chains: Chains, code: str, groups: Mapping[str, BrokerGroup]) -> None:
        names, clock, terms = chains.names_of(code), chains.clock, chains.terms
        self.groups = groups
        self.driver = ChainDriver(
            code,
            chains.coordinator,
            groups,
            names,
            is_behind=lambda group: (code, group) in chains.behind,
            lacks_all=lambda group: chains.behind.add((code, group)),
        )
        self.reading_since = 0
        self.rules: ChainSender | None = None
        self.sender: StrictSender | None = None
        self.reader: ChainReader | None = None
        self.leftovers: Leftovers | None = None
        self._leases = asyncio.Lock()
        if Role.SENDER in chains.roles:
            owner, url = chains.owner, chains.url
            self.rules = ChainSender(owner, url, list(groups), clock.monotonic, clock.now, terms)
            self.sender = StrictSender(code, self.rules, self.driver)
        if Role.READER in chains.roles:
            again = partial(chains.send_again, code)
            self.reader = ChainReader(chains.owner, chains.url, names, clock.monotonic, clock.now, terms)
            self.leftovers = Leftovers(code, self.reader, self.driver, groups, names, again)

    @property
    def held(self) -> frozenset[Role]:
        """The roles that this process has now."""
        return frozenset(self._known)

    @property
    def tenures(self) -> dict[Role, int]:
        """The roles that this process has now, and how often it has begun each."""
        both = (self.rules, self.reader)
        return {one.tenure.role: one.tenure.begun for one in both if one is not None and one.tenure.is_held}

    @property
    def _known(self) -> dict[Role, Chain | None]:
        """The chain as seen by each role that this process has now."""
        both = (self.rules, self.reader)
        return {one.tenure.role: one.copy.chain for one in both if one is not None and one.tenure.is_held}

    @property
    def chain(self) -> Chain | None:
        """The chain as it was known last."""
        copies = [rules.copy.chain for rules in (self.rules, self.reader) if rules is not None]
        return next((chain for chain in copies if chain is not None), None)

    def trouble(self, code: str, subscriptions: Collection[str]) -> AnyText:
        """Return what delays the destination, as far as this process is the one to report it."""
        states = {name: group_state(group, self.driver.standings.get(name)) for name, group in self.groups.items()}
        return trouble_of(code, self._known, self.driver.trouble, subscriptions, states)

    async def change_lease(self, code: str, change: Callable[[ChainSender], Procedure[_Said | None]]) -> _Said:
        """Have one producer after another ask, so that none is answered by an earlier state than the one before it."""
        if self.rules is None or self.sender is None:
            raise _not_strict(code)
        async with self._leases:
            if not self.rules.tenure.is_held:
                raise self.sender.elsewhere()
            said = await self.driver.perform(change(self.rules))
        if not said:
            raise self.sender.in_doubt()
        return said

    async def tend(self, now: int) -> None:
        """Continue the roles, or take them."""
        if self.rules is not None:
            await self.driver.perform(self.rules.tend())
        if self.reader is not None:
            was_held = self.reader.tenure.is_held
            await self.driver.perform(self.reader.tend())
            if self.reader.tenure.is_held and not was_held:
                self.reading_since = now

    async def look_around(self) -> None:
        """Have recovered groups join, and send again the messages left on others."""
        if self.rules is not None and self.rules.tenure.is_held:
            await self.driver.perform(self.rules.look_around())
        if self.leftovers is not None and self.reader is not None and self.reader.tenure.is_held:
            await self.leftovers.clear()

    async def leave(self, *, is_removed: bool = False) -> None:
        """Give the roles up; delete all of a removed destination, also its lease: no process would release it."""
        if is_removed and self.rules is not None:
            await self.driver.perform(self.rules.copy.end(self.rules.tenure))
        for rules in (self.rules, self.reader):
            if rules is not None:
                await self.driver.perform(rules.copy.vacate(rules.tenure))
        await self.driver.close()


class Chains:
    """Takes the roles that this process may have, keeps them up, and notifies listeners of changes.

    Parameters
    ----------
    groups
        The groups of brokers of each transport, by name.
    owner, url
        This process's name for others, and its address.
    again
        Asks the process that sends to a destination to write a late message; returns False when it did not.
    is_apart
        Whether the coordinator is another one than the store, which is looked after elsewhere.

    Attributes
    ----------
    behind
        Groups that lack something that a destination needs, by its code and their names: nothing is written there.
    """

    def __init__(
        self,
        coordinator: DocumentStore,
        groups: Groups,
        owner: str,
        url: str,
        roles: Collection[Role],
        again: Callable[[str, str, Message], Awaitable[bool]],
        clock: Clock,
        terms: Terms = TERMS,
        *,
        is_apart: bool = False,
    ) -> None:
        self.coordinator = coordinator
        self.owner = owner
        self.url = url
        self.roles = roles
        self.clock = clock
        self.terms = terms
        self.behind: set[tuple[str, str]] = set()
        self._groups = groups
        self._again = again
        self._watch = CoordinatorWatch(coordinator, clock) if is_apart else None
        self._catalog = Catalog()
        self._strict: dict[str, _Strict] = {}
        self._listeners: list[Listener] = []
        self._changed = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` when this process has got a role, or lost one."""
        self._listeners.append(listener)

    def names_of(self, code: str) -> Callable[[], Collection[str]]:
        """Return a function that names the subscriptions of a destination."""
        return lambda: self._catalog.names(code)

    def is_strict(self, code: str) -> bool:
        """Whether a destination keeps a strict order."""
        found = self._catalog.destinations.get(code)
        return found is not None and found.ordering is Ordering.STRICT

    def sends(self, code: str) -> bool:
        """Whether this process sends to a strictly ordered destination."""
        found = self._strict.get(code)
        return found is not None and Role.SENDER in found.held

    def reads(self, code: str) -> bool:
        """Whether this process reads a strictly ordered destination."""
        found = self._strict.get(code)
        return found is not None and Role.READER in found.held

    def tenure(self, code: str) -> int:
        """Return as whom this process reads a destination: another number when another one did in between."""
        found = self._strict.get(code)
        return found.reader.tenure.epoch if found is not None and found.reader is not None else 0

    def chain(self, code: str) -> Chain | None:
        """Return the chain of a destination, as this process knew it last."""
        found = self._strict.get(code)
        return found.chain if found is not None else None

    def groups_of(self, transport: str) -> Mapping[str, BrokerGroup]:
        """Return the groups of brokers of a transport that are configured here, by name."""
        return self._groups.get(transport, {})

    def roles_held(self) -> dict[str, Collection[Role]]:
        """Return the roles of this process, by destination."""
        return {code: found.held for code, found in self._strict.items()}

    def conditions(self) -> dict[str, AnyText]:
        """Return what is wrong with the coordinator, and with each destination, by name; empty text for nothing."""
        own: dict[str, AnyText] = {"coordinator": self._watch.trouble} if self._watch is not None else {}
        return own | {
            f"strict order of {code}": found.trouble(code, self._catalog.names(code))
            for code, found in self._strict.items()
        }

    def standings(self, code: str) -> Mapping[str, GroupStatus]:
        """Return the groups' last answers to this process, by name; empty for destinations that it does not send to."""
        found = self._strict.get(code)
        return found.driver.standings if found is not None and Role.SENDER in found.held else {}

    async def send(self, code: str, messages: Sequence[Message], producer: int = 0) -> Sequence[int]:
        """Have messages written in order; return the epochs of those that two copies hold for sure, from the first.

        Raises
        ------
        NotLeader
            Another process sends to it, or another producer does; nothing was written.
        LeaseLost
            Their producer is not the one any more.
        """
        found = self._strict.get(code)
        if found is None or found.sender is None:
            raise _not_strict(code)
        return await found.sender.send(messages, producer)

    async def produce(self, code: str, owner: str, takeover_after: float, epoch: int) -> Lease:
        """Make a producer the only one that may send, if there is no other; return the producer that may send now.

        One that has not asked again, nor sent anything, for ``takeover_after`` seconds loses it to the next that asks;
        0 for never. With an ``epoch`` nothing is taken: the lease of that epoch is renewed if it is the one.

        Raises
        ------
        NotLeader
            Another process sends to it, or the coordinator does not answer: then the lease may have been taken.
        """
        found = self._strict.get(code)
        if found is None:
            raise _not_strict(code)
        return await found.change_lease(code, lambda rules: rules.produce(owner, takeover_after, epoch))

    async def release(self, code: str, owner: str) -> None:
        """Let others send again after a producer; nothing to do when it is not the one.

        Raises
        ------
        NotLeader
            Another process sends to it, or the coordinator does not answer: it is to be asked again.
        """
        found = self._strict.get(code)
        if found is None:
            raise _not_strict(code)
        await found.change_lease(code, lambda rules: rules.release(owner))

    def elsewhere(self, code: str) -> NotLeader:
        """Return the error that names the process that sends to a destination instead."""
        found = self._strict.get(code)
        if found is None or found.sender is None:
            return _not_strict(code)
        return found.sender.elsewhere()

    def consumer(self, code: str, subscription: str) -> ChainConsumer:
        """Return a subscription's consumer; raises ``LookupError`` where this process cannot read the destination."""
        found = self._strict[code]
        if found.reader is None:
            raise LookupError(code)
        return ChainConsumer(
            subscription,
            found.reader,
            found.driver,
            found.groups.get,
            code,
            self.clock,
            lambda message: message.received_at < found.reading_since + _SLACK,
            partial(self.send_again, code),
        )

    async def send_again(self, code: str, message: Message) -> bool:
        """Have a message that came too late written behind all others; False when that did not work."""
        late = msgspec.structs.replace(message, is_late=True)
        found = self._strict.get(code)
        if found is not None and found.rules is not None and self.sends(code):
            # Of which epoch it has to be, so that it does not come too late again, the reader has written just now.
            await found.driver.perform(found.rules.copy.read())
        chain = self.chain(code)
        try:
            if self.sends(code):
                is_held = bool(await self.send(code, [late], chain.admits if chain is not None else 0))
                metrics.WRITTEN_AGAIN.labels(*labels.DESTINATIONS.of(code)).inc(is_held)
                return is_held
            return chain is not None and await self._again(chain.sender.owner, code, late)
        except NotLeader:
            return False

    async def apply(self, catalog: Catalog) -> None:
        """Follow the configuration."""
        self._catalog = catalog
        wanted = {
            code: groups
            for code, found in catalog.destinations.items()
            if found.ordering is Ordering.STRICT and (groups := self._groups.get(found.transport)) is not None
        }
        for code in [code for code, found in self._strict.items() if found.groups is not wanted.get(code)]:
            await self._end(code)
        for code, groups in wanted.items():
            if code not in self._strict:
                self._strict[code] = _Strict(self, code, groups)
                await self._strict[code].tend(self.clock.now())
                self._begin(code)

    async def run(self) -> None:
        """Keep roles up until cancelled; a destination that waits for its brokers holds up no other."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for code in self._strict:
                self._begin(code)
            if self._watch is not None:
                group.create_task(self._watch.run())
            await lasting("telling of roles of chains", self._tell, self.clock.sleep)

    async def leave(self) -> None:
        """Give up all roles, once nothing is under way; called after `run` was cancelled."""
        self._group = None
        for found in self._strict.values():
            await found.leave()

    def _begin(self, code: str) -> None:
        if self._group is None or code in self._tasks:
            return
        found = self._strict[code]
        works = [self._tend(found), self._look_around(found)] + ([found.sender.run()] if found.sender else [])
        self._tasks[code] = [self._group.create_task(work) for work in works]

    async def _end(self, code: str) -> None:
        tasks = self._tasks.pop(code, [])
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if (sender := self._strict[code].sender) is not None:
            sender.end()  # its task may have been canceled before it began
        await self._strict.pop(code).leave(is_removed=self._catalog.has_left(code))

    async def _tend(self, found: _Strict) -> None:
        before = found.tenures

        async def work() -> None:
            nonlocal before
            while True:
                await self.clock.sleep(self.terms.every)
                await found.tend(self.clock.now())
                if found.tenures != before:
                    before = found.tenures
                    self._changed.set()

        await lasting("keeping up the roles of a chain", work, self.clock.sleep)

    async def _tell(self) -> None:
        """Notify listeners, separately from the upkeep of the roles; again when one of them has failed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                for listener in self._listeners:
                    await listener()
            except BaseException:
                self._changed.set()
                raise

    async def _look_around(self, found: _Strict) -> None:
        async def work() -> None:
            while True:
                await self.clock.sleep(self.terms.every * _AROUND)
                await found.look_around()

        await lasting("looking after the groups of a chain", work, self.clock.sleep)


def _not_strict(code: str) -> NotLeader:
    return NotLeader(
        localized("this process sends to no destination {code} with a strict order", code=repr(code)),
        hint=localized("send to a receiver with its groups of brokers in the configuration"),
    )
