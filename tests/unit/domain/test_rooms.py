"""The configuration of the lookup proxy."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.routing.rooms import Access, Route, read_rooms
from bus.errors import ConfigurationError

SCHEMA = {"nsq1": "this.is.url.of.nsq1:4161", "nsq2": "this.is.url.of.nsq2:4161", "nsq3": "this.is.url.of.nsq3:4161"}
DEFAULT = {"#D": {"#C": ["nsq1", "nsq2"], "#P": "nsq1"}}


def read(topics: Any, schema: Any = SCHEMA, **more: Any) -> Any:
    return read_rooms(json.dumps({"topics": topics, "lookupSchema": schema, **more}).encode())


def test_the_structures_of_the_seed_are_read_as_they_are_written() -> None:
    rooms = read([{"topicA": {"#C": ["nsq3", "nsq1"], "#P": "nsq3"}}, {"#D": {"#C": ["nsq1"], "#P": "nsq1"}}])
    assert rooms.route("topicA") == Route(("nsq3",), ("nsq3", "nsq1"))
    assert rooms.route("other") == Route(("nsq1",), ("nsq1",))
    assert rooms.route("topicA").clusters(Access.WRITE) == ("nsq3",)
    assert rooms.route("topicA").clusters(Access.READ) == ("nsq3", "nsq1")
    assert rooms.clusters == {name: (address,) for name, address in SCHEMA.items()}
    assert rooms.room == ""


def test_each_room_produces_to_its_own_cluster_and_consumes_from_all() -> None:
    topics = [{"#D": {"#C": ["nsq1", "nsq2"], "#P": {"east": "nsq1", "west": "nsq2"}}}]
    for room, cluster in (("east", "nsq1"), ("west", "nsq2")):
        rooms = read(topics, room=room)
        assert rooms.route("t") == Route((cluster,), ("nsq1", "nsq2"))
        assert rooms.rooms == {"east": {"nsq1"}, "west": {"nsq2"}}


@pytest.mark.parametrize(
    ("entry", "route"),
    [
        ({"#P": "nsq3"}, Route(("nsq3",), ("nsq1", "nsq2"))),
        ({"#C": ["nsq3"]}, Route(("nsq1",), ("nsq3",))),
        ({"#C": "nsq3"}, Route(("nsq1",), ("nsq3",))),
        ({}, Route(("nsq1",), ("nsq1", "nsq2"))),
    ],
)
def test_what_an_entry_leaves_out_is_that_of_all_others(entry: Any, route: Route) -> None:
    assert read([{"t": entry}, DEFAULT]).route("t") == route


def test_a_topic_without_an_entry_has_no_route_when_there_is_no_default() -> None:
    rooms = read([{"t": {"#C": ["nsq1"], "#P": "nsq1"}}])
    assert rooms.route("other") is None


@pytest.mark.parametrize(
    ("told", "addresses"),
    [
        ("a:1", ("a:1",)),
        ("http://a:1/", ("a:1",)),
        ("a:1, b:2", ("a:1", "b:2")),
        (["a:1", "[::1]:2", "a:1"], ("a:1", "[::1]:2")),
    ],
)
def test_a_cluster_is_known_by_one_nsqlookupd_or_several(told: Any, addresses: Any) -> None:
    assert read([{"#D": {"#C": ["x"], "#P": "x"}}], {"x": told}).clusters == {"x": addresses}


def test_an_address_stands_for_a_cluster_of_its_own() -> None:
    rooms = read([{"#D": {"#C": ["h:4161", "nsq1"], "#P": "h:4161"}}])
    assert rooms.clusters["h:4161"] == ("h:4161",)
    assert rooms.route("t") == Route(("h:4161",), ("h:4161", "nsq1"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is no JSON"),
        (b"{", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b"\xff", "it is no JSON"),
        (b"[]", "the file: it is no object"),
        (b'{"topics": {}}', "topics: it is no list"),
        (b'{"topic": []}', "'topic' is unknown; allowed: lookupSchema, room, topics"),
        (b'{"topics": []}', "no topic has a route"),
    ],
)
def test_what_cannot_be_a_configuration_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(ConfigurationError, match="lookup configuration cannot be used") as caught:
        read_rooms(content)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("topics", "more", "words"),
    [
        ([{"t": {"#C": ["none"], "#P": "nsq1"}}], {}, "topics.t.#C[0]: none is no cluster of lookupSchema"),
        ([{"t": {"#C": ["nsq1"], "#P": 3}}], {}, "topics.t.#P: 3 is no text"),
        ([{"t": {"#C": [], "#P": "nsq1"}}], {}, "topics.t.#C: it names no cluster"),
        ([{"t": {"#C": ["nsq1", "nsq1"], "#P": "nsq1"}}], {}, "names a cluster twice"),
        ([{"t": {"#C": ["nsq1"]}}], {}, "topics.t: there is no #P"),
        ([{"t": {"#P": "nsq1"}}], {}, "topics.t: there is no #C"),
        ([{"t": {"#X": 1}}, DEFAULT], {}, "'#X' is unknown; allowed: #C, #P"),
        ([{"t": {}}, {"t": {}}, DEFAULT], {}, "topics[1]: t is there twice"),
        ([{"a topic": {}}, DEFAULT], {}, "is no name of an NSQ topic"),
        ([{"t": []}, DEFAULT], {}, "topics.t: it is no object"),
        (["t"], {}, "topics[0]: it is no object"),
        ([{"#D": {"#C": ["nsq1"], "#P": {"east": "nsq1"}}}], {}, "no cluster for the site ''"),
        ([{"#D": {"#C": ["nsq1"], "#P": {"east": "nsq1"}}}], {"room": "west"}, "it has: east"),
        ([DEFAULT], {"room": 1}, "room: 1 is no text"),
        ([DEFAULT], {"schema": {"nsq1": "a:70000"}}, "is not HOST:PORT"),
        ([DEFAULT], {"schema": {"nsq1": "a"}}, "'a' is not HOST:PORT"),
        ([DEFAULT], {"schema": {"nsq1": []}}, "lookupSchema.nsq1: it names no nsqlookupd"),
        ([DEFAULT], {"schema": {str(n): "a:1" for n in range(65)}}, "more than 64 clusters"),
    ],
)
def test_an_error_names_its_place(topics: Any, more: Any, words: str) -> None:
    schema = more.pop("schema", SCHEMA)
    with pytest.raises(ConfigurationError) as caught:
        read(topics, schema, **more)
    assert words in str(caught.value)
    assert "docs/lookup.md" in caught.value.hint


def test_what_is_nested_however_deep_is_refused() -> None:
    for depth in (1, *range(900, 1_010)):
        with pytest.raises(ConfigurationError):
            read_rooms(b'{"room": ' + b"[" * depth + b"]" * depth + b"}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["#D", "#C", "#P", "nsq1", "a:1", "t", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["topics", "lookupSchema", "room", "#D", "#C", "#P", "t"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_is_written_is_read_or_refused_in_words(found: Any) -> None:
    try:
        rooms = read_rooms(json.dumps(found).encode())
    except ConfigurationError:
        return
    for route in (*rooms.topics.values(), *([rooms.default] if rooms.default else [])):
        assert set(route.produce) | set(route.consume) <= set(rooms.clusters)
        assert len(route.produce) == 1
        assert route.consume
