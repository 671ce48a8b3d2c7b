"""The view of other processes while the store, which has their documents, is unreachable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from bus.bootstrap import Introspection
from bus.cluster.member import COLLECTION, HeldMessages, Member
from bus.cluster.report import Answer, Report
from bus.domain.destination import Destination, TransportName
from bus.domain.health.rulebook import Rulebook
from bus.domain.subscription import Subscription
from bus.observing.cluster_status import ClusterStatus, StatusSnapshot
from bus.ports.transport import Lag
from bus.stores.rollups import RollupReader
from tests.unit.admin.admin_world import World

OTHER = Member(owner="other", node="b:1", url="http://b:1", roles=("receiver",), version="1", started_at=0)
AWAY = msgspec.structs.replace(OTHER, troubles={"store": "the store does not take writes"})


class Asked:
    """Answers in place of the other processes; ``report`` is None while they do not."""

    report: Report | None = Report(member=AWAY)

    def __init__(self) -> None:
        self.asked = 0

    async def of(self, members: Sequence[Member]) -> list[Answer]:
        self.asked += len(members)
        return [Answer(member, 6.0, self.report, "" if self.report is not None else "it is gone") for member in members]


class Watched(World):
    """A bus of two processes, of which the other is asked in the test's way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.asked = Asked()
        monkeypatch.setattr(Introspection, "reports", self.asked)
        rollups = RollupReader(self.store, self.clock)
        self.observatory = ClusterStatus(self.context, self.introspection, rollups, Rulebook())

    async def look(self, after: float) -> StatusSnapshot:
        """Return what is seen after so many seconds, in which the processes tell of themselves if they can."""
        await self.clock.advance(after)
        await self.context.members.step()
        return await self.observatory.look()


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> Watched:
    made = Watched(monkeypatch)
    await made.store.put(COLLECTION, OTHER.owner, msgspec.json.encode(OTHER))
    await made.context.members.step()
    return made


async def test_nobody_is_asked_who_has_just_told(world: Watched) -> None:
    assert OTHER in (await world.look(1)).members
    assert world.asked.asked == 0


async def test_who_cannot_tell_is_asked(world: Watched) -> None:
    world.store.down = True
    sight = await world.look(6)
    assert AWAY in sight.members
    assert ("store", "b:1") in [(part.name, part.node) for part in sight.facts.parts]


async def test_who_does_not_answer_either_is_gone(world: Watched) -> None:
    world.store.down = True
    world.asked.report = None
    assert "receiver" not in (await world.look(6)).facts.roles


async def test_the_backlog_has_the_subscriptions_for_which_something_waits(world: Watched) -> None:
    names = ("billing", "mail", "sms")
    await world.registry.put_all(
        [Destination(code="orders"), Destination(code="paid", transport=TransportName.KAFKA)],
        [
            Subscription(destination=code, name=name, url="http://a.example/")
            for code in ("orders", "paid")
            for name in names
        ],
    )
    lags: dict[str, Any] = {"kafka": {("paid", "sms"): Lag(2, 0), ("paid", "billing"): Lag(0, None)}}
    world.context.router.lags = lambda: lags
    world.context.members.others[0].held["orders/mail"] = HeldMessages(3, 250, 3)
    assert (await world.look(0)).backlog == {("orders", "mail"): (3, 250), ("paid", "sms"): (2, 0)}
    lags["kafka"] = None
    backlog = (await world.look(1)).backlog
    assert backlog.keys() == {("orders", "mail"), *(("paid", name) for name in names)}, "what is not known may wait"
    assert backlog["paid", "billing"] == (None, None)


async def test_what_was_seen_is_good_for_half_a_second_however_long_it_took(world: Watched) -> None:
    first = await world.look(1)
    assert (await world.look(0.4)) is first
    assert (await world.look(0.1)) is not first
