"""Directories of processes that are gone: adopted, emptied, removed."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from bus.client.sending.orphans import MOST_ADOPTED
from bus.client.spooling import home
from bus.client.spooling.lanes import CONSUMER
from bus.errors import SpoolFailed
from bus.spool import BlockingSpool, is_live
from bus.spool import Options as SpoolOptions
from tests.unit.client.world import World, accepted, refused, world


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, sweep_seconds=1000) as made:
        yield made


def orphan(here: World, root: Path, count: int = 1, destination: str = "a", source: str = "old") -> Path:
    spool = home.open_home(root, source, SpoolOptions(consumers=(CONSUMER,)))
    for _ in range(count):
        here.send(destination, spool=spool)
    spool.close()
    return spool.directory


def test_what_a_dead_process_left_is_sent_and_its_directory_removed(here: World, tmp_path: Path) -> None:
    directory = orphan(here, tmp_path, 3)
    here.work()
    assert len(here.sent()) == 3
    assert not directory.exists()
    assert here.spool.directory.exists()


def test_a_live_directory_is_left_alone(here: World, tmp_path: Path) -> None:
    other = home.open_home(tmp_path, "live", SpoolOptions(consumers=(CONSUMER,)))
    here.send(spool=other)
    here.work()
    assert here.sent() == []
    other.close()
    here.time.elapsed += 2000
    here.work()
    assert len(here.sent()) == 1


def test_only_the_sdks_own_directories_are_adopted(here: World, tmp_path: Path) -> None:
    other = tmp_path / "receiver"
    spool = home.adopt(other, SpoolOptions(consumers=(CONSUMER,)))
    assert spool is not None
    here.send(spool=spool)
    spool.close()
    (tmp_path / "notes-1-00000000.sdk").mkdir()  # made a moment ago, not locked yet
    (tmp_path / "file-1-00000000.sdk.txt").touch()
    here.work()
    assert here.sent() == []
    assert (tmp_path / "notes-1-00000000.sdk").exists()


def test_two_processes_never_adopt_the_same_directory(tmp_path: Path) -> None:
    with world(tmp_path, sweep_seconds=1000) as one, world(tmp_path, sweep_seconds=1000) as two:
        directory = orphan(one, tmp_path, 2)
        one.answer = lambda _: httpx.Response(503)
        one.work()
        assert is_live(directory)
        two.work()
        assert two.requests == []


def test_rejected_records_of_a_dead_process_are_kept_by_the_adopter(here: World, tmp_path: Path) -> None:
    directory = orphan(here, tmp_path, 2)
    here.judge = lambda line: refused(line, 404)
    here.work()
    assert here.counts() == (0, 2)
    assert not directory.exists()
    assert [status for status, _, _ in here.reasons()] == [404, 404]


def test_adoption_is_bounded_and_goes_on(here: World, tmp_path: Path) -> None:
    for _ in range(MOST_ADOPTED + 3):
        orphan(here, tmp_path)
    here.work()
    for _ in range(5):
        here.time.elapsed += 1000
        here.work()
    assert len(here.sent()) == MOST_ADOPTED + 3
    assert home.homes(tmp_path) == [here.spool.directory]


def test_own_messages_are_sent_beside_a_large_inheritance(here: World, tmp_path: Path) -> None:
    orphan(here, tmp_path, 2500)
    own = here.send()
    here.daemon.step()
    assert own in here.sent()[:1001]
    here.work()
    assert len(here.sent()) == 2501


def test_a_damaged_orphan_is_sent_as_far_as_it_can_be_read_and_kept(here: World, tmp_path: Path) -> None:
    directory = orphan(here, tmp_path, 3)
    db = apsw.Connection(str(directory / "spool.db"))
    db.execute("UPDATE record SET payload = x'00' WHERE position = (SELECT min(position) FROM record)")
    db.close()
    here.work()
    assert len(here.sent()) == 2
    assert directory.exists()


def test_an_orphan_whose_disk_fails_is_given_back_and_tried_again(
    here: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directory = orphan(here, tmp_path)
    claim = BlockingSpool.claim

    def fail(self: BlockingSpool, *arguments: Any) -> Any:
        if self.directory == directory:
            raise SpoolFailed("the disk failed")
        return claim(self, *arguments)

    monkeypatch.setattr(BlockingSpool, "claim", fail)
    own = here.send()
    here.work()
    assert here.sent() == [own]
    assert not is_live(directory)
    assert "the disk failed" in caplog.text
    monkeypatch.setattr(BlockingSpool, "claim", claim)
    here.time.elapsed += 2000
    here.work()
    assert len(here.sent()) == 2
    assert not directory.exists()


def test_an_orphan_that_cannot_be_opened_is_left(
    here: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise SpoolFailed("unreadable")

    directory = orphan(here, tmp_path)
    monkeypatch.setattr(home, "adopt", fail)
    here.work()
    assert directory.exists()
    assert "unreadable" in caplog.text


def test_rejected_records_stay_where_they_are_when_there_is_no_room(tmp_path: Path) -> None:
    with world(tmp_path, spool_limit=100_000, sweep_seconds=1000) as here:
        spool = home.open_home(tmp_path, "old", SpoolOptions(consumers=(CONSUMER,)))
        here.send(body=b"x" * 90_000, spool=spool)
        spool.close()
        here.judge = lambda line: refused(line, 404)
        here.work()
        assert here.counts() == (0, 0)
        assert spool.directory.exists()


def bodies(here: World) -> list[str]:
    return [
        f"{line['destination']}{base64.b64decode(line['body_base64']).decode()}"
        for each in here.requests
        for line in each
    ]


def leave(here: World, root: Path, *named: str, source: str = "") -> None:
    """Leave messages as a process does that is gone."""
    spool = home.open_home(root, source, SpoolOptions(consumers=(CONSUMER,)))
    for name in named:
        here.send(name[0], body=name[1:].encode(), spool=spool)
    spool.close()


def test_what_an_earlier_process_left_for_a_destination_goes_first(here: World, tmp_path: Path) -> None:
    here.time.elapsed = 5.0
    leave(here, tmp_path, "a3", "a4", "b1")
    here.time.elapsed = 1.0
    leave(here, tmp_path, "a1", "a2")
    here.time.elapsed = 9.0
    for name in ("a5", "c1", "a6"):
        here.send(name[0], body=name[1:].encode())
    here.work()
    assert [one for one in bodies(here) if one[0] == "a"] == ["a1", "a2", "a3", "a4", "a5", "a6"]
    assert sorted(bodies(here))[-2:] == ["b1", "c1"]


def test_it_stays_first_while_the_receiver_does_not_take_it(here: World, tmp_path: Path) -> None:
    leave(here, tmp_path, "a1", "a2")
    here.send("a", body=b"3")
    here.send("c", body=b"1")
    here.judge = lambda line: refused(line, 429) if line["destination"] == "a" else accepted(line)
    for _ in range(3):
        here.work()
        here.time.elapsed += 40
    assert "a3" not in bodies(here)
    assert "c1" in bodies(here)
    here.judge = accepted
    here.requests.clear()
    here.work()
    assert bodies(here) == ["a1", "a2", "a3"]


def test_another_source_holds_up_nothing(here: World, tmp_path: Path) -> None:
    leave(here, tmp_path, "a1", source="other")
    here.send("a", body=b"2")
    here.judge = lambda line: refused(line, 429) if base64.b64decode(line["body_base64"]) == b"1" else accepted(line)
    here.work()
    assert "a2" in bodies(here)


def test_what_cannot_be_adopted_yet_goes_before_as_well(here: World, tmp_path: Path) -> None:
    for number in range(MOST_ADOPTED + 3):
        here.time.elapsed = float(number)
        leave(here, tmp_path, f"a{number:02}")
    here.send("a", body=b"99")
    for _ in range(4):
        here.work()
        here.time.elapsed += 2
    assert bodies(here)[-1] == "a99"
    assert len(bodies(here)) == MOST_ADOPTED + 4


def test_after_an_outage_all_goes_on_in_order(here: World, tmp_path: Path) -> None:
    leave(here, tmp_path, "a1", "a2")
    here.send("a", body=b"3")
    here.answer = lambda _: httpx.Response(503)
    here.work()
    assert len(here.requests) == 1
    here.answer = here.judged
    here.requests.clear()
    here.time.elapsed += 60
    here.work()
    assert bodies(here) == ["a1", "a2", "a3"]


@pytest.mark.parametrize("source", ["", "other"])
def test_many_that_are_refused_for_now_stop_no_other_destination(here: World, tmp_path: Path, source: str) -> None:
    for number in range(MOST_ADOPTED + 3):
        here.time.elapsed = float(number)
        leave(here, tmp_path, f"a{number:02}", source=source)
    here.time.elapsed = 50.0
    leave(here, tmp_path, "b1")
    here.send("b", body=b"2")
    here.send("c", body=b"1")
    here.judge = lambda line: refused(line, 503) if line["destination"] == "a" else accepted(line)
    for _ in range(4):
        here.work()
        here.time.elapsed += 1000
    assert [one for one in bodies(here) if one[0] in "bc"].count("c1") == 1
    assert [one for one in bodies(here) if one[0] == "b"] == ["b1", "b2"]
