"""Responses of the double to publishes, and which refusals cost the connection."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from tests.doubles.youzan.running import NOT_EXIST, NOT_LEADER, YouzanDouble
from tests.integration.youzan.raw_nsq import ERROR, Frame, RawNsq, extended, several, traced

Connect = Callable[..., RawNsq]
HEADER = {"##trace_id": "77", "k": "v"}


def test_untraced_publishes_are_answered_with_ok(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic, extended=True)
    client, name = connect(), topic.encode()
    assert client.publish(b"PUB %s 0" % name, b"one") == b"OK"
    assert client.publish(b"PUB %s" % name, b"without a partition") == b"OK"
    assert client.publish(b"MPUB %s 0" % name, several([b"two", b"three"])) == b"OK"
    assert client.publish(b"PUB_EXT %s 0" % name, extended({"k": "v"}, b"four")) == b"OK"
    assert client.publish(b"MPUB_EXT %s 0" % name, several([extended(HEADER, b"five")])) == b"OK"
    assert double.partitions(topic)[0]["messages"] == 6


def test_traced_publishes_tell_where_the_message_is(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic, extended=True)
    client, name = connect(), topic.encode()
    first = client.traced(b"PUB_TRACE %s 0" % name, traced(42, b"one"))
    second = client.traced(b"MPUB_TRACE %s 0" % name, several([traced(43, b"two"), traced(44, b"three")]))
    third = client.traced(b"PUB_EXT %s 0" % name, extended(HEADER, b"four"))
    assert (first.trace, first.offset) == (42, 0)
    assert second.offset == first.size
    assert (third.trace, third.offset) == (77, second.offset + second.size)
    assert first.id < second.id < third.id


@pytest.mark.parametrize(
    ("line", "body"),
    [
        (b"PUB %s 0", b"x"),
        (b"PUB_TRACE %s 0", traced(1, b"x")),
        (b"MPUB %s 0", several([b"x"])),
        (b"MPUB_TRACE %s 0", several([traced(1, b"x")])),
    ],
)
def test_publishes_that_are_refused_for_a_time_leave_the_connection_open(
    double: YouzanDouble, connect: Connect, topic: str, line: bytes, body: bytes
) -> None:
    double.create_topic(topic, replicas=2)
    leader, follower, line = connect(1), connect(2), line % topic.encode()
    assert follower.ask(line, body) == Frame(ERROR, b"E_FAILED_ON_NOT_LEADER ")
    assert follower.is_open()
    double.set_writable(topic, 0, writable=False)
    assert leader.ask(line, body) == Frame(ERROR, b"E_FAILED_ON_NOT_WRITABLE ")
    double.set_writable(topic, 0, writable=True)
    double.set_failing(topic, 0, failing=True)
    assert leader.ask(line, body).data.startswith(b"E_PUB_FAILED ")
    double.set_failing(topic, 0, failing=False)
    assert leader.ask(line, body).data.startswith(b"OK")
    assert double.partitions(topic)[0]["messages"] == 1


@pytest.mark.parametrize(
    ("line", "body", "code"),
    [
        (b"PUB nowhere 0", b"x", b"E_TOPIC_NOT_EXIST "),
        (b"PUB %s 7", b"x", b"E_TOPIC_NOT_EXIST "),
        (b"PUB %s x", b"x", b"E_BAD_PARTITION "),
        (b"PUB a/b 0", b"x", b"E_BAD_TOPIC "),
        (b"PUB %s 0", b"", b"E_BAD_BODY "),
        (b"PUB", b"", b"E_INVALID "),
        (b"PUB_TRACE %s 0", traced(1, b""), b"E_BAD_BODY "),
        (b"MPUB_TRACE %s 0", several([traced(1, b"")]), b"E_BAD_BODY "),
        (b"MPUB %s 0", several([]), b"E_BAD_BODY "),
        (b"MPUB %s 0", several([b"x", b""]), b"E_BAD_BODY "),
        (b"DPUB %s 100", b"x", b"E_INVALID "),
        (b"AUTH", b"secret", b"E_INVALID "),
    ],
)
def test_publishes_that_make_no_sense_close_the_connection(
    double: YouzanDouble, connect: Connect, topic: str, line: bytes, body: bytes, code: bytes
) -> None:
    double.create_topic(topic)
    client = connect()
    answer = client.ask(line.replace(b"%s", topic.encode()), body)
    assert (answer.kind, answer.data[: len(code)]) == (ERROR, code)
    assert client.is_closed()


def test_an_ordered_topic_wants_its_partition_named(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic, ordered=True)
    client = connect()
    assert client.ask(b"PUB %s" % topic.encode(), b"x").data.startswith(b"E_BAD_PARTITION ")
    assert client.is_closed()


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"[1]", b"E_INVALID_JSON_HEADER "),
        (b"{", b"E_INVALID_JSON_HEADER "),
        (b'{"##trace_id": 7}', b"INVALID_TRACE_ID "),
        (b'{"##trace_id": "-7"}', b"INVALID_TRACE_ID "),
        (b'{"##trace_id": "18446744073709551616"}', b"INVALID_TRACE_ID "),
    ],
)
def test_headers_that_cannot_be_read_leave_the_connection_open(
    double: YouzanDouble, connect: Connect, topic: str, header: bytes, code: bytes
) -> None:
    double.create_topic(topic, extended=True)
    client = connect()
    body = struct.pack(">H", len(header)) + header + b"x"
    assert client.ask(b"PUB_EXT %s 0" % topic.encode(), body).data.startswith(code)
    assert client.is_open()


def test_headers_are_for_extended_topics(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic)
    client = connect()
    assert client.ask(b"PUB_EXT %s 0" % topic.encode(), extended(HEADER, b"x")).data.startswith(b"E_EXT_NOT_SUPPORT ")
    assert client.is_open()


def test_an_nsqd_without_a_copy_does_not_know_the_topic(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic, replicas=1)
    client = connect(2)
    assert client.ask(b"PUB %s 0" % topic.encode(), b"x") == Frame(ERROR, b"E_TOPIC_NOT_EXIST ")
    assert client.is_closed()


@pytest.mark.parametrize("error", [NOT_EXIST, NOT_LEADER])
def test_a_lost_partition_comes_back_with_its_messages(
    double: YouzanDouble, connect: Connect, topic: str, error: str
) -> None:
    double.create_topic(topic)
    client, line = connect(), b"PUB %s 0" % topic.encode()
    assert client.publish(line, b"before") == b"OK"
    double.lose(topic, 0, error)
    assert client.ask(line, b"lost") == Frame(ERROR, error.encode() + b" ")
    assert client.is_closed() if error == NOT_EXIST else client.is_open()
    double.find(topic, 0)
    assert connect().publish(line, b"after") == b"OK"
    assert double.partitions(topic)[0]["messages"] == 2
