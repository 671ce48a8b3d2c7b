"""One producer at a time sends to a strictly ordered destination, and what it left goes before its successor's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from bus import Bus
from bus.client.options import Options
from bus.client.sending import drain as drain_module
from bus.client.sending.drain import drain
from bus.client.spooling.home import homes
from bus.client.spooling.marker import Marker
from bus.domain.destination import Ordering, TransportName
from bus.errors import (
    InvalidDestination,
    InvalidMessage,
    LeaseLost,
    MessageTooLarge,
    NotLeader,
    ReceiverUnavailable,
    SpoolClosed,
    SpoolFailed,
    Unconfirmed,
)
from tests.harness.waiting import wait_until
from tests.unit.client.strict_network import Network, network


@pytest.fixture
def net() -> Iterator[Network]:
    with network("one", "two") as made:
        yield made


@pytest.fixture
def bus(net: Network, tmp_path: Path) -> Iterator[Bus]:
    with net.bus(tmp_path / "first") as made:
        yield made


def until(is_so: Callable[[], object]) -> None:
    wait_until(is_so, within=20, what="it is so")


def die(bus: Bus) -> Path:
    """End a bus as a kill does: nothing is released, and its directory is anybody's."""
    outbox = bus.present()
    assert outbox is not None
    outbox.abandon()
    outbox._thread.join()
    bus.close(0)
    return outbox._spool.directory


def test_what_is_sent_is_confirmed_in_order_when_send_returns(net: Network, bus: Bus) -> None:
    with bus.sender("orders") as sender:
        assert sender.destination == "orders"
        for number in range(5):
            message_id = sender.send(number, key="k", biz_id="b", headers={"x-a": "1"})
            assert len(message_id) == 36
            assert net.held() == list(range(number + 1))
        assert net.owner() == Marker(homes(bus._options.root)[0]).owner
    assert net.owner() == ""
    assert bus.pending == bus.rejected == 0


def test_a_second_producer_gets_the_lease_once_the_first_has_ended(net: Network, bus: Bus, tmp_path: Path) -> None:
    with net.bus(tmp_path / "second") as other:
        with bus.sender("orders") as sender:
            sender.send(1)
            with pytest.raises(NotLeader, match="shop-"):
                other.sender("orders")
        with other.sender("orders") as successor:
            successor.send(2)
            with pytest.raises(SpoolClosed):
                sender.send(3)
    assert net.held() == [1, 2]


def test_it_can_wait_for_that(net: Network, bus: Bus, tmp_path: Path) -> None:
    sender = bus.sender("orders")
    with net.bus(tmp_path / "second") as other:
        got: list[int] = []

        def follow() -> None:
            with other.sender("orders", wait=None) as following:
                following.send(2)
                got.append(following.epoch)

        thread = threading.Thread(target=follow)
        thread.start()
        until(lambda: sum("POST" in asked and "producers" in asked for asked in net.asked) > 1)
        sender.send(1)
        assert sender.close()
        thread.join()
        assert got[0] > sender.epoch
    assert net.held() == [1, 2]


def test_there_is_one_sender_in_a_process_for_any_number_of_threads(net: Network, bus: Bus) -> None:
    with bus.sender("orders") as sender:
        with pytest.raises(NotLeader, match="already"):
            bus.sender("orders", wait=10)
        threads = [threading.Thread(target=sender.send, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(net.held()) == list(range(20))
    with bus.sender("orders") as again:
        again.send(20)


def test_plain_messages_wait_until_the_lease_is_released(net: Network, bus: Bus) -> None:
    with bus.sender("orders") as sender:
        bus.send("orders", 100)
        until(lambda: any("messages" in asked for asked in net.asked))
        sender.send(1)
        sender.send(2)
        assert bus.pending == 1
    assert bus.flush(10)
    assert net.held() == [1, 2, 100]


def test_a_message_that_is_not_confirmed_in_time_is_kept_and_sent(net: Network, bus: Bus) -> None:
    net.set_copies(1)
    with bus.sender("orders") as sender:
        with pytest.raises(Unconfirmed, match="kept on disk") as raised:
            sender.send(1, timeout=0.2)
        assert not raised.value.retriable
        assert bus.pending == 1
        net.set_copies(3)
        bus.flush(0)
        sender.send(2)
        assert net.held() == [1, 2]


def test_a_sender_that_is_closed_with_messages_left_keeps_the_lease_until_they_are_sent(
    net: Network, bus: Bus, tmp_path: Path
) -> None:
    net.set_copies(1)
    sender = bus.sender("orders")
    with pytest.raises(Unconfirmed):
        sender.send(1, timeout=0.1)
    assert not sender.close(0.1)
    with net.bus(tmp_path / "second") as other, pytest.raises(NotLeader):
        other.sender("orders")
    net.set_copies(3)
    assert bus.flush(10)
    until(lambda: net.owner() == "")
    with bus.sender("orders") as again:
        again.send(2)
    assert net.held() == [1, 2]


def test_a_sender_can_be_taken_up_again_before_it_is_released(net: Network, bus: Bus) -> None:
    net.set_copies(1)
    sender = bus.sender("orders")
    with pytest.raises(Unconfirmed):
        sender.send(1, timeout=0.1)
    assert not sender.close(0)
    with bus.sender("orders") as again:
        assert again.epoch == sender.epoch
        net.set_copies(3)
        bus.flush(10)
        again.send(2)
    assert net.held() == [1, 2]


def test_a_successor_goes_on_behind_what_a_killed_producer_left(net: Network, tmp_path: Path) -> None:
    first = net.bus(tmp_path)
    sender = first.sender("orders")
    sender.send(1)
    net.gone |= {"one", "two"}
    for number in (2, 3):
        with pytest.raises(Unconfirmed):
            sender.send(number, timeout=0.05)
    directory = die(first)
    net.gone.clear()
    with net.bus(tmp_path) as second, second.sender("orders", wait=10) as successor:
        successor.send(4)
    assert net.held() == [1, 2, 3, 4]
    assert not directory.exists()


def test_who_waits_for_the_lease_looks_for_what_the_one_before_left(net: Network, tmp_path: Path) -> None:
    first = net.bus(tmp_path)
    first.sender("orders").send(1)
    with net.bus(tmp_path, sweep_seconds=1000) as second:
        second.start()
        with pytest.raises(NotLeader):
            second.sender("orders")
        die(first)
        with second.sender("orders", wait=30) as successor:
            successor.send(2)
    assert net.held() == [1, 2]


def test_a_standby_takes_over_and_what_the_one_before_left_is_refused(net: Network, tmp_path: Path) -> None:
    first = net.bus(tmp_path / "first")
    sender = first.sender("orders", takeover_after=3600)
    sender.send(1)
    net.gone |= {"one", "two"}
    with pytest.raises(Unconfirmed):
        sender.send(2, timeout=0.05)
    die(first)
    net.gone.clear()
    with net.bus(tmp_path / "second") as other:
        with pytest.raises(NotLeader):
            other.sender("orders")
        net.advance(3600)
        with other.sender("orders", takeover_after=3600) as successor:
            successor.send(3)
            with net.bus(tmp_path / "first") as again:
                again.start()
                until(lambda: again.rejected == 1)
    assert net.held() == [1, 3]


def test_a_sender_that_lives_keeps_its_lease(net: Network, bus: Bus, tmp_path: Path) -> None:
    sender = bus.sender("orders", takeover_after=2)
    net.asked.clear()
    until(lambda: net.asked.count("POST one/v1/producers/orders") >= 2)
    assert sender.close()
    with net.bus(tmp_path / "second") as other, other.sender("orders") as successor:
        assert successor.epoch > sender.epoch


def test_a_time_for_a_takeover_has_bounds(bus: Bus) -> None:
    with pytest.raises(InvalidMessage, match="takeover_after"):
        bus.sender("orders", takeover_after=1)


def test_a_sweeper_releases_what_a_killed_producer_had(
    net: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = net.bus(tmp_path / "first")
    sender = first.sender("orders")
    net.gone |= {"one", "two"}
    for number in (1, 2):
        with pytest.raises(Unconfirmed):
            sender.send(number, timeout=0.05)
    first.send("orders", 3)
    directory = die(first)
    monkeypatch.setattr(drain_module, "Options", partial(Options, transport=net))
    failed = drain(directory, "http://one", None, rejected=False, sent=lambda _: None)
    assert (failed.removed, failed.waiting) == (False, 3)
    net.gone.clear()
    with net.bus(tmp_path / "second") as other:
        with pytest.raises(NotLeader):
            other.sender("orders")
        done = drain(directory, "http://two", None, rejected=False, sent=lambda _: None)
        assert (done.sent, done.removed, done.problem) == (3, True, "")
        with other.sender("orders") as successor:
            successor.send(4)
    assert net.held() == [1, 2, 3, 4]


def test_a_directory_that_died_before_it_had_the_lease_is_removed(net: Network, tmp_path: Path) -> None:
    first = net.bus(tmp_path)
    first.start()
    outbox = first.present()
    assert outbox is not None
    outbox.marker.begin("orders")
    directory = die(first)
    with net.bus(tmp_path):
        until(lambda: not directory.exists())
    assert net.owner() == ""


def test_a_lease_that_was_given_up_ends_sending_at_once(net: Network, bus: Bus, tmp_path: Path) -> None:
    sender = bus.sender("orders")
    sender.send(1)
    net.give_up()
    with net.bus(tmp_path / "second") as other, other.sender("orders") as successor:
        successor.send(2)
        with pytest.raises(LeaseLost):
            sender.send(3)
        assert bus.rejected == 1
        with pytest.raises(NotLeader):
            sender.send(4)
        assert (bus.pending, bus.rejected) == (0, 1)
        assert sender.close()
        assert net.owner() != ""
    with bus.sender("orders") as again:
        again.send(5)
    assert net.held() == [1, 2, 5]


def test_what_was_stored_before_the_lease_was_lost_is_refused_too(net: Network, bus: Bus) -> None:
    sender = bus.sender("orders")
    net.gone |= {"one", "two"}
    for number in range(3):
        with pytest.raises(Unconfirmed):
            sender.send(number, timeout=0.05)
    net.give_up()
    net.gone.clear()
    bus.flush(10)
    assert (bus.pending, bus.rejected, net.held()) == (0, 3, [])
    with pytest.raises(NotLeader):
        sender.send(3)


def test_it_follows_the_receiver_that_sends(net: Network, bus: Bus) -> None:
    one, two = net.worlds["one"], net.worlds["two"]

    async def move() -> None:
        rules = one.chains._strict["orders"].rules
        assert rules is not None
        rules.tenure.next = lambda _: None  # it does not go on with the role
        await one.clock.advance(10)
        assert two.chains.sends("orders")

    with bus.sender("orders") as sender:
        sender.send(1)
        net.run(move())
        sender.send(2)
        sender.send(3)
        assert net.asked[-1] == "POST two/v1/messages"
    assert net.held() == [1, 2, 3]
    assert net.asked[-1].startswith("DELETE two/")


def test_what_can_never_be_accepted_is_said_as_it_is(net: Network, bus: Bus) -> None:
    async def limit() -> None:
        await net.worlds["one"].destination(
            "orders", ordering=Ordering.STRICT, transport=TransportName.KAFKA, max_bytes=10
        )

    with bus.sender("orders") as sender:
        net.run(limit())
        with pytest.raises(MessageTooLarge):
            sender.send(b"x" * 11)
        with pytest.raises(InvalidMessage):
            sender.send(1, headers={"bus-key": "x"})
        sender.send(1)
    assert (bus.rejected, net.held()) == (1, [1])


def test_what_is_no_strict_order_has_no_lease(net: Network, bus: Bus) -> None:
    net.run(net.worlds["one"].destination("plain", "billing"))
    with pytest.raises(InvalidMessage, match="strict order"):
        bus.sender("plain", wait=10)
    with pytest.raises(InvalidDestination):
        bus.sender("nothing", wait=10)
    with pytest.raises(InvalidDestination):
        bus.sender("a/b")
    bus.close()
    assert homes(bus._options.root) == []


def test_without_a_receiver_there_is_no_lease(net: Network, bus: Bus) -> None:
    net.gone |= {"one", "two"}
    with pytest.raises(ReceiverUnavailable):
        bus.sender("orders")
    net.gone.clear()
    with bus.sender("orders", wait=20) as sender:
        sender.send(1)


def test_a_sender_ends_with_its_bus_and_the_lease_with_it(net: Network, bus: Bus) -> None:
    sender = bus.sender("orders")
    sender.send(1)
    bus.close()
    assert net.owner() == ""
    with pytest.raises(SpoolClosed):
        sender.send(2)


def test_a_sender_whose_disk_failed_sends_no_more(net: Network, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = bus.sender("orders")
    sender.send(1)
    outbox = bus.present()
    assert outbox is not None

    def fail(_: object) -> None:
        raise SpoolFailed("the disk is gone")

    monkeypatch.setattr(outbox._spool, "append", fail)
    with pytest.raises(SpoolFailed):
        sender.send(2)
    with pytest.raises(NotLeader, match="disk failed"):
        sender.send(3)
    with bus.sender("orders", wait=30) as again:
        again.send(4)
    assert net.held() == [1, 4]


def test_who_waits_is_told_when_sending_ends(net: Network, bus: Bus) -> None:
    net.set_copies(1)
    sender, raised = bus.sender("orders"), list[Unconfirmed]()

    def send() -> None:
        try:
            sender.send(1, timeout=None)
        except Unconfirmed as error:
            raised.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    until(lambda: bus.pending)
    bus.close(0)
    thread.join()
    assert raised


def test_a_forked_child_has_not_the_lease(net: Network, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = bus.sender("orders")
    outbox = bus.present()
    assert outbox is not None
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "pid", -1)
        with pytest.raises(NotLeader, match="forked"):
            sender.send(1)
        assert not sender.close(0)
    assert net.owner() != ""
