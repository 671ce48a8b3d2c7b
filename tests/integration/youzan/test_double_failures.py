"""The double when leaders move, nsqds die, clients are silent, and it is started again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.doubles.youzan.running import YouzanDouble
from tests.harness.waiting import wait_until
from tests.integration.youzan.raw_nsq import ERROR, RESPONSE, Frame, RawNsq

PUB = b"PUB orders 0"
SUB = b"SUB_ORDERED orders billing 0"
Dial = Callable[..., RawNsq]


def named(double: YouzanDouble, access: str) -> bool:
    """Whether a lookup names a partition of the topic."""
    query = {"topic": "orders", "access": access}
    try:
        return bool(double.ask_lookupd("GET", "/lookup", **query).json()["data"]["partitions"])
    except httpx.HTTPStatusError:
        return False


def test_the_new_leader_serves_the_log_from_where_the_old_one_was(own: YouzanDouble, dial: Dial) -> None:
    own.create_topic("orders", replicas=2)
    consumer = dial(own, 1).subscribe(SUB)
    producer = dial(own, 1)
    for body in (b"one", b"two"):
        producer.publish(PUB, body)
    consumer.finish(consumer.message(details=True))
    assert consumer.message(details=True).body == b"two"
    own.move_leader("orders", 0, 2)
    assert consumer.is_closed()
    assert producer.ask(PUB, b"lost") == Frame(ERROR, b"E_FAILED_ON_NOT_LEADER ")
    assert producer.is_open()
    assert dial(own, 2).publish(PUB, b"three") == b"OK"
    moved = dial(own, 2).subscribe(SUB)
    for body in (b"two", b"three"):
        found = moved.message(details=True)
        assert found.body == body
        moved.finish(found)
    assert own.leader("orders", 0) == 2


def test_a_partition_whose_leader_died_is_led_without_writes_until_that_one_is_back(tmp_path: Path, dial: Dial) -> None:
    with YouzanDouble(tmp_path, options=("--election", 0.5)) as double:
        double.create_topic("orders", replicas=2)
        double.create_channel("orders", "billing")
        dial(double, 1).publish(PUB, b"one")
        double.kill_nsqd(1)
        assert not named(double, "r")
        survivor = dial(double, 2)
        assert survivor.ask(PUB, b"lost") == Frame(ERROR, b"E_FAILED_ON_NOT_LEADER ")
        wait_until(lambda: named(double, "r"), within=5, what="the other nsqd leads")
        assert survivor.ask(PUB, b"lost") == Frame(ERROR, b"E_FAILED_ON_NOT_WRITABLE ")
        assert not named(double, "w")
        assert dial(double, 2).subscribe(SUB).message(details=True).body == b"one"
        double.restart_nsqd(1)
        wait_until(lambda: named(double, "w"), within=5, what="writes return")
        assert survivor.publish(PUB, b"two") == b"OK"


def test_a_leader_whose_only_other_copy_died_takes_no_writes_until_that_one_is_back(
    own: YouzanDouble, dial: Dial
) -> None:
    own.create_topic("orders", replicas=2)
    own.create_channel("orders", "billing")
    client = dial(own, 1)
    own.kill_nsqd(2)
    assert client.ask(PUB, b"lost") == Frame(ERROR, b"E_FAILED_ON_NOT_WRITABLE ")
    assert (named(own, "r"), named(own, "w")) == (True, False)
    own.restart_nsqd(2)
    wait_until(lambda: named(own, "w"), within=5, what="writes return")
    assert client.publish(PUB, b"one") == b"OK"


def test_an_nsqd_leads_when_it_comes_back_alone(own: YouzanDouble, dial: Dial) -> None:
    own.create_topic("orders", replicas=2)
    own.kill_nsqd(2)
    own.kill_nsqd(1)
    own.restart_nsqd(2)
    wait_until(lambda: own.leader("orders", 0) == 2, within=5, what="the other nsqd leads")
    assert named(own, "r")
    assert dial(own, 2).ask(PUB, b"lost") == Frame(ERROR, b"E_FAILED_ON_NOT_WRITABLE ")


def test_an_nsqd_without_another_copy_comes_back_with_its_messages(own: YouzanDouble, dial: Dial) -> None:
    own.create_topic("orders")
    own.create_channel("orders", "billing")
    client = dial(own, 1)
    client.publish(PUB, b"one")
    own.kill_nsqd(1)
    assert client.is_closed()
    with pytest.raises(ConnectionRefusedError):
        dial(own, 1)
    assert not named(own, "r")
    own.restart_nsqd(1)
    assert named(own, "w")
    assert dial(own, 1).subscribe(SUB).message(details=True).body == b"one"


def test_a_lost_partition_takes_its_consumers_along(own: YouzanDouble, dial: Dial) -> None:
    own.create_topic("orders")
    consumer = dial(own, 1).subscribe(SUB)
    own.lose("orders", 0)
    assert consumer.is_closed()
    assert dial(own, 1).ask(SUB) == Frame(ERROR, b"E_TOPIC_NOT_EXIST ")


def test_a_client_that_answers_no_heartbeat_is_sent_away(tmp_path: Path, dial: Dial) -> None:
    with YouzanDouble(tmp_path, options=("--heartbeat", 0.1)) as double:
        silent, lively = dial(double, 1), dial(double, 1)
        for _ in range(5):
            assert lively.frame() == Frame(RESPONSE, b"_heartbeat_")
            lively.send(b"NOP")
        for _ in range(2):
            assert silent.frame() == Frame(RESPONSE, b"_heartbeat_")
        wait_until(lambda: _gone(silent), within=5, what="the silent client is sent away", every=0)
        assert lively.frame() == Frame(RESPONSE, b"_heartbeat_")


def _gone(client: RawNsq) -> bool:
    try:
        client.frame()
    except (AssertionError, ConnectionError):
        return True
    return False


def test_messages_and_positions_outlive_the_process(tmp_path: Path, dial: Dial) -> None:
    options = ("--data", tmp_path / "data")
    with YouzanDouble(tmp_path, options=options) as double:
        double.create_topic("orders", replicas=2)
        consumer = dial(double, 1).subscribe(SUB)
        for body in (b"one", b"two"):
            dial(double, 1).publish(PUB, body)
        consumer.finish(consumer.message(details=True))
        before = consumer.message(details=True)
        double.stop()
    with YouzanDouble(tmp_path, options=options) as double:
        found = dial(double, 1).subscribe(SUB).message(details=True)
        assert found == before
        double.child.kill()
    with YouzanDouble(tmp_path, options=options) as double:
        consumer = dial(double, 1).subscribe(SUB)
        dial(double, 1).publish(PUB, b"three")
        for body in (b"two", b"three"):
            found = consumer.message(details=True)
            assert found.body == body
            consumer.finish(found)
        assert int.from_bytes(found.id[:8], "big") == 3


def test_the_journal_has_commands_by_connection(own: YouzanDouble, dial: Dial) -> None:
    own.create_topic("orders")
    own.forget()
    client = dial(own, 1, client_id="c", extend_support=False)
    client.publish(PUB, b"x")
    assert own.commands(1) == [
        {
            "connection": 1,
            "command": "IDENTIFY",
            "params": [],
            "identify": {"client_id": "c", "extend_support": False},
        },
        {"connection": 1, "command": "PUB", "params": ["orders", "0"]},
    ]
    assert own.commands(2) == []
    assert own.counters(1)["published"] == 1


def test_an_order_that_makes_no_sense_is_refused(own: YouzanDouble) -> None:
    own.create_topic("orders")
    with pytest.raises(ValueError, match="no partition 7"):
        own.move_leader("orders", 7, 2)
    own.kill_nsqd(2)
    with pytest.raises(ValueError, match="not running"):
        own.move_leader("orders", 0, 2)
    with pytest.raises(ValueError, match="none of"):
        own.set_lookupd(1, fault="sings")


def test_an_nsqd_that_hangs_answers_when_it_goes_on(own: YouzanDouble, dial: Dial) -> None:
    own.create_topic("orders")
    own.create_channel("orders", "billing")
    producer, consumer = dial(own, 1), dial(own, 1).subscribe(SUB)
    own.hang_nsqd(1)
    producer.send(PUB, b"one")
    url = f"http://127.0.0.1:{own.nsqds[1].http}/ping"
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(url, trust_env=False, timeout=0.1)
    assert own.partitions("orders")[0]["messages"] == 0
    own.wake_nsqd(1)
    assert producer.frame() == Frame(RESPONSE, b"OK")
    assert consumer.message(details=True).body == b"one"


def test_a_lost_answer_leaves_what_was_written(own: YouzanDouble, dial: Dial) -> None:
    own.create_topic("orders")
    own.create_channel("orders", "billing")
    own.lose_answers("orders", 0, 1)
    producer = dial(own, 1)
    producer.send(PUB, b"one")
    assert producer.is_closed()
    assert dial(own, 1).publish(PUB, b"two") == b"OK"
    consumer = dial(own, 1).subscribe(SUB)
    for body in (b"one", b"two"):
        found = consumer.message(details=True)
        assert found.body == body
        consumer.finish(found)


def test_a_leader_that_was_behind_lacks_the_last_messages_and_gives_their_ids_to_others(
    own: YouzanDouble, dial: Dial
) -> None:
    own.create_topic("orders", replicas=2)
    own.create_channel("orders", "billing")
    producer, consumer = dial(own, 1), dial(own, 1).subscribe(SUB)
    ids = []
    for body in (b"one", b"two", b"three"):
        producer.publish(PUB, body)
        found = consumer.message(details=True)
        ids.append(found.id)
        consumer.finish(found)
    own.move_leader_behind("orders", 0, 2, lost=2)
    assert consumer.is_closed()
    assert own.partitions("orders")[0]["messages"] == 1
    dial(own, 2).publish(PUB, b"four")
    found = dial(own, 2).subscribe(SUB).message(details=True)
    assert (found.body, found.id) == (b"four", ids[1])
