"""Settings of each of several processes of a port."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bus.serving.place import Place, left_behind
from bus.settings import Settings

URLS = ("http://10.0.0.1:41000", "http://10.0.0.1:41001")


def _place(number: int) -> Place:
    return Place(number, 8700, URLS, listener=3, own=4, passing=5, leash=6, ready=7)


def test_each_has_its_part_of_the_disk_and_all_have_one_store(tmp_path: Path) -> None:
    common = Settings(data=tmp_path, node="east", spool_limit=1 << 30)
    first, second = (_place(number).settings(common) for number in (0, 1))
    assert (first.data, second.data) == (tmp_path, tmp_path / "p1")
    assert first.store == second.store == f"sqlite:///{tmp_path / 'store'}"
    assert (first.node, second.node) == ("east.0", "east.1")
    assert first.spool_limit == second.spool_limit == 1 << 29


@pytest.mark.parametrize(
    ("advertised", "expected"),
    [
        ("", ""),
        ("http://bus-1.internal:8700", "http://bus-1.internal:41001"),
        ("http://[fd00::1]:8700", "http://[fd00::1]:41001"),
    ],
)
def test_the_others_reach_it_on_its_own_port(advertised: str, expected: str) -> None:
    assert _place(1).settings(Settings(advertise=advertised)).advertise == expected


def test_one_has_the_pages_and_all_deliver() -> None:
    assert set(_place(0).roles) - set(_place(1).roles) == {"admin", "alarms"}
    assert set(_place(1).roles) == {"receiver", "dispatcher", "compensator"}
    assert _place(1).siblings == URLS[:1]


def test_it_inherits_the_slots_and_the_sockets_by_which_all_are_woken() -> None:
    place = msgspec.structs.replace(_place(1), slots=(8, 9), wakeups=(10, 11))
    assert {8, 9, 10, 11} <= set(place.descriptors)
    old = msgspec.json.encode(_place(1)).replace(b',"slots":[],"wakeups":[]', b"")
    assert msgspec.json.decode(old, type=Place) == _place(1)


def test_a_process_learns_its_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Place.inherited() is None
    monkeypatch.setenv("PIER_PLACE", msgspec.json.encode(_place(1)).decode())
    assert Place.inherited() == _place(1)
    assert Place.inherited() is None


def test_directories_beyond_the_number_are_left_behind(tmp_path: Path) -> None:
    for name in ("p1", "p2", "p10", "pages", "p1x", "store"):
        (tmp_path / name).mkdir()
    (tmp_path / "p3").write_text("no directory")
    assert left_behind(tmp_path, 2) == [tmp_path / "p10", tmp_path / "p2"]
    assert left_behind(tmp_path, 1) == [tmp_path / "p1", tmp_path / "p10", tmp_path / "p2"]
