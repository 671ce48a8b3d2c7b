"""Messages of the double to consumers, and their responses."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.doubles.youzan.running import YouzanDouble
from tests.integration.youzan.raw_nsq import ERROR, RESPONSE, Frame, RawNsq, extended, traced

Connect = Callable[..., RawNsq]
HEADER = {"##trace_id": "77"}


@pytest.mark.parametrize("command", ["SUB", "SUB_ADVANCED", "SUB_ORDERED"])
def test_messages_tell_id_trace_and_where_they_are(
    double: YouzanDouble, connect: Connect, topic: str, command: str
) -> None:
    double.create_topic(topic)
    consumer = connect().subscribe(f"{command} {topic} billing 0".encode())
    published = connect().traced(b"PUB_TRACE %s 0" % topic.encode(), traced(42, b"body"))
    details = command != "SUB"
    found = consumer.message(details=details)
    assert (found.attempts, found.trace, found.body) == (1, 42, b"body")
    assert int.from_bytes(found.id[:8], "big") == published.id
    assert (found.offset, found.size) == ((published.offset, published.size) if details else (None, None))


@pytest.mark.parametrize("command", ["SUB", "SUB_ADVANCED", "SUB_ORDERED"])
def test_messages_of_extended_topics_have_their_header_before_the_rest(
    double: YouzanDouble, connect: Connect, topic: str, command: str
) -> None:
    double.create_topic(topic, extended=True)
    consumer = connect(extend_support=True).subscribe(f"{command} {topic} billing 0".encode())
    producer, details = connect(), command != "SUB"
    producer.publish(b"PUB_EXT %s 0" % topic.encode(), extended(HEADER, b"with"))
    producer.publish(b"PUB %s 0" % topic.encode(), b"without")
    found = consumer.message(extended=True, details=details)
    assert (found.ext, found.trace, found.body) == (b'{"##trace_id": "77"}', 77, b"with")
    consumer.finish(found)
    bare = consumer.message(extended=True, details=details)
    assert (bare.ext, bare.body) == (None, b"without")


@pytest.mark.parametrize(
    ("line", "flags", "identify", "code"),
    [
        ("SUB nowhere billing 0", {}, {}, b"E_TOPIC_NOT_EXIST "),
        ("SUB {} billing 7", {}, {}, b"E_TOPIC_NOT_EXIST "),
        ("SUB {} billing x", {}, {}, b"E_BAD_PARTITION "),
        ("SUB a/b billing 0", {}, {}, b"E_BAD_TOPIC "),
        ("SUB {} bill/ing 0", {}, {}, b"E_BAD_CHANNEL "),
        ("SUB {}", {}, {}, b"E_INVALID "),
        ("SUB_ORDER {} billing 0", {}, {}, b"E_INVALID "),
        ("SUB {} billing 0", {"ordered": True}, {}, b"E_SUB_ORDER_IS_MUST "),
        ("SUB_ADVANCED {} billing 0", {"ordered": True}, {}, b"E_SUB_ORDER_IS_MUST "),
        ("SUB {} billing 0", {"extended": True}, {}, b"E_SUB_EXTEND_NEED "),
        ("SUB {} billing 0", {}, {"extend_support": True}, b"E_SUB_EXTEND_FORBIDDON "),
        ("SUB {} billing 0", {"registered_channels": True}, {}, b"E_SUB_CHANNEL_NOT_REGISTERED "),
        ("SUB {} billing 0", {}, {"heartbeat_interval": -1}, b"E_INVALID "),
        ("SUB_ADVANCED {} billing 0 virtual_queue:9", {}, {}, b"E_INVALID "),
        ("SUB_ADVANCED {} billing 0 nonsense:9", {}, {}, b"E_INVALID "),
        ("RDY 1", {}, {}, b"E_INVALID "),
        ("CLS", {}, {}, b"E_INVALID "),
        ("FIN 0123456789abcdef", {}, {}, b"E_INVALID "),
    ],
)
def test_what_cannot_be_subscribed_to_closes_the_connection(
    double: YouzanDouble,
    connect: Connect,
    topic: str,
    line: str,
    flags: dict[str, bool],
    identify: dict[str, object],
    code: bytes,
) -> None:
    double.create_topic(topic, **flags)
    consumer = connect(**identify)
    answer = consumer.ask(line.format(topic).encode())
    assert (answer.kind, answer.data[: len(code)]) == (ERROR, code)
    assert consumer.is_closed()


def test_subscribing_where_nothing_is_led_closes_the_connection(
    double: YouzanDouble, connect: Connect, topic: str
) -> None:
    double.create_topic(topic, replicas=2)
    consumer = connect(2)
    assert consumer.ask(b"SUB %s billing 0" % topic.encode()) == Frame(ERROR, b"E_FAILED_ON_NOT_LEADER ")
    assert consumer.is_closed()


def test_a_registered_channel_can_be_subscribed_to(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic, registered_channels=True)
    double.ask_lookupd("POST", "/channel/create", topic=topic, channel="billing")
    connect().subscribe(b"SUB %s billing 0" % topic.encode())


def test_ids_may_hold_the_end_of_a_line_and_spaces(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic)
    consumer = connect().subscribe(b"SUB %s billing 0" % topic.encode(), ready=100)
    producer = connect()
    awkward = int.from_bytes(b"\n \n\n \r\n ", "big")
    for number in range(40):
        producer.publish(b"PUB_TRACE %s 0" % topic.encode(), traced(awkward, b"%d" % number))
    found = [consumer.message() for _ in range(40)]
    assert {b"\n"[0], b" "[0]} <= {one.id[7] for one in found}
    for one in found:
        consumer.send(b"TOUCH " + one.id)
    for one in found[:20]:
        consumer.send(b"REQ " + one.id + b" 0")
    again = [consumer.message() for _ in range(20)]
    assert [one.body for one in again] == [one.body for one in found[:20]]
    for one in (*again, *found[20:]):
        consumer.finish(one)
    consumer.finish(found[0])
    assert consumer.frame().data.startswith(b"E_FIN_FAILED ")


@pytest.mark.parametrize("command", [b"FIN ", b"TOUCH ", b"REQ "])
def test_answers_for_what_one_does_not_hold_leave_the_connection_open(
    double: YouzanDouble, connect: Connect, topic: str, command: bytes
) -> None:
    double.create_topic(topic)
    consumer = connect().subscribe(b"SUB %s billing 0" % topic.encode())
    answer = consumer.ask(command + b"\0" * 7 + b"\x99" * 9 + (b" 0" if command == b"REQ " else b""))
    assert (answer.kind, answer.data.split()[0]) == (ERROR, b"E_" + command.strip() + b"_FAILED")
    assert consumer.is_open()


def test_a_new_channel_begins_at_the_end(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic)
    producer, line = connect(), b"PUB %s 0" % topic.encode()
    producer.publish(line, b"before")
    consumer = connect().subscribe(b"SUB %s billing 0" % topic.encode(), ready=5)
    producer.publish(line, b"after")
    assert consumer.message().body == b"after"


def test_an_ordered_channel_has_one_message_in_flight_and_one_consumer(
    double: YouzanDouble, connect: Connect, topic: str
) -> None:
    double.create_topic(topic, ordered=True)
    line = b"SUB_ORDERED %s billing 0" % topic.encode()
    first, second = connect().subscribe(line, ready=100), connect().subscribe(line, ready=100)
    producer = connect()
    for number in range(4):
        producer.publish(b"PUB %s 0" % topic.encode(), b"%d" % number)
    for number in range(3):
        found = first.message(details=True)
        assert found.body == b"%d" % number
        assert first.is_silent()
        first.finish(found)
    assert second.is_silent()
    assert first.message(details=True).body == b"3"
    first.close()
    handed_over = second.message(details=True)
    assert (handed_over.body, handed_over.attempts) == (b"3", 2)


def test_an_ordered_channel_knows_requeues_without_delay_only(
    double: YouzanDouble, connect: Connect, topic: str
) -> None:
    double.create_topic(topic, ordered=True)
    consumer = connect(msg_timeout=300).subscribe(b"SUB_ORDERED %s billing 0" % topic.encode(), ready=5)
    connect().publish(b"PUB %s 0" % topic.encode(), b"x")
    first = consumer.message(details=True)
    consumer.send(b"REQ " + first.id + b" 0")
    begun = time.monotonic()
    second = consumer.message(details=True)
    assert (second.attempts, second.id) == (2, first.id)
    consumer.send(b"REQ " + second.id + b" 10")
    assert consumer.message(details=True).attempts == 3
    assert time.monotonic() - begun >= 0.29


def test_a_requeue_with_delay_waits_elsewhere(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic)
    consumer = connect().subscribe(b"SUB %s billing 0" % topic.encode(), ready=5)
    producer = connect()
    producer.publish(b"PUB %s 0" % topic.encode(), b"delayed")
    delayed, begun = consumer.message(), time.monotonic()
    consumer.send(b"REQ " + delayed.id + b" 150")
    producer.publish(b"PUB %s 0" % topic.encode(), b"prompt")
    assert consumer.message().body == b"prompt"
    assert consumer.message() == delayed._replace(attempts=2)
    assert time.monotonic() - begun >= 0.15


def test_a_message_that_times_out_is_sent_again(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic)
    consumer = connect(msg_timeout=100).subscribe(b"SUB %s billing 0" % topic.encode())
    connect().publish(b"PUB %s 0" % topic.encode(), b"x")
    first, second = consumer.message(), consumer.message()
    assert (first.attempts, second.attempts, first.id) == (1, 2, second.id)
    consumer.finish(second)
    consumer.send(b"FIN " + second.id)
    assert consumer.frame().data.startswith(b"E_FIN_FAILED ")


def test_touch_begins_the_timeout_anew(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic)
    consumer = connect(msg_timeout=200).subscribe(b"SUB %s billing 0" % topic.encode())
    connect().publish(b"PUB %s 0" % topic.encode(), b"x")
    found, begun = consumer.message(), time.monotonic()
    while time.monotonic() < begun + 0.3:
        consumer.send(b"TOUCH " + found.id)
        assert consumer.is_silent()
    consumer.finish(found)
    assert consumer.ask(b"CLS") == Frame(RESPONSE, b"CLOSE_WAIT")


@pytest.mark.parametrize(
    ("where", "first"),
    [("virtual_queue:0", b"0"), ("virtual_queue:31", b"1"), ("msgcount:2", b"2"), ("timestamp:0", b"0")],
)
def test_advanced_consumers_say_where_to_begin(
    double: YouzanDouble, connect: Connect, topic: str, where: str, first: bytes
) -> None:
    double.create_topic(topic)
    for number in range(3):
        connect().publish(b"PUB %s 0" % topic.encode(), b"%d" % number)
    consumer = connect().subscribe(f"SUB_ADVANCED {topic} billing 0 {where}".encode())
    assert consumer.message(details=True).body == first


def test_special_means_the_end_also_for_a_channel_that_is_behind(
    double: YouzanDouble, connect: Connect, topic: str
) -> None:
    double.create_topic(topic)
    double.create_channel(topic, "billing")
    producer = connect()
    producer.publish(b"PUB %s 0" % topic.encode(), b"skipped")
    consumer = connect().subscribe(f"SUB_ADVANCED {topic} billing 0 special:-1".encode(), ready=5)
    producer.publish(b"PUB %s 0" % topic.encode(), b"new")
    assert consumer.message(details=True).body == b"new"


def test_ready_is_how_many_may_be_in_flight(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic)
    consumer = connect().subscribe(b"SUB %s billing 0" % topic.encode(), ready=2)
    for number in range(4):
        connect().publish(b"PUB %s 0" % topic.encode(), b"%d" % number)
    first, _ = consumer.message(), consumer.message()
    assert consumer.is_silent()
    consumer.finish(first)
    assert consumer.message().body == b"2"
    assert consumer.ask(b"CLS") == Frame(RESPONSE, b"CLOSE_WAIT")
    consumer.send(b"RDY 99999")
    assert consumer.is_silent()


def test_what_identify_asks_for_is_answered_or_refused(connect: Connect) -> None:
    answer = connect().ask(b"IDENTIFY", b'{"feature_negotiation": true, "msg_timeout": 1500}').data
    assert b'"max_rdy_count": 2500' in answer
    assert b'"msg_timeout": 1500' in answer
    for body in (b"no JSON", b'{"heartbeat_interval": 10}', b'{"msg_timeout": 3600000}'):
        client = connect()
        assert client.ask(b"IDENTIFY", body).data.startswith(b"E_BAD_BODY ")
        assert client.is_closed()
