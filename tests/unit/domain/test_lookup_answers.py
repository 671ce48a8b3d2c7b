"""Reading and merging of nsqlookupds' responses."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.routing.answers import (
    Answer,
    Unreadable,
    distinct,
    merge,
    merge_lists,
    merge_nodes,
    opened,
    read_answer,
    union,
)


def peer(host: str, port: int = 4150, **more: Any) -> dict[str, Any]:
    return {"broadcast_address": host, "tcp_port": port, "http_port": port + 1, **more}


A, B, C, D = (peer(f"10.0.0.{number}") for number in range(1, 5))
STOCK = Answer(("x",), (A, B))
FORK = Answer(("default",), (C,), {"0": C}, {"partition_num": 1, "replica": 2})
OTHER_FORK = Answer(("default", "y"), (D,), {"0": D, "1": D}, {"partition_num": 2})
NONE = Answer(refusal="TOPIC_NOT_FOUND")


def test_both_dialects_are_read() -> None:
    stock = {"channels": ["x"], "producers": [A, B]}
    assert read_answer(json.dumps(stock).encode()) == STOCK
    fork = {"channels": ["default"], "producers": [C], "partitions": {"0": C}, "meta": FORK.meta}
    assert read_answer(json.dumps(fork).encode()) == FORK
    wrapped = {"status_code": 200, "status_txt": "OK", "data": fork}
    assert read_answer(json.dumps(wrapped).encode()) == FORK
    assert read_answer(b'{"channels": null, "producers": null}') == Answer()
    assert read_answer(b'{"channels": [], "producers": [], "meta": {"partition_num": 0}}').is_partitioned


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"<html>",
        b"\xff\xfe",
        b'{"producers": 3}',
        b'{"producers": [{}]}',
        b'{"channels": [1]}',
        b'{"partitions": []}',
        b'{"partitions": {"x": {"broadcast_address": "a", "tcp_port": 1}}}',
        b"[" * 100_000,
        b'{"producers": [{"broadcast_address": "a", "tcp_port": "1"}]}',
        b'{"status_code": 500, "status_txt": "E"}',
        b'{"status_code": 200, "data": []}',
        b'{"meta": 1}',
        b'{"channels": ["a"], "producers": [{"broadcast_addr',
    ],
)
def test_garbage_is_no_answer(content: bytes) -> None:
    with pytest.raises(Unreadable):
        read_answer(content)


def test_partitions_are_the_first_clusters_and_all_nodes_are_producers_once() -> None:
    merged = merge([FORK, OTHER_FORK, STOCK], None)
    assert merged.content["partitions"] == {"0": C}
    assert merged.content["meta"] == FORK.meta
    assert merged.content["producers"] == [C, D, A, B]
    assert merged.content["channels"] == ["default", "x", "y"]
    assert merged.is_partitioned
    assert merged.refusal == ""


def test_stock_clusters_have_no_partitions() -> None:
    assert merge([STOCK, Answer((), (B, C))], None).content == {"channels": ["x"], "producers": [A, B, C]}


def test_another_clusters_partitions_never_slide_into_the_place_of_the_first() -> None:
    merged = merge([None, OTHER_FORK], FORK)
    assert merged.content["partitions"] == {"0": C}
    assert merged.content["meta"] == FORK.meta
    assert merged.content["producers"] == [C, D]
    for kept in (None, STOCK):
        merged = merge([None, OTHER_FORK], kept)
        assert merged.content["partitions"] == {}
        assert merged.content["producers"] == [D]
    assert merge([STOCK, OTHER_FORK], FORK).content["partitions"] == {}
    assert merge([NONE, OTHER_FORK], FORK).content["partitions"] == {}


def test_a_topic_that_no_cluster_has_is_refused_in_the_words_of_the_first() -> None:
    assert merge([Answer(refusal="Key not found"), NONE], None).refusal == "Key not found"
    assert merge([NONE, None], None).refusal == "TOPIC_NOT_FOUND"
    assert merge([NONE, STOCK], None).refusal == ""
    assert merge([None, None], None).refusal == ""


def test_a_node_is_known_by_its_address_and_port() -> None:
    again = A | {"remote_address": "10.0.0.1:33333", "version": "1.2.0"}
    assert distinct([A, again, peer("10.0.0.1", 4250)]) == [A, peer("10.0.0.1", 4250)]


def test_nsqlookupds_of_one_cluster_know_together_what_each_knows() -> None:
    assert union([Answer(("x",), (A,)), NONE, Answer(("y",), (B, A))]) == Answer(("x", "y"), (A, B))
    assert union([NONE, NONE]) == NONE
    assert union([FORK, FORK]) == FORK
    assert union([STOCK, FORK]) == Answer(("default", "x"), (A, B, C), FORK.partitions, FORK.meta)
    behind = Answer(("default",), (D,), {"0": D, "1": D})
    assert union([FORK, behind]) == Answer(("default",), (C, D), {"0": C, "1": D}, FORK.meta)
    assert union([behind, FORK]) == Answer(("default",), (D, C), {"0": D, "1": D}, FORK.meta)


def test_lists_are_merged() -> None:
    assert merge_lists([{"topics": ["b", "a"]}, {"topics": None}, {"topics": ["b", "c"]}], "topics") == {
        "topics": ["a", "b", "c"]
    }
    known, more = (
        {**A, "topics": ["x"], "tombstones": [True]},
        {**A, "topics": ["y", "x"], "tombstones": [False, False]},
    )
    assert merge_nodes([{"producers": [known, B]}, {"producers": [more, C]}, {}])["producers"] == [
        {**A, "topics": ["x", "y"], "tombstones": [True, False]},
        {**B, "topics": [], "tombstones": []},
        {**C, "topics": [], "tombstones": []},
    ]
    with pytest.raises(Unreadable):
        merge_lists([{"topics": "a"}], "topics")


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    some = st.lists(st.sampled_from([A, B, C, D]), max_size=3, unique_by=lambda one: one["broadcast_address"])
    producers = tuple(draw(some))
    if draw(st.booleans()):
        return Answer((), producers)
    found = draw(some)
    return Answer((), producers, {str(n): one for n, one in enumerate(found)}, {"partition_num": len(found)})


@given(st.lists(st.none() | answers(), min_size=1, max_size=4), st.none() | answers())
def test_whatever_clusters_answer_every_node_is_there_once(found: list[Answer | None], kept: Answer | None) -> None:
    content = merge(found, kept).content
    hosts = [one["broadcast_address"] for one in content["producers"]]
    assert len(hosts) == len(set(hosts))
    for answer in found:
        if answer is not None:
            assert {one["broadcast_address"] for one in answer.nodes} <= set(hosts)
    first = found[0] if found[0] is not None else kept
    allowed = first.partitions if first is not None and first.is_partitioned else {}
    assert content.get("partitions", {}) == allowed
    assert {one["broadcast_address"] for one in content.get("partitions", {}).values()} <= set(hosts)


@given(st.binary(max_size=60))
def test_whatever_comes_is_read_or_unreadable(content: bytes) -> None:
    for read in (read_answer, opened):
        with suppress(Unreadable):
            read(content)
