"""What a group lost with its disks is known by the chain, and so is where each message is."""

from __future__ import annotations

import msgspec
import pytest

from bus.domain.ordering.chain import (
    MOST_GAPS,
    Chain,
    Gap,
    Segment,
    Whereabouts,
    abandoned,
    joined,
    lost,
    marked,
    trimmed,
    with_current,
)
from bus.domain.ordering.deciding import cost_of_abandoning, segment_of
from bus.domain.ordering.document import decode_chain, encode_chain
from bus.errors import Conflict
from bus.ports.broker_group import GroupStatus


class OldSegment(msgspec.Struct):
    """A segment as an earlier version knows it."""

    group: str
    epoch: int
    drained: tuple[str, ...] = ()


class OldChain(msgspec.Struct, kw_only=True):
    """A chain as an earlier version knows it."""

    epoch: int = 0
    consume: tuple[OldSegment, ...] = ()


A, B, C = Segment("a", 5, since=1_000), Segment("b", 8, ("mail",), 2_000), Segment("c", 12, since=3_000)
CHAIN = Chain(epoch=14, send=("c",), consume=(A, B, C), marks={"a": "1", "b": "2"})
WHOLE = {"a": GroupStatus(is_whole=True, is_empty=True)}


def where(chain: Chain, epoch: int, subscription: str = "billing") -> Whereabouts:
    return chain.whereabouts(subscription, epoch)


def test_a_message_is_queued_as_long_as_its_segment_is_to_be_read() -> None:
    assert where(CHAIN, 4) is Whereabouts.READ
    assert {where(CHAIN, epoch) for epoch in range(5, 20)} == {Whereabouts.QUEUED}
    assert where(CHAIN, 9, "mail") is Whereabouts.READ


def test_what_a_group_lost_is_lost_once_all_before_it_is_read() -> None:
    chain = lost(CHAIN, "b")
    assert chain.marks == {"a": "1"}
    assert where(chain, 9) is Whereabouts.QUEUED, "what group a has comes first"
    read = abandoned(chain, "a")
    assert where(read, 9) is Whereabouts.LOST
    assert where(read, 9, "mail") is Whereabouts.READ, "it had read it before"
    assert where(read, 12) is Whereabouts.QUEUED


def test_what_was_abandoned_stays_known() -> None:
    chain = abandoned(abandoned(CHAIN, "b"), "a")
    assert chain.consume == (C,)
    assert chain.gaps == (Gap("b", 8, 12, ("mail",)), Gap("a", 5, 12))
    assert {where(chain, epoch) for epoch in range(5, 12)} == {Whereabouts.LOST}
    assert where(chain, 12) is Whereabouts.QUEUED
    last = abandoned(Chain(epoch=14, consume=(A,)), "a")
    assert last.gaps == (Gap("a", 5, 15),)


def test_no_more_than_so_many_are_kept() -> None:
    chain = CHAIN
    for epoch in range(100, 100 + MOST_GAPS + 3):
        chain = abandoned(msgspec.structs.replace(chain, epoch=epoch, consume=(Segment("a", epoch), C)), "a")
    assert len(chain.gaps) == MOST_GAPS
    assert chain.gaps[-1].epoch == 100 + MOST_GAPS + 2


def test_a_group_that_lost_its_disks_takes_messages_again_as_a_new_one() -> None:
    taking = Chain(epoch=5, send=("a",), consume=(A,), marks={"a": "1"})
    told = lost(taking, "a")
    assert with_current(told, 9_000) == told, "it is asked first whether it is whole"
    found = with_current(joined(told, WHOLE), 9_000)
    assert found.consume == (msgspec.structs.replace(A, is_lost=True), Segment("a", 6, since=9_000))
    assert found.current == found.consume[1]
    assert found.has_lost(A)
    assert not found.has_lost(found.consume[1])
    moved = lost(CHAIN, "a")
    assert joined(moved, WHOLE).send == ("c", "a")


def test_only_what_it_lost_is_abandoned_of_a_group_that_takes_messages_again() -> None:
    taking = with_current(joined(lost(Chain(epoch=5, send=("a",), consume=(A,)), "a"), WHOLE), 9_000)
    moved = msgspec.structs.replace(taking, epoch=7, send=("b",), consume=(*taking.consume, Segment("b", 7)))
    for chain in (taking, moved):
        assert segment_of("c", chain, "a").is_lost
        assert abandoned(chain, "a").consume == chain.consume[1:]
    with pytest.raises(Conflict):
        segment_of("c", abandoned(taking, "a"), "a")


def test_who_had_read_a_group_to_its_end_needs_nothing_that_it_lost() -> None:
    chain = lost(Chain(epoch=9, send=("c",), consume=(B, C), marks={"b": "2"}), "b")
    assert trimmed(chain, ("mail",)).consume == (C,)


def test_what_it_costs_is_said_in_other_words() -> None:
    (first, *_) = cost_of_abandoning(msgspec.structs.replace(A, is_lost=True), 3)
    assert str(first).startswith("group a lost its disks")
    assert str(cost_of_abandoning(A, 3)[0]).startswith("3 messages are known to wait on group a")


def test_an_earlier_version_reads_the_document_and_its_own_is_read() -> None:
    chain = abandoned(lost(marked(CHAIN, "c", "3"), "b"), "a")
    old = msgspec.json.decode(encode_chain(chain), type=OldChain)
    assert [one.group for one in old.consume] == ["b", "c"]
    again = decode_chain(msgspec.json.encode(old))
    assert (again.marks, again.gaps, again.consume[0].is_lost) == ({}, (), False)
    assert decode_chain(encode_chain(chain)) == chain
