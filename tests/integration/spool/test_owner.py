"""One owner at a time, known to the kernel; and what a forked child may do (nothing)."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bus.errors import SpoolClosed, SpoolLocked
from bus.spool import AsyncSpool, BlockingSpool, is_live, owner
from tests.harness.waiting import wait_until
from tests.integration.spool.history import drain, record
from tests.integration.spool.processes import ROOT

HOLDER = """
import sys
from bus.spool import BlockingSpool
spool = BlockingSpool(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_another_process_is_named_and_its_death_frees(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        assert is_live(tmp_path)
        assert owner(tmp_path)["pid"] == holder.pid
        with pytest.raises(SpoolLocked, match=str(holder.pid)):
            BlockingSpool(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert not is_live(tmp_path)
        BlockingSpool(tmp_path).close()
        holder.kill()


async def test_a_second_spool_in_one_process_is_refused(tmp_path: Path) -> None:
    async with await AsyncSpool.open(tmp_path):
        with pytest.raises(SpoolLocked, match=str(os.getpid())):
            BlockingSpool(tmp_path)
        with pytest.raises(SpoolLocked):
            await AsyncSpool.open(tmp_path)
    BlockingSpool(tmp_path).close()


def test_asking_changes_nothing(tmp_path: Path) -> None:
    assert not is_live(tmp_path / "nowhere")
    assert not is_live(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert owner(tmp_path) == {}
    with BlockingSpool(tmp_path):
        assert is_live(tmp_path)
        assert set(owner(tmp_path)) == {"pid", "host", "started", "process_started"}
    assert not is_live(tmp_path)


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked child and return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 9
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path / "parent")
    spool.append([record(1)])

    def child() -> None:
        assert spool.inherited
        for call in (lambda: spool.append([record(2)]), lambda: spool.claim("send", 1, "a"), spool.settle, spool.stats):
            with pytest.raises(SpoolClosed, match="forked"):
                call()
        spool.close()
        with BlockingSpool(tmp_path / "child") as own:
            own.append([record(3)])

    assert in_child(child) == 0
    assert not spool.inherited
    spool.append([record(4)])
    assert sorted(drain(spool)) == [1, 4]
    spool.append([record(5)])
    spool.close()
    with BlockingSpool(tmp_path / "parent") as again:
        assert drain(again) == [5]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_drops_the_spool_harms_nothing(tmp_path: Path) -> None:
    spools = [BlockingSpool(tmp_path)]
    spools[0].append([record(1)])

    def child() -> None:
        with pytest.raises(SpoolClosed):
            spools[0].settle()
        spools.clear()
        gc.collect()

    assert in_child(child) == 0
    assert is_live(tmp_path)
    spools[0].append([record(2)])
    assert sorted(drain(spools[0])) == [1, 2]
    spools[0].close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_keep_the_directory(tmp_path: Path) -> None:
    """The child lives on; the parent's end frees the directory all the same."""
    spool = BlockingSpool(tmp_path)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    spool.close()
    wait_until(lambda: not is_live(tmp_path), within=30, what="the child lets go of what it was born with")
    BlockingSpool(tmp_path).close()
    os.close(writer)
    os.waitpid(pid, 0)
