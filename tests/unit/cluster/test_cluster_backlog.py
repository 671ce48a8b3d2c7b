"""The backlog of all processes' queues."""

from __future__ import annotations

from typing import Any

from bus.cluster.cluster_backlog import ClusterBacklog, figures
from bus.cluster.member import HeldMessages, Member
from bus.domain.health.vitals import SpoolFigures
from bus.ports.spool import NewRecord
from bus.ports.transport import Lag
from bus.testing.spool import MemorySpool


class Crowd:
    """This process, which began at 1,000, and the others that it knows."""

    def __init__(self, **others: dict[str, Any]) -> None:
        self.me = _member("me", started_at=1000)
        self.others = [_member(owner, **fields) for owner, fields in others.items()]


def _member(owner: str, **fields: Any) -> Member:
    plain = {"node": owner, "url": "", "roles": ("dispatcher",), "version": "1", "started_at": 0}
    return Member(owner=owner, **plain | fields)


async def spools() -> dict[str, Any]:
    receiver = MemorySpool(consumers=("publish", "store"))
    await receiver.append([NewRecord("orders", b"1", 500), NewRecord("mail", b"2", 700)])
    receiver.ack("publish", await receiver.claim("publish", 1, "mail"))
    outcomes = MemorySpool(consumers=("store",))
    await outcomes.append([NewRecord("orders", b"1", 950), NewRecord("orders/billing", b"2", 900)])
    direct = MemorySpool(consumers=())
    direct.attach("orders", "billing")
    await direct.append([NewRecord("orders", b"1", 300), NewRecord("orders", b"2", 400)])
    return {"receiver": receiver, "outcomes": outcomes, "direct": direct}


async def test_a_process_tells_what_waits_in_its_spools() -> None:
    found = figures(await spools(), {})
    assert found.unpublished == {"orders": 500}
    assert found.unseen == {"orders": 900}
    assert found.held == {"orders/billing": HeldMessages(2, 300, 2)}
    assert found.spools["outcomes"] == SpoolFigures(2, 66, 1 << 30, 0, 900)
    assert figures({}, {}) == ({}, {}, {}, {})


async def test_what_workers_have_of_a_transport_is_told_beside_the_direct_queue() -> None:
    queues = await spools()
    (lane, queued), *_ = figures(queues, {}).held.items()
    code, _, name = lane.partition("/")
    held = figures(queues, {(code, name): Lag(3, 7), ("other", "shop"): Lag(1, 9)}).held
    assert held[lane] == HeldMessages(queued.records + 3, 7, 2)
    assert held["other/shop"] == HeldMessages(1, 9)


async def test_the_earliest_of_all_processes_counts() -> None:
    crowd = Crowd(
        b={"unpublished": {"orders": 400, "mail": 600}, "unseen": {"orders": 980}},
        c={"unpublished": {"mail": 650}, "unseen": {"mail": 20}},
    )
    waiting = ClusterBacklog(crowd, await spools())  # type: ignore[arg-type]
    assert waiting.unpublished() == {"orders": 400, "mail": 600}
    assert waiting.unseen() == {"orders": 900, "mail": 20}
    assert ClusterBacklog(crowd, {}).unseen() == {"orders": 980, "mail": 20}  # type: ignore[arg-type]


async def test_outcomes_of_earlier_lives_are_those_from_before_their_process_began() -> None:
    crowd = Crowd(b={"unseen": {"mail": 700}, "started_at": 600}, c={"unseen": {"news": 700}, "started_at": 800})
    waiting = ClusterBacklog(crowd, await spools())  # type: ignore[arg-type]
    assert waiting.unseen_of_earlier_lives() == {"orders", "news"}


async def test_what_other_direct_queues_hold() -> None:
    held = {"orders/billing": HeldMessages(3, 250), "orders/mail": HeldMessages(0, None)}
    waiting = ClusterBacklog(
        Crowd(b={"held": held}, c={"held": {"orders/billing": HeldMessages(1, 260)}}), await spools()
    )  # type: ignore[arg-type]
    assert waiting.held_elsewhere("orders", "billing") == [250, 260]
    assert waiting.held_elsewhere("orders", "mail") == []
    assert waiting.held_elsewhere("orders", "nobody") == []


async def test_a_process_that_began_by_a_clock_that_was_ahead_has_no_earlier_life_now() -> None:
    own = Crowd()
    own.me = _member("me", started_at=5_000, began=890)
    assert ClusterBacklog(own, await spools()).unseen_of_earlier_lives() == set()  # type: ignore[arg-type]
    crowd = Crowd(b={"unseen": {"mail": 700}, "started_at": 5_000, "began": 600})
    assert ClusterBacklog(crowd, {}).unseen_of_earlier_lives() == set()  # type: ignore[arg-type]
