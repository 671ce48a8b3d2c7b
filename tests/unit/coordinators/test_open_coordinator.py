"""The coordinator is the store, until the settings name another."""

from __future__ import annotations

import importlib.abc
import sys
import threading

import pytest

from bus.bootstrap.coordinator import open_coordinator, probe_coordinator
from bus.coordinators.zookeeper import ZookeeperDocuments
from bus.errors import ConfigurationError, StoreUnavailable
from bus.settings import Settings
from bus.testing.store import MemoryStore
from tests.harness.process import free_port


class NotInstalled(importlib.abc.MetaPathFinder):
    """Finds no kazoo."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname.partition(".")[0] == "kazoo":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


@pytest.fixture
def no_kazoo(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("kazoo", "bus.coordinators.zookeeper"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NotInstalled(), *sys.meta_path])


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr("bus.coordinators.zookeeper.connection.REACH", 0.05)
    return Settings(zookeeper=f"127.0.0.1:{free_port()}")


@pytest.mark.usefixtures("no_kazoo")
async def test_the_store_is_the_coordinator_and_kazoo_need_not_be_there() -> None:
    store = MemoryStore()
    async with open_coordinator(Settings(), store) as coordinator:
        assert coordinator is store


@pytest.mark.usefixtures("no_kazoo")
async def test_an_extra_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"kazoo.* is not installed; the settings need the zookeeper extra"):
        await probe_coordinator(Settings(zookeeper="zk1:2181"))


async def test_it_is_opened_before_its_server_and_leaves_no_thread_behind(away: Settings) -> None:
    before = {*threading.enumerate()}
    async with open_coordinator(away, MemoryStore()) as coordinator:
        assert isinstance(coordinator, ZookeeperDocuments)
        with pytest.raises(StoreUnavailable, match=r"cannot be reached \(write leaders/x\); nothing was sent"):
            await coordinator.put("leaders", "x", b"", version=0)
    assert [thread.name for thread in {*threading.enumerate()} - before if "asyncio" not in thread.name] == []
    with pytest.raises(StoreUnavailable):
        await coordinator.get("leaders", "x")


async def test_a_probe_says_what_is_wrong(away: Settings) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
        await probe_coordinator(away)
    assert "check that ZooKeeper runs" in caught.value.hint
