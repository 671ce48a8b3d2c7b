"""Topics without a network: where partitions are, and what they refuse."""

from __future__ import annotations

import pytest

from tests.doubles.youzan.log import Draft
from tests.doubles.youzan.refusals import NOT_EXIST, NOT_LEADER, NOT_WRITABLE, Refused
from tests.doubles.youzan.topics import Meta, Partition, Topics, valid_name


@pytest.fixture
def topics() -> Topics:
    return Topics([1, 2, 3])


def refusal(partition: Partition, node: int) -> tuple[str, bool]:
    try:
        partition.check_copy(node)
        partition.publish(node, [Draft(b"x")])
    except Refused as refused:
        return refused.text, refused.closes
    raise AssertionError("not refused")


def test_leaders_go_round_and_copies_are_elsewhere(topics: Topics) -> None:
    made = topics.create("orders", Meta(partition_num=4, replica=2))
    assert [one.nodes for one in made.partitions.values()] == [[1, 2], [2, 3], [3, 1], [1, 2]]
    assert [one.number for one in made.on(3)] == [1, 2]


def test_a_topic_cannot_be_made_twice_or_with_too_many_copies(topics: Topics) -> None:
    topics.create("orders", Meta(1))
    with pytest.raises(ValueError, match="already exist"):
        topics.create("orders", Meta(1))
    with pytest.raises(ValueError, match="not enough"):
        topics.create("mail", Meta(1, replica=4))


def test_expansion_keeps_what_is_there_and_brings_registered_channels(topics: Topics) -> None:
    topic = topics.create("orders", Meta(1, disable_channel_auto_create=True))
    topic.register("billing")
    topic.partitions[0].publish(1, [Draft(b"x")])
    topics.expand("orders", 3)
    assert topic.meta.partition_num == 3
    assert [list(one.channels) for one in topic.partitions.values()] == [["billing"]] * 3
    assert len(topic.partitions[0].log.entries) == 1
    with pytest.raises(ValueError, match="increased"):
        topics.expand("orders", 2)


def test_refusals_depend_on_the_nsqd_and_on_what_happened(topics: Topics) -> None:
    partition = topics.create("orders", Meta(1, replica=2)).partitions[0]
    assert refusal(partition, 3) == (f"{NOT_EXIST} ", True)
    assert refusal(partition, 2) == (f"{NOT_LEADER} ", False)
    partition.move(2)
    assert refusal(partition, 1) == (f"{NOT_LEADER} ", False)
    partition.writable = False
    assert refusal(partition, 2) == (f"{NOT_WRITABLE} ", False)
    partition.electing = True
    assert refusal(partition, 2) == (f"{NOT_LEADER} ", False)
    partition.lost = NOT_EXIST
    assert refusal(partition, 2) == (f"{NOT_EXIST} ", True)
    assert partition.log.entries == []


def test_ids_tell_the_partition_and_rise(topics: Topics) -> None:
    topic = topics.create("orders", Meta(2))
    first, second = topic.partitions[1].publish(2, [Draft(b"a"), Draft(b"b")])
    assert (first.id >> 50, second.id - first.id) == (1, 1)


@pytest.mark.parametrize(
    ("name", "valid"),
    [("a", True), ("a.b-c_9", True), ("a#ephemeral", True), ("", False), ("a b", False), ("a" * 65, False)],
)
def test_names(name: str, valid: bool) -> None:
    assert valid_name(name) is valid
