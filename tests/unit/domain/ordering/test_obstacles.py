"""Obstacles of a strictly ordered destination are shown, but for those that pass within seconds."""

from __future__ import annotations

import pytest

from bus.domain.ordering.chain import Chain, Lease, Role, Segment
from bus.domain.ordering.obstacles import GroupState, obstacles
from bus.ports.broker_group import AWAY, GroupStatus

LEASE = Lease("o1", "http://one", 1)
WELL = GroupState(answers=True, standing=GroupStatus(is_whole=True, is_empty=True))
HURT = GroupState(answers=True, trouble="2 of 3 copies are up", standing=AWAY)
DEAD = GroupState(answers=False, trouble="no copy answers", standing=AWAY)
FULL = GroupState(answers=True, standing=GroupStatus(is_whole=True, is_empty=False))
UNASKED = GroupState(answers=True)


def chain(*consume: Segment, send: tuple[str, ...] = (), **changes: object) -> Chain:
    return Chain(**{"epoch": 9, "sender": LEASE, "reader": LEASE, "send": send, "consume": consume, **changes})  # type: ignore[arg-type]


def told(found: Chain, gone: tuple[Role, ...] = (), **groups: GroupState) -> list[str]:
    return [str(one.what) for one in obstacles("c", found, ("billing", "mail"), groups, gone)]


@pytest.mark.parametrize("other", [WELL, UNASKED])
def test_a_chain_that_flows_or_will_has_none(other: GroupState) -> None:
    current = Segment("a", 5)
    assert told(chain(current, send=("a", "b")), a=WELL, b=other) == []
    assert told(chain(), a=other) == [], "it joins within seconds"
    assert told(chain(current, send=("a",)), a=HURT, b=other) == [], "senders go on with the other"
    assert told(chain(Segment("b", 3), current, send=("a",)), a=WELL, b=HURT) == [], "it can be read to its end"


@pytest.mark.parametrize("other", [HURT, DEAD])
def test_no_group_takes_messages(other: GroupState) -> None:
    (what,) = told(chain(send=("a",)), a=HURT, b=other)
    assert what.startswith("no group of brokers takes messages to c")


def test_a_group_that_is_not_empty_takes_them_when_no_other_one_does() -> None:
    assert told(chain(send=("a",)), a=HURT, b=FULL) == [], "what it holds was left there, and comes too late anyway"
    assert told(chain(Segment("b", 5), Segment("a", 7)), a=FULL, b=HURT) == [], "it was the last one"
    (what,) = told(chain(Segment("a", 5), Segment("b", 7)), a=FULL, b=HURT)
    assert what.startswith("no group of brokers takes messages to c"), "its messages come before those of the last one"


def test_a_group_that_somebody_else_knows_may_take_them() -> None:
    assert told(chain(send=("elsewhere",)), a=HURT) == []


def test_the_head_that_cannot_be_read_is_told_once_with_those_who_wait() -> None:
    moved = chain(Segment("a", 5, ("mail",)), Segment("b", 7), send=("b",))
    assert told(moved, a=DEAD, b=WELL) == [
        "billing of c wait for group a, which does not answer; senders went on with b",
    ]
    assert told(chain(Segment("a", 5), send=("a",)), a=DEAD, b=WELL) == [
        "billing, mail of c wait for group a, which does not answer",
    ]
    assert told(chain(Segment("a", 5)), a=DEAD, b=WELL) == [
        "billing, mail of c wait for group a, which does not answer, nor does another",
    ]
    assert told(moved, b=WELL) == ["billing of c wait for group a, which is not configured here"]


def test_who_lacks_a_role_is_told_before_all_else() -> None:
    found = obstacles("c", chain(sender=Lease(), reader=LEASE), (), {"a": DEAD}, (Role.READER,))
    assert [one.role for one in found] == [Role.SENDER, Role.SENDER, Role.READER]
    assert "bus run receiver" in str(found[0].next_step)
    assert str(found[2].what).startswith("the process at http://one that reads c is gone")
