"""A spool directory says on disk which leases it may have, before anybody is asked and until they are released."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import httpx
import pytest

from bus.client.spooling import home
from bus.client.spooling import marker as marker_module
from bus.client.spooling.lanes import CONSUMER
from bus.client.spooling.marker import Marker
from bus.errors import NotLeader, SpoolFailed
from bus.spool import Options
from tests.unit.client.strict_network import Network, network


def test_what_is_begun_is_on_disk_until_it_is_forgotten(tmp_path: Path) -> None:
    marker = Marker(tmp_path)
    marker.begin("b")
    marker.begin("a")
    assert Marker(tmp_path).codes == {"a", "b"}
    marker.forget("a")
    assert Marker(tmp_path).codes == {"b"}
    assert marker.owner == tmp_path.name


def test_what_has_begun_begins_again_only_once_it_ends(tmp_path: Path) -> None:
    marker = Marker(tmp_path)
    marker.begin("a")
    with pytest.raises(NotLeader):
        marker.begin("a")
    marker.end(["a"])
    assert marker.ending == ["a"]
    marker.begin("a")
    assert marker.ending == []
    assert not marker.release("a", lambda *_: True)  # it goes on


def test_it_is_forgotten_once_it_is_released(tmp_path: Path) -> None:
    marker = Marker(tmp_path)
    marker.begin("a")
    marker.end(["a"])
    assert not marker.release("a", lambda *_: False)
    assert marker.codes == {"a"}
    assert marker.release("a", lambda code, owner: (code, owner) == ("a", tmp_path.name))
    assert Marker(tmp_path).codes == frozenset()


def test_a_disk_that_does_not_take_it_refuses_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(marker_module, "write_whole", fail)
    marker = Marker(tmp_path)
    with pytest.raises(SpoolFailed):
        marker.begin("a")
    assert marker.codes == frozenset()


def test_one_that_cannot_be_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "producing.json").write_bytes(b"\xff")
    with caplog.at_level(logging.ERROR):
        assert Marker(tmp_path).codes == frozenset()
    assert "producing.json" in caplog.text


def test_a_directory_stays_while_it_has_a_lease(tmp_path: Path) -> None:
    spool = home.open_home(tmp_path, "shop", Options(consumers=(CONSUMER,)))
    Marker(spool.directory).begin("orders")
    assert not home.retire(spool)
    Marker(spool.directory).forget("orders")
    again = home.adopt(spool.directory, Options(consumers=(CONSUMER,)))
    assert again is not None
    assert home.retire(again)


def test_it_is_on_disk_when_the_receiver_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    handle = Network.handle_request

    def look(net: Network, request: httpx.Request) -> httpx.Response:
        seen.append((request.method, [Marker(one).codes for one in home.homes(tmp_path)]))
        return handle(net, request)

    monkeypatch.setattr(Network, "handle_request", look)
    with network("one") as net, net.bus(tmp_path) as bus, bus.sender("orders"):
        pass
    assert seen == [("POST", [{"orders"}]), ("DELETE", [{"orders"}])]
