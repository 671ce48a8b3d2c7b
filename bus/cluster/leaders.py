"""Leaders of ordered destinations: one process accepts its messages, one delivers them (docs/ordering.md)."""

from __future__ import annotations

import asyncio
import enum
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Final

import msgspec

from bus.cluster.member import Member
from bus.cluster.members import Members
from bus.domain.catalog import Catalog
from bus.domain.destination import Ordering
from bus.errors import Conflict, StoreError
from bus.localized_text import AnyText, listed, localized
from bus.ports.clock import Clock
from bus.ports.store import Document, DocumentStore

_log = logging.getLogger(__name__)
COLLECTION: Final = "leaders"
_INTERVAL: Final = 1.0
_MOST_NAMED: Final = 3
Listener = Callable[[], Awaitable[None]]


class Task(enum.StrEnum):
    """Task that exactly one process has for a destination that keeps an order."""

    ACCEPTING = "accepting"
    DELIVERING = "delivering"


_ROLES: Final = {Task.ACCEPTING: "receiver", Task.DELIVERING: "dispatcher"}


class Lead(msgspec.Struct, frozen=True):
    """The owner of a task; it has none while ``owner`` is empty.

    ``epoch`` grows with each owner. It is the time (ms) at which the task was taken, or one more than before, so that
    it also grows when the store is wiped, unless clocks are put back.
    """

    owner: str
    epoch: int


class Leaders:
    """The tasks of this process, and the owners of the others.

    A process keeps a task until it has none of the destination's messages left and ends, however long it is
    unreachable: the messages on its disk go before any that another process could accept. So no process takes a task
    from one that may be alive, and nothing here depends on clocks. The process that has emptied the queues of an ended
    one releases its tasks for it (`release_all`).

    Attributes
    ----------
    holds
        Whether this process's queues have anything of a destination.
    """

    def __init__(self, documents: DocumentStore, members: Members, holds: Callable[[str], bool], clock: Clock) -> None:
        self._documents = documents
        self._members = members
        self._holds = holds
        self._clock = clock
        self._me = members.me.owner
        self._mine = [task for task, role in _ROLES.items() if role in members.me.roles]
        self._ordered: frozenset[str] = frozenset()
        self._former: frozenset[str] = frozenset()
        self._found: dict[str, tuple[Lead, int]] = {}
        self._read_at = clock.monotonic()
        self._listeners: list[Listener] = []
        self._stepping = asyncio.Lock()

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` when this process has got a task, or lost one."""
        self._listeners.append(listener)

    def is_ordered(self, code: str) -> bool:
        """Whether a destination keeps an order."""
        return code in self._ordered

    def leads(self, task: Task, code: str) -> bool:
        """Whether this process has a task."""
        return self._owner(task, code) == self._me

    def epoch(self, task: Task, code: str) -> int:
        """Return the number of the owner of a task, which is greater than those of all before it; 0 for none."""
        found = self._found.get(_name(task, code))
        return found[0].epoch if found is not None else 0

    @property
    def is_current(self) -> bool:
        """Whether the owners of the tasks were read since this process was declared unreachable.

        A person may have assigned an order to another process meanwhile.
        """
        return not self._ordered or self._read_at > self._members.missed_at

    def leader(self, task: Task, code: str) -> Member | None:
        """Return the process that has a task, when it is alive."""
        owner = self._owner(task, code)
        return next((member for member in self._members.all if owner and member.owner == owner), None)

    @property
    def trouble(self) -> AnyText:
        """Error text with the destinations that wait for a dead process; empty for none."""
        waiting = sorted(
            {code for code in self._ordered for task in Task if self._owner(task, code) and not self.leader(task, code)}
        )
        if not waiting:
            return ""
        return localized(
            "messages of {names} wait for the process that kept their order and is gone: start it again, or have its "
            "queues emptied by a sweeper on its disk",
            names=listed(waiting, _MOST_NAMED),
        )

    async def apply(self, catalog: Catalog) -> None:
        """Take the tasks that a configuration brings, before anything is accepted by it."""
        ordered = {code for code, found in catalog.destinations.items() if found.ordering is Ordering.KEY}
        if ordered != self._ordered:
            self._ordered = frozenset(ordered)
            await self.step()

    async def run(self) -> None:
        """Follow the owners of the tasks, until cancelled."""
        while True:
            await self._clock.sleep(_INTERVAL)
            if self._ordered or self._found or self._former:
                await self.step()

    async def step(self) -> None:
        """Read the owners of all tasks, and take tasks without an owner."""
        async with self._stepping:
            before = self._tasks()
            try:
                await self._read()
                for name in itertools.chain(self._of(self._former), self._wanted()):
                    await self._take(name)
                for name in [name for name, (lead, _) in self._found.items() if self._is_over(name, lead)]:
                    await self._put(name, Lead("", self._found[name][0].epoch))
            except StoreError as error:
                _log.debug("who keeps which order stays as it was while the store does not answer: %s", error)
            if self._tasks() != before:
                for listener in self._listeners:
                    await listener()

    async def leave(self) -> None:
        """Give up the tasks of destinations of which nothing is left here; called when all work has ended."""
        try:
            await self._read()  # one may have been taken when the work was cut off
            for name in sorted(self._tasks()):
                if not self._holds(_code(name)):
                    await self._put(name, Lead("", self._found[name][0].epoch))
        except StoreError as error:
            _log.warning("the others wait for this process to come back before they keep an order: %s", error)

    async def inherit(self, owners: Collection[str]) -> None:
        """Take over the tasks of processes whose queues are this one's now, as soon as the store answers.

        They do not come back.
        """
        self._former = frozenset(owners)
        if owners:
            await self.step()

    async def release_all(self, owners: Collection[str]) -> int:
        """Release the tasks of processes whose queues are empty, for them; return how many.

        Raises
        ------
        StoreError
            Some are not given up.
        """
        await self._read()
        gone = self._of(owners)
        for name in gone:
            await self._put(name, Lead("", self._found[name][0].epoch))
        return len(gone)

    def keeps_any(self, owners: Collection[str]) -> bool:
        """Whether one of these processes has any task."""
        return any(lead.owner in owners for lead, _ in self._found.values())

    async def give_up(self, code: str) -> list[Task]:
        """Release the tasks of a destination whose process does not come back, and return them.

        Messages that may still be on its disk come, if ever, behind those that are accepted from now on.

        Raises
        ------
        Conflict
            That process is alive; nothing was given up.
        StoreError
            Some are not given up.
        """
        await self._read()
        kept = [task for task in Task if self._owner(task, code)]
        if alive := [leader for task in kept if (leader := self.leader(task, code)) is not None]:
            raise Conflict(
                localized(
                    "{node} ({url}) keeps the order of {code} and is alive; nothing was released",
                    node=alive[0].node,
                    url=alive[0].url,
                    code=repr(code),
                ),
                hint=localized("stop that process first, if another one is to keep the order"),
            )
        for name in [_name(task, code) for task in kept]:
            await self._put(name, Lead("", self._found[name][0].epoch))
        return kept

    def kept_by(self, task: Task, code: str, owners: Collection[str]) -> bool:
        """Whether one of these processes has a task, alive or not."""
        return self._owner(task, code) in owners

    def _of(self, owners: Collection[str]) -> list[str]:
        return [name for name, (lead, _) in self._found.items() if lead.owner in owners]

    def _owner(self, task: Task, code: str) -> str:
        found = self._found.get(_name(task, code))
        return found[0].owner if found is not None else ""

    def _tasks(self) -> set[str]:
        return {name for name, (lead, _) in self._found.items() if lead.owner == self._me}

    async def _read(self) -> None:
        begun = self._clock.monotonic()
        found = await self._documents.list(COLLECTION)
        self._read_at = begun
        self._found = {one.key: (lead, one.version) for one in found if (lead := _lead(one)) is not None}

    def _wanted(self) -> Iterator[str]:
        """Yield the tasks without an owner that are for this process, accepting first."""
        for task in self._mine:
            for code in sorted(self._ordered):
                if not self._owner(task, code) and self._is_for_me(task, code):
                    yield _name(task, code)

    def _is_for_me(self, task: Task, code: str) -> bool:
        """Whether no other process should deliver: the one that accepts has the queue, where it can deliver as well."""
        if task is Task.ACCEPTING:
            return True
        accepting = self.leader(Task.ACCEPTING, code)
        return accepting is None or accepting.owner == self._me or not accepting.is_dispatcher

    def _is_over(self, name: str, lead: Lead) -> bool:
        return lead.owner == self._me and _code(name) not in self._ordered and not self._holds(_code(name))

    async def _take(self, name: str) -> None:
        lead, _ = self._found.get(name, (Lead("", 0), 0))
        await self._put(name, Lead(self._me, max(lead.epoch + 1, self._clock.now())))

    async def _put(self, name: str, lead: Lead) -> None:
        """Write the owner of a task, unless another process has written it meanwhile."""
        version = self._found[name][1] if name in self._found else 0
        try:
            self._found[name] = (
                lead,
                await self._documents.put(COLLECTION, name, msgspec.json.encode(lead), version=version),
            )
        except Conflict:
            await self._read()


def _name(task: Task, code: str) -> str:
    return f"{code}/{task}"


def _code(name: str) -> str:
    return name.rpartition("/")[0]


def _lead(document: Document) -> Lead | None:
    try:
        return msgspec.json.decode(document.value, type=Lead)
    except msgspec.DecodeError:
        _log.warning("who has the task %s cannot be read: another version wrote it", document.key)
        return Lead(" ", 0)  # an owner that does not exist, so that no process takes it
