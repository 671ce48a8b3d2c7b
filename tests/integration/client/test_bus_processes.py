"""The SDK over several processes: forks, exits, kills, adoption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bus import Bus
from bus.client.spooling.home import homes
from tests.harness.waiting import wait_until
from tests.integration.client.fake_receiver import FakeReceiver

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def receiver() -> Iterator[FakeReceiver]:
    with FakeReceiver() as made:
        yield made


def fork(work: Callable[[], object]) -> int:
    """Run ``work`` in a forked child and return its exit code; the child ends without clean-up, as workers do."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            print(f"in the child: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + 60
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -1
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(found[1])


def ids_to(receiver: FakeReceiver, destination: str) -> list[str]:
    return [line["id"] for line in receiver.taken if line["destination"] == destination]


def test_a_forked_child_gets_a_spool_and_a_daemon_of_its_own(receiver: FakeReceiver, tmp_path: Path) -> None:
    with Bus(receiver.url, spool=tmp_path) as bus:
        bus.send("parent", 1)

        def work() -> None:
            assert bus.pending == 0
            bus.send("child", 1)
            assert len(homes(tmp_path)) == 2
            assert bus.flush(60)

        assert fork(work) == 0
        bus.send("parent", 2)
        assert bus.flush(60)
    assert sorted(line["destination"] for line in receiver.taken) == ["child", "parent", "parent"]


def test_forks_in_the_middle_of_everything_hang_nothing(tmp_path: Path) -> None:
    """Other threads hold SQLite's, the import system's and the spool's locks while the process forks."""
    stop = threading.Event()
    with FakeReceiver() as receiver, Bus(receiver.url, spool=tmp_path, sweep_seconds=0.2) as bus:
        sent: list[str] = []

        def chatter() -> None:
            while not stop.is_set():
                sent.append(bus.send("parent", 1))

        threads = [threading.Thread(target=chatter) for _ in range(3)]
        for thread in threads:
            thread.start()
        codes = [fork(lambda: bus.send("child", b"x")) for _ in range(25)]
        stop.set()
        for thread in threads:
            thread.join()
        assert codes == [0] * 25
        assert bus.flush(60)
        receiver.wait(lambda: len(set(ids_to(receiver, "child"))) == 25)
        wait_until(lambda: len(homes(tmp_path)) == 1, within=60, what="empty directories removed")
    # A child may end between the receiver's answer and its own note of it: that one is sent again, by who adopts it.
    assert sorted(ids_to(receiver, "parent")) == sorted(sent)


PRODUCER = """
import sys
from bus import Bus
bus = Bus(sys.argv[1], spool=sys.argv[2], source="producer")
for n in range(int(sys.argv[3])):
    print(bus.send("a", {"n": n}), flush=True)
if len(sys.argv) > 4:
    sys.stdin.read()
"""


def produce(url: str, root: Path, count: int, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PRODUCER, url, str(root), str(count), *more],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_script_that_just_ends_delivers_and_exits_at_once(receiver: FakeReceiver, tmp_path: Path) -> None:
    process = produce(receiver.url, tmp_path, 50)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert set(out.split()) == receiver.ids()
    assert homes(tmp_path) == []


def test_a_script_without_a_receiver_exits_at_once_and_keeps_all(tmp_path: Path) -> None:
    begin = time.monotonic()
    process = produce("http://127.0.0.1:9", tmp_path, 5)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert time.monotonic() - begin < 30
    assert len(out.split()) == 5
    assert len(homes(tmp_path)) == 1


def test_what_killed_processes_left_is_sent_by_the_next(tmp_path: Path) -> None:
    with FakeReceiver() as receiver:
        ids: set[str] = set()
        for _ in range(3):
            process = produce("http://127.0.0.1:9", tmp_path, 100_000)
            assert process.stdout is not None
            for _ in range(40):
                ids.add(process.stdout.readline().strip())
            process.kill()
            rest = process.stdout.read()  # communicate() would leave out what readline() has buffered
            process.communicate()
            ids |= {line for line in rest.split("\n")[:-1] if line}
        assert len(homes(tmp_path)) == 3
        with Bus(receiver.url, spool=tmp_path) as heir:
            heir.start()
            receiver.wait(lambda: ids <= receiver.ids())
            wait_until(lambda: len(homes(tmp_path)) == 1, within=60, what="empty directories removed")
            assert heir.flush(60)
        assert len(receiver.taken) == len(receiver.ids())
        assert len(receiver.ids() - ids) <= 3  # stored, but killed before it could say so


def test_a_process_killed_in_the_middle_of_sending_loses_nothing(tmp_path: Path) -> None:
    with FakeReceiver() as receiver:
        process = produce(receiver.url, tmp_path, 100_000)
        receiver.wait(lambda: len(receiver.taken) > 100)
        process.kill()
        ids = {line for line in process.communicate()[0].split("\n")[:-1] if line}
        with Bus(receiver.url, spool=tmp_path) as heir:
            heir.start()
            receiver.wait(lambda: ids <= receiver.ids())


def test_a_large_backlog_is_sent_in_bounded_memory(tmp_path: Path) -> None:
    with FakeReceiver() as receiver:
        with Bus("http://127.0.0.1:9", spool=tmp_path) as bus:
            records = [bus.prepare("a", b"x" * 20_000) for _ in range(100)]
            for _ in range(30):
                bus.store(records)
        del records
        size = sum(path.stat().st_size for path in tmp_path.rglob("*"))
        assert size > 75 << 20
        process = subprocess.Popen(
            [sys.executable, "-c", HEIR, receiver.url, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE
        )
        largest = 0
        watched = psutil.Process(process.pid)
        while len(receiver.taken) < 3000:
            largest = max(largest, watched.memory_info().rss)
            assert process.poll() is None
            time.sleep(0.01)
        process.communicate(b"")
        assert homes(tmp_path) == []
        assert largest < 160 << 20, largest >> 20


HEIR = """
import sys
from bus import Bus
bus = Bus(sys.argv[1], spool=sys.argv[2], source="heir")
bus.start()
sys.stdin.read()
"""
