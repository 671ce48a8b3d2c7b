"""The right to write goes round between those who want it, and waiting for it has an end."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bus.errors import StoreUnavailable
from bus.stores.sqlite import locking
from bus.stores.sqlite.locking import WriteLock, alone

LONG = 60.0  # seconds that no wait of a test may come to
AT_ONCE = LONG / 2


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "PATIENCE", 0.3)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "PATIENCE", LONG)


@pytest.fixture
def courteous(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "_COURTESY", LONG)


def held_by_another(path: Path) -> int:
    """Lock a file as another process would; closing the handle frees it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


@pytest.mark.usefixtures("patient")
async def test_one_at_a_time_has_the_turn_inside_a_process_and_between_them(tmp_path: Path) -> None:
    turns = [WriteLock(tmp_path, "x"), WriteLock(tmp_path, "x")]
    having = 0

    async def work(turn: WriteLock) -> None:
        nonlocal having
        for _ in range(20):
            async with turn.held():
                having += 1
                await asyncio.sleep(0)
                assert having == 1
                having -= 1

    await asyncio.gather(*(work(turn) for turn in turns for _ in range(3)))
    for turn in turns:
        turn.close()


@pytest.mark.usefixtures("patient", "courteous")
async def test_who_waits_comes_before_who_had_it(tmp_path: Path) -> None:
    """Both want it again at once; without the gate the one that frees it would take it again, every time."""
    order: list[int] = []

    async def work(number: int) -> None:
        turn = WriteLock(tmp_path, "x")
        while len(order) < 20:
            async with turn.held():
                order.append(number)
                await asyncio.sleep(0.01)
        turn.close()

    await asyncio.gather(work(0), work(1))
    changes = sum(one != other for one, other in zip(order[1:], order, strict=False))
    assert changes >= len(order) - 4


@pytest.mark.usefixtures("hurried")
async def test_waiting_ends(tmp_path: Path) -> None:
    handle = held_by_another(tmp_path / "x.lock")
    turn = WriteLock(tmp_path, "x")
    begin = time.monotonic()
    with pytest.raises(StoreUnavailable, match="x lock") as caught:
        async with asyncio.timeout(AT_ONCE), turn.held():
            pytest.fail("another process has it")
    assert time.monotonic() - begin >= locking.PATIENCE
    assert caught.value.hint
    os.close(handle)
    async with turn.held():
        pass
    turn.close()


@pytest.mark.usefixtures("patient")
async def test_the_loop_goes_on_while_one_waits(tmp_path: Path) -> None:
    handle = held_by_another(tmp_path / "x.lock")
    turn = WriteLock(tmp_path, "x")
    waiting = asyncio.create_task(turn.held().__aenter__())
    async with asyncio.timeout(AT_ONCE):
        for _ in range(50):
            await asyncio.sleep(0.002)
        assert not waiting.done()
        os.close(handle)
        await waiting
    turn.close()


@pytest.mark.usefixtures("patient", "courteous")
async def test_a_cancelled_wait_leaves_nothing_locked(tmp_path: Path) -> None:
    handle = held_by_another(tmp_path / "x.lock")
    turn, other = WriteLock(tmp_path, "x"), WriteLock(tmp_path, "x")
    waiting = asyncio.create_task(turn.held().__aenter__())
    await asyncio.sleep(0)  # it runs until it has to wait: inside the gate, before the lock
    waiting.cancel()
    await asyncio.wait([waiting])
    os.close(handle)
    for one in (other, turn):
        async with asyncio.timeout(AT_ONCE), one.held():
            pass
    turn.close()
    other.close()


@pytest.mark.usefixtures("patient")
async def test_a_gate_that_stays_closed_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a process was stopped while it waited."""
    monkeypatch.setattr(locking, "_COURTESY", 0.1)
    handle = held_by_another(tmp_path / "x.gate")
    turn = WriteLock(tmp_path, "x")
    async with asyncio.timeout(AT_ONCE), turn.held():
        pass
    turn.close()
    os.close(handle)


@pytest.mark.usefixtures("patient")
def test_alone_keeps_threads_and_processes_apart(tmp_path: Path) -> None:
    inside = 0

    def work() -> None:
        nonlocal inside
        for _ in range(20):
            with alone(tmp_path / "lock"):
                inside += 1
                time.sleep(0.0005)
                assert inside == 1
                inside -= 1

    failures: list[threading.ExceptHookArgs] = []
    threading.excepthook, before = failures.append, threading.excepthook
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    threading.excepthook = before
    assert not failures
    script = (
        f"import fcntl, os; fcntl.flock(os.open({str(tmp_path / 'lock')!r}, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    )
    with alone(tmp_path / "lock"):
        assert subprocess.run([sys.executable, "-c", script], stderr=subprocess.DEVNULL, check=False).returncode
    assert not subprocess.run([sys.executable, "-c", script], check=False).returncode


@pytest.mark.usefixtures("hurried")
def test_alone_gives_up_in_time(tmp_path: Path) -> None:
    handle = held_by_another(tmp_path / "lock")
    with pytest.raises(StoreUnavailable), alone(tmp_path / "lock"):
        pytest.fail("another process has it")
    os.close(handle)
