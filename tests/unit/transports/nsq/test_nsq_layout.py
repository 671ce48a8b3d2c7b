"""Partitions out of lookup responses: that of a key, and those of messages without a key."""

from __future__ import annotations

import json

from bus.domain.routing.answers import Answer, read_answer
from bus.transports.nsq.config import Address
from bus.transports.nsq.errors import ConnectionLost, ErrorFrame
from bus.transports.nsq.partitions.layout import Layout, Place, for_reading, for_writing, partition_of
from bus.transports.nsq.partitions.order import disagreement, explained
from bus.transports.nsq.partitions.publisher import spread

ONE, TWO, OLD = (Place(Address(host, 4150), 4151) for host in ("one", "two", "old"))


def peer(place: Place) -> dict[str, object]:
    return {"broadcast_address": place.tcp.host, "tcp_port": place.tcp.port, "http_port": place.http_port}


def answer(partitions: dict[int, Place] | None, *others: Place, envelope: bool = False, **meta: object) -> Answer:
    found: dict[str, object] = {"channels": ["billing"], "producers": [peer(place) for place in others]}
    if partitions is not None:
        found["partitions"] = {str(number): peer(place) for number, place in partitions.items()}
        found["producers"] = [*(peer(place) for place in set(partitions.values())), *found["producers"]]
    if meta:
        found["meta"] = meta
    whole = {"status_code": 200, "status_txt": "OK", "data": found} if envelope else found
    return read_answer(json.dumps(whole).encode())


def test_partitions_are_read_one_by_one_and_nsqds_without_one_whole() -> None:
    for envelope in (False, True):
        layout = for_reading(Layout(), answer({0: ONE, 1: TWO}, OLD, envelope=envelope))
        assert layout == Layout(readable={0: ONE, 1: TWO}, others=frozenset({OLD.tcp}), speaks_fork=True)
    stock = for_reading(Layout(), answer(None, OLD))
    assert (stock.is_partitioned, stock.is_absent, stock.others) == (False, False, {OLD.tcp})


def test_a_partition_that_is_not_told_of_now_is_where_it_was_as_long_as_the_topic_has_it() -> None:
    known = for_writing(for_reading(Layout(), answer({0: ONE, 1: TWO})), answer({0: ONE, 1: TWO}, partition_num=2))
    assert for_reading(known, answer({1: ONE})).readable == {0: ONE, 1: ONE}
    assert for_reading(known, answer({})).readable == {0: ONE, 1: TWO}
    smaller = for_writing(known, answer({0: ONE}, partition_num=1))  # of an nsqlookupd that is behind
    assert (smaller.count, smaller.missing) == (2, (1,))
    assert for_reading(smaller, answer({0: ONE})).readable == {0: ONE, 1: TWO}
    assert for_writing(known, answer({0: ONE}, partition_num=10**9)).count == 2


def test_an_answer_without_partitions_is_believed_only_when_others_say_so_too() -> None:
    fork, with_meta, stock = answer({0: ONE, 1: TWO}), answer({0: ONE, 1: TWO}, partition_num=2), answer(None, OLD)
    layout = known = for_writing(for_reading(Layout(), fork), with_meta)
    for _ in range(2):
        layout = for_writing(for_reading(layout, stock), stock)
        assert (layout.readable, layout.writable, layout.count) == (known.readable, known.writable, 2)
        assert layout.others == frozenset()
    assert (
        for_writing(for_reading(layout, answer({0: ONE, 1: TWO})), answer({0: ONE, 1: TWO}, partition_num=2)) == known
    )
    layout = for_writing(for_reading(layout, stock), stock)
    assert (layout.is_partitioned, layout.others) == (False, {OLD.tcp})


def test_only_what_producers_are_told_of_is_published_to() -> None:
    meta = {"partition_num": 3, "ordered": True, "extend_support": True, "disable_channel_auto_create": True}
    known = for_writing(Layout(), answer({0: ONE}, **meta))
    assert (known.writable, known.count, known.missing) == ({0: ONE}, 3, (1, 2))
    assert (known.is_ordered, known.is_extended, known.is_closed) == (True, True, True)
    refused = for_writing(known, Answer(refusal="Topic has no channel, should init at least one for the new topic"))
    assert (refused.writable, refused.count, refused.is_ordered) == ({}, 3, True)
    assert for_writing(known, answer({})).count == 3


def test_a_topic_is_absent_only_where_the_fork_says_so() -> None:
    assert for_reading(Layout(), answer({})).is_absent
    assert not for_reading(Layout(), answer({0: ONE})).is_absent
    assert not for_reading(Layout(), answer({}, OLD)).is_absent
    assert not for_reading(Layout(), Answer(refusal="TOPIC_NOT_FOUND")).is_absent


def test_a_key_stays_in_its_partition() -> None:
    assert partition_of("123456789", 7) == 0xCBF43926 % 7  # the check value of CRC-32 (IEEE)
    used = {partition_of(f"account-{n}", 8) for n in range(1000)}
    assert used == set(range(8))


def test_messages_without_a_key_go_where_least_is_on_its_way() -> None:
    loads = {0: (0, 900), 1: (70, 0), 2: (0, 100)}
    assert spread(list(range(10)), {}, loads.__getitem__, loads) == {2: list(range(10))}
    shares = spread(list(range(192)), {0: [1000]}, loads.__getitem__, loads)
    assert {number: len(share) for number, share in shares.items()} == {0: 65, 2: 128}
    assert spread([1], {}, loads.__getitem__, []) == {}


def test_a_topic_and_its_destination_have_to_agree() -> None:
    free, ordered = Layout(count=2), Layout(count=2, is_ordered=True)
    assert disagreement(free, keeps_order=False) == disagreement(ordered, keeps_order=True) == ""
    assert disagreement(Layout(), keeps_order=True) == ""
    assert "made without" in str(disagreement(free, keeps_order=True))
    assert "demands ordered consumers" in str(disagreement(ordered, keeps_order=False))


def test_a_refusal_is_explained_where_nsqd_does_not_say_what_to_do() -> None:
    refusal = explained(ErrorFrame("E_SUB_ORDER_IS_MUST", "this topic is configured only allow ordered sub"))
    assert "set the destination's ordering to key" in str(refusal)
    assert explained(ConnectionLost("gone")) == "gone"
