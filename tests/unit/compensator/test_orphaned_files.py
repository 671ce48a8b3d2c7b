"""Files of dead processes beside their queues: trace events are sent, and an empty directory is removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bus.bootstrap.data_format import note_format
from bus.bootstrap.identity import claim_name
from bus.domain.tracing.events import Stage, TraceEvent
from bus.errors import EventsUnavailable
from bus.events.gathering import EventBuffer
from bus.ports.spool import NewRecord
from bus.spool import AsyncSpool, Options
from bus.testing.clock import NOON
from bus.testing.events import MemoryEvents
from bus.testing.writes import DESTINATION, message
from compensator.alarms.alarm_file import WatchFile
from compensator.sweeper.orphaned_files import OrphanedFiles


def told(folder: Path, name: str = "one-000001.open", *, torn: bool = False) -> bytes:
    """Leave a file of trace events behind; return its line."""
    gathering = EventBuffer("dispatcher", "node-1", NOON)
    gathering.add(TraceEvent(stage=Stage.SENT, at=NOON, id=message().id, destination=DESTINATION, bytes=1))
    block = gathering.close(NOON)
    assert block is not None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(block.line + b"\n" + (b'{"cut' if torn else b""))
    return block.line


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def service(data: Path, *, aside: bool = False) -> Path:
    """Leave the directory of a dispatcher behind whose queues were emptied and removed."""
    with claim_name(data, ["dispatcher"]):
        pass
    note_format(data, "1.0")
    await WatchFile(data).write(b"{}")
    (data / "configuration").mkdir()
    (data / "configuration" / "destinations.snapshot").touch()
    spool = await AsyncSpool.open(data / "quarantine", Options(consumers=("operator",)))
    if aside:
        await spool.append([NewRecord("kafka", b"no message", 1)])
    await spool.close()
    return data


async def test_trace_events_go_on_and_the_directory_is_removed_whole(tmp_path: Path) -> None:
    events, data = MemoryEvents(), await service(tmp_path / "dispatcher-2")
    lines = [told(data / "events", torn=True), told(data / "events", "one-000000.jsonl")]
    remains = OrphanedFiles(events)
    folder = remains.events_in(data)
    assert folder is not None
    assert not remains.remove(data)
    assert await remains.pass_on(folder) == 2
    assert sorted(block.line for block in events.forwarded) == sorted(lines)
    assert remains.remove(data)
    assert names(tmp_path) == set()


async def test_a_removal_that_was_cut_off_is_finished_with_the_next_one_of_that_name(tmp_path: Path) -> None:
    begun = (await service(tmp_path / "dispatcher-2")).rename(tmp_path / ".dispatcher-2.gone")
    shutil.rmtree(begun / "processes")
    assert OrphanedFiles(MemoryEvents()).remove(await service(tmp_path / "dispatcher-2"))
    assert names(tmp_path) == set()


async def test_what_is_not_taken_now_stays(tmp_path: Path) -> None:
    events, data = MemoryEvents(), await service(tmp_path / "dispatcher-2")
    told(data / "events")
    events.refusal = EventsUnavailable("later")
    with pytest.raises(EventsUnavailable):
        await OrphanedFiles(events).pass_on(data / "events")
    events.refusal = None
    assert await OrphanedFiles(events).pass_on(data / "events") == 1


async def test_a_file_that_cannot_be_read_stays_and_holds_up_no_other(tmp_path: Path) -> None:
    events, folder = MemoryEvents(), tmp_path / "events"
    told(folder)
    (folder / "another.jsonl").write_bytes(b'{"version": "of tomorrow"}\n')
    assert await OrphanedFiles(events).pass_on(folder) == 1
    assert [path.name for path in folder.iterdir()] == ["another.jsonl"]


async def test_without_a_sink_of_its_own_nothing_is_taken(tmp_path: Path) -> None:
    events = MemoryEvents()
    events.is_on = False
    told(tmp_path / "events")
    assert await OrphanedFiles(events).pass_on(tmp_path / "events") == 0
    assert len(list((tmp_path / "events").iterdir())) == 1


async def test_the_directory_of_one_that_lives_or_has_more_in_it_is_left_alone(tmp_path: Path) -> None:
    remains = OrphanedFiles(MemoryEvents())
    living, kept, aside = (
        await service(tmp_path / "living"),
        await service(tmp_path / "kept"),
        await service(tmp_path / "aside", aside=True),
    )
    (kept / "store").mkdir()
    (tmp_path / "nobodys").mkdir()
    told(living / "events")
    with claim_name(living, ["dispatcher"]):
        assert remains.events_in(living) is None
        (living / "events" / "one-000001.open").unlink()
        (living / "events").rmdir()
        assert not remains.remove(living)
    assert not any(remains.remove(each) for each in (kept, aside, tmp_path / "nobodys"))
    assert names(tmp_path) == {"living", "kept", "aside", "nobodys"}
    assert remains.remove(living)
