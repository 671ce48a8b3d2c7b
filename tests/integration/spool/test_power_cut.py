"""Real power cuts: ext4 on a loop device, shut down under a writer without flushing its journal."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.harness.loop_disk import MIB, LoopDisk, loop_disk
from tests.integration.spool.history import History
from tests.integration.spool.processes import ROOT, command, reopened


def cut(disk: LoopDisk, number: int, driver: str, *synchronous: str) -> list[str]:
    """Let a writer run for a while on the disk, cut the power, and return what is wrong afterwards."""
    directory = disk.path / f"spool-{number}"
    arguments = command(directory, driver, number, 100_000, *synchronous)
    writer = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    lines = []
    last = Random(number).randint(1, 150)
    while sum(line.startswith("ok") for line in lines) < last:
        lines.append(writer.stdout.readline())
        assert lines[-1], "the writer ended by itself"
    writer.send_signal(signal.SIGSTOP)
    disk.cut_power()
    writer.kill()
    lines += writer.stdout.readlines()
    writer.stdout.close()
    writer.wait()
    disk.unmount()
    disk.mount()
    return reopened(directory, History.parse(lines))


@pytest.mark.parametrize("driver", ["blocking", "concurrent"])
def test_nothing_acknowledged_is_lost_with_the_power(tmp_path: Path, driver: str) -> None:
    with loop_disk(tmp_path, 64 * MIB) as disk:
        for number in range(3):
            assert cut(disk, number, driver) == []


def test_a_writer_that_never_syncs_is_caught(tmp_path: Path) -> None:
    with loop_disk(tmp_path, 64 * MIB) as disk:
        assert any(cut(disk, number, "blocking", "OFF") for number in range(5))


@pytest.mark.proof
@pytest.mark.parametrize("driver", ["blocking", "concurrent"])
def test_thirty_power_cuts(tmp_path: Path, driver: str) -> None:
    with loop_disk(tmp_path, 256 * MIB) as disk:
        for number in range(30):
            assert cut(disk, number, driver) == []
