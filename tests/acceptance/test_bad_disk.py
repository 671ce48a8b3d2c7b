"""Damaged files and a full disk: the bus says so, and keeps what it acknowledged."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path

import httpx
import pytest

from bus import Bus
from tests.harness.bus_process import BusProcess
from tests.harness.loop_disk import MIB, loop_disk
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

DISK = 1024 * MIB
FULL = 507


def hold_messages(bus: BusProcess, subscriber: SubscriberProcess, bodies: list[bytes]) -> list[str]:
    """Send messages to a paused subscription, so that they stay on disk; return their ids."""
    bus.admin.destination("d")
    bus.admin.subscription("d", "s", subscriber.url("/s"), paused=True)
    return [bus.admin.send("d", body).raise_for_status().json()["id"] for body in bodies]


def spool_files(data: Path) -> list[Path]:
    """Return the files of local queues below a data directory: all that are not the store's."""
    return [path for path in data.rglob("*") if path.is_file() and "store" not in path.relative_to(data).parts]


def flip(path: Path, marker: bytes) -> int:
    """Change a byte inside every place where ``marker`` is; return how many."""
    content = path.read_bytes()
    path.write_bytes(content.replace(marker, marker[:-1] + bytes([marker[-1] ^ 1])))
    return content.count(marker)


def damage_counted(bus: BusProcess) -> bool:
    """Whether the bus says that it set something aside."""
    spools = bus.admin.call("GET", "/api/v1/spools").raise_for_status().json()
    return any(_number(spool, "damaged", "quarantined") > 0 for spool in spools["items"])


def _number(document: dict[str, object], *names: str) -> float:
    return sum(float(str(value)) for name, value in document.items() if name in names and value is not None)


def test_a_damaged_record_is_set_aside_and_the_others_arrive(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    marker = f"marker-{uuid.uuid4().hex}".encode()
    bodies = [b'{"seq":%d,"text":"fine"}' % seq for seq in range(20)]
    bodies.insert(10, b'{"seq":99,"text":"%b"}' % marker)
    ids = hold_messages(bus, subscriber, bodies)
    assert bus.stop() == 0
    assert sum(flip(path, marker) for path in spool_files(bus.data)), "the message is in no spool file"
    bus.start()
    bus.admin.pause("d", "s", paused=False)
    wait_until(lambda: {*range(20)} <= {call.seq for call in subscriber.calls()}, within=60, what="the other messages")
    wait_until(lambda: damage_counted(bus), within=60, what="the damage is counted")
    sound = {message_id: hashlib.sha256(body).hexdigest() for message_id, body in zip(ids, bodies, strict=True)}
    assert all(call.sha256 == sound[call.id] for call in subscriber.calls())


@pytest.mark.parametrize("how", ["zeroed", "cut", "garbage"])
def test_a_ruined_spool_file_does_not_stop_the_bus(bus: BusProcess, subscriber: SubscriberProcess, how: str) -> None:
    hold_messages(bus, subscriber, [b'{"seq":1,"text":"held"}'])
    assert bus.stop() == 0
    files = [path for path in spool_files(bus.data) if path.stat().st_size > 4096]
    assert files
    for path in files:
        ruin(path, how)
    bus.start()
    bus.admin.pause("d", "s", paused=False)
    bus.admin.send("d", b'{"seq":2,"text":"new"}').raise_for_status()
    wait_until(lambda: 2 in {call.seq for call in subscriber.calls()}, within=60, what="a new message")
    wait_until(
        lambda: damage_counted(bus) or 1 in {call.seq for call in subscriber.calls()},
        within=60,
        what="the held message is saved, or its loss is counted",
    )


def ruin(path: Path, how: str) -> None:
    """Destroy a file in one of three ways."""
    content = path.read_bytes()
    changed = {"zeroed": bytes(4096) + content[4096:], "cut": content[:100], "garbage": b"\xa5" * len(content)}
    path.write_bytes(changed[how])


def test_a_full_disk_refuses_and_keeps_what_was_acknowledged(tmp_path: Path, subscriber: SubscriberProcess) -> None:
    with loop_disk(tmp_path, DISK) as disk, BusProcess(disk.path / "data", log=tmp_path / "bus.log") as bus:
        bus.admin.destination("d")
        bus.admin.subscription("d", "s", subscriber.url("/s"))
        acknowledged = send_some(bus, 0, 50)
        disk.fill(leave=8 * MIB)
        acknowledged |= send_until_refused(bus)
        disk.empty()
        wait_until(lambda: try_send(bus, 5_000), within=60, what="accepted again")
        acknowledged |= send_some(bus, 6_000, 50) | {5_000}
        wait_until(
            lambda: acknowledged <= {call.seq for call in subscriber.calls()}, within=60, what="all acknowledged"
        )
        assert bus.stop() == 0


def test_what_a_producers_disk_refuses_is_delivered_and_told(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    bus.admin.destination("d")
    bus.admin.subscription("d", "s", subscriber.url("/s"))
    with Bus(
        bus.url, spool=bus.data / "producer", source="shop", disk_reserve=1 << 62, fallback_timeout=60
    ) as producer:
        given = producer.send("d", {"seq": 1})
    wait_until(lambda: [call.id for call in subscriber.calls()] == [given], within=60, what="delivered")
    assert bus.admin.metric('bus_messages_fallback_total{destination="d",source="shop"}') == 1


def send_some(bus: BusProcess, first: int, count: int) -> set[int]:
    """Send messages that must be accepted; return their numbers."""
    assert all(try_send(bus, seq) for seq in range(first, first + count))
    return set(range(first, first + count))


def send_until_refused(bus: BusProcess) -> set[int]:
    """Send until the receiver says that its spool is full; return the numbers that it took before."""
    taken: set[int] = set()

    def refused() -> bool:
        seq = 1_000 + len(taken)
        if try_send(bus, seq):
            taken.add(seq)
            return False
        return True

    wait_until(refused, within=60, what="507", every=0.005)
    return taken


def try_send(bus: BusProcess, seq: int) -> bool:
    """Send a message of 16 KiB; False when the disk is full, any other refusal is an error."""
    answer = bus.admin.send("d", b'{"seq":%d,"pad":"%b"}' % (seq, b"x" * 16_384))
    if answer.status_code == FULL:
        assert answer.headers["content-type"].startswith("application/problem+json")
        return False
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    return True
