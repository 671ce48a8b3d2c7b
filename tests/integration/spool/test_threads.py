"""Many threads on one blocking spool: they share commits, and nobody's record is lost or given twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from bus.errors import SpoolClosed
from bus.spool import BlockingSpool, Options
from bus.spool.file import SpoolFile
from tests.integration.spool.history import number_of, record

THREADS = 8
EACH = 60


class Gate(SpoolFile):
    """Counts commits, and holds the first appending one until many others wait for the next."""

    commits: ClassVar[int] = 0
    hold: ClassVar[threading.Event] = threading.Event()

    def commit(self) -> None:
        type(self).commits += 1
        super().commit()
        self.hold.wait(60)


def test_threads_share_commits(tmp_path: Path) -> None:
    Gate.hold.set()
    with BlockingSpool(tmp_path, Options(file_class=Gate)) as spool, ThreadPoolExecutor(THREADS) as pool:
        Gate.hold.clear()
        before = Gate.commits
        calls = [pool.submit(spool.append, [record(number)]) for number in range(THREADS)]
        while len(spool._engine.gathered.entries) < THREADS - 1:
            threading.Event().wait(0.001)
        Gate.hold.set()
        positions = [call.result() for call in calls]
        assert Gate.commits - before == 2
    assert len({position for (position,) in positions}) == THREADS


def test_producers_and_consumers(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path) as spool:
        seen: list[int] = []
        done = threading.Event()

        def produce(first: int) -> None:
            for number in range(first, first + EACH):
                spool.append([record(number)])

        def consume() -> None:
            while not done.is_set():
                if spool.wait("send", timeout=0.05):
                    for lane in spool.lanes("send"):
                        records = spool.claim("send", 5, lane)
                        seen.extend(number_of(found.payload) for found in records)
                        spool.ack("send", records)
                        if len(seen) >= THREADS * EACH:
                            done.set()

        with ThreadPoolExecutor(THREADS + 3) as pool:
            work = [pool.submit(produce, first * EACH) for first in range(THREADS)]
            work += [pool.submit(consume) for _ in range(3)]
            for item in work:
                item.result(60)
        assert sorted(seen) == list(range(THREADS * EACH))
        spool.settle()
        assert spool.stats()[:2] == (0, 0)


def test_wait_ends_in_time_and_with_close(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path)
    assert not spool.wait("send", timeout=0.001)
    spool.append([record(0)])
    assert spool.wait("send", timeout=0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(spool.wait, "send", "no-such-lane")
        while not spool._turn._waiters:  # type: ignore[attr-defined]
            threading.Event().wait(0.001)
        spool.close()
        with pytest.raises(SpoolClosed):
            waiting.result(10)


def test_wait_makes_acks_durable(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path)
    spool.append([record(0)])
    spool.ack("send", spool.claim("send", 1, "a"))
    spool.wait("send", timeout=0.001)
    spool._engine.crash()
    with BlockingSpool(tmp_path) as spool:
        assert spool.stats().records == 0
