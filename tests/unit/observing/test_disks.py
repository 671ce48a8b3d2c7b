"""The disks of a process: what is measured, told, kept over a restart, and left out when nobody answers."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from bus.observing.disks import SAMPLES, DiskWatch
from bus.telemetry import metrics
from bus.testing.clock import ManualClock

MINUTE = 60.0


def watch(clock: ManualClock, *directories: Path) -> DiskWatch:
    return DiskWatch(directories, lambda total: total // 100, clock)


async def passing(clock: ManualClock, found: DiskWatch, minutes: int) -> None:
    """Let a watch run for some minutes."""
    running = asyncio.create_task(found.run())
    for _ in range(minutes):
        await _threads()
        await clock.advance(MINUTE)
    await _threads()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def _threads() -> None:
    for _ in range(3):
        await asyncio.sleep(0.005)


def test_it_tells_what_is_free_of_what_may_be_used(tmp_path: Path) -> None:
    clock = ManualClock()
    found = watch(clock, tmp_path)
    found.step()
    (one,) = found.figures()
    usage = shutil.disk_usage(tmp_path)
    assert one.path == str(tmp_path)
    assert one.device == tmp_path.stat().st_dev
    assert one.free == pytest.approx(usage.free, rel=0.05)
    assert one.free < one.total <= usage.total
    assert one.reserve == usage.total // 100
    assert one.full_in is None


def test_only_the_disk_of_the_data_directory_keeps_a_reserve(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    found = watch(ManualClock(), tmp_path, tmp_path / "store")
    found.step()
    assert [bool(one.reserve) for one in found.figures()] == [True, False]


async def test_a_directory_that_is_gone_is_told_of_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory, clock = tmp_path / "data", ManualClock()
    directory.mkdir()
    found = watch(clock, directory)
    found.step()
    directory.rmdir()
    found.step()
    found.step()
    assert found.figures()
    await clock.advance(6 * MINUTE)
    assert not found.figures()
    assert caplog.text.count("what is free on disk is not known") == 1


async def test_what_was_measured_is_there_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    await passing(clock, watch(clock, tmp_path), 7)
    again = watch(clock, tmp_path)
    await passing(clock, again, 1)
    (known,) = again._known.values()
    assert len(known.samples) >= 6


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x81\xa1a\x01"])
async def test_a_file_that_cannot_be_read_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / SAMPLES).write_bytes(content)
    clock = ManualClock()
    found = watch(clock, tmp_path)
    await passing(clock, found, 6)
    assert len(found.figures()) == 1
    assert (tmp_path / SAMPLES).read_bytes() != content


def test_they_are_metrics(tmp_path: Path) -> None:
    found = watch(ManualClock(), tmp_path)
    found.step()
    for meter in found.offers.meters:
        meter()()
    free = metrics.REGISTRY.get_sample_value("bus_disk_free_bytes", {"path": str(tmp_path)})
    assert free == found.figures()[0].free
