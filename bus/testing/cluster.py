"""A bus of one process, without its heartbeat."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bus.cluster.leaders import Leaders, Task
from bus.cluster.member import Member
from bus.cluster.members import Members
from bus.cluster.saved_views import SavedViews
from bus.domain.delivery.concurrency_shares import Shares, View
from bus.domain.delivery.delivery import Delivery
from bus.domain.message import Message
from bus.domain.ordering.chain import Role
from bus.ports.clock import Clock
from bus.ports.store import DocumentStore
from bus.transports.chains.chains import Chains, Groups

OWNER = "owner-1"


class MemoryViews:
    """Kept views that do not survive the process."""

    def __init__(self) -> None:
        self.kept = SavedViews(())

    def read(self) -> SavedViews:
        """Return them."""
        return self.kept

    async def write(self, kept: SavedViews) -> None:
        """Replace them."""
        self.kept = kept


class NoOrder:
    """A bus without destinations that keep an order."""

    def is_ordered(self, _: str) -> bool:
        """Return False."""
        return False

    def leader(self, _: Task, __: str) -> None:
        """Return None."""


class OneProcess:
    """The configuration of a process that is alone: what is in force is what a person was told."""

    is_current = True

    async def until_current(self) -> None:
        """Return at once."""


class NoDispatching:
    """The way to dispatchers while there are none."""

    is_local = False

    async def room(self, _: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Take nothing."""
        return {}

    async def offer(self, deliveries: Sequence[Delivery]) -> list[bool]:
        """Take nothing."""
        return [False] * len(deliveries)


async def nobody_answers(*_: object) -> None:
    """Ask a process that does not answer."""


def all_permits() -> Shares:
    """Return the shares of the only dispatcher."""
    shares = Shares(OWNER)
    shares.resume((View((OWNER,)),))
    return shares


class _SingleMember(Members):
    """The members of a process without a heartbeat, which so never stands still."""

    @property
    def may_start(self) -> bool:
        """Return True."""
        return True


def alone(documents: DocumentStore, clock: Clock, *, roles: tuple[str, ...] = ("dispatcher",)) -> Members:
    """Return a process that has all permits and has heard of no other."""
    me = Member(owner=OWNER, node="node-1", url="http://127.0.0.1:1", roles=roles, version="1", started_at=clock.now())
    members = _SingleMember(documents, clock, me, nobody_answers, nobody_answers, MemoryViews())
    members.shares = all_permits()
    return members


def leading(documents: DocumentStore, members: Members, clock: Clock) -> Leaders:
    """Return the tasks of a process whose queues are always empty."""
    return Leaders(documents, members, lambda _: False, clock)


def without_groups(documents: DocumentStore, clock: Clock) -> Chains:
    """Return the strictly ordered destinations of a process that knows no groups of brokers: none."""
    return over_groups(documents, clock, {})


def over_groups(
    documents: DocumentStore, clock: Clock, groups: Groups, roles: Collection[Role] = (), *, is_apart: bool = False
) -> Chains:
    """Return the strictly ordered destinations of a process over groups of brokers; by default it only looks on."""
    return Chains(documents, groups, OWNER, "http://127.0.0.1:1", roles, _nobody_writes, clock, is_apart=is_apart)


async def _nobody_writes(_: str, __: str, ___: Message) -> bool:
    return False
