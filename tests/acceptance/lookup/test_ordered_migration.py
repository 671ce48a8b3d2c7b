"""An ordered topic moves, and is expanded: nothing is lost and no key inverted, whatever dies on the way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.acceptance.lookup.conftest import Forks
from tests.acceptance.lookup.migrating import TOPIC, Proxies, Traffic, traffic

MOVE = {"topic": TOPIC, "to": "b", "interval": 0.5}
EXPAND = {**MOVE, "kind": "expansion", "partitions": 4}


async def until_ended(proxies: Proxies, going: Traffic) -> Mapping[str, object]:
    """Wait for the end, and kill each proxy at each step that it comes to, one after the other."""
    seen, killed = "", 0
    while not (found := await proxies.status(f"{TOPIC}-1"))["ended"]:
        if found["step"] != seen:
            seen = found["step"]
            await proxies.kill(killed % len(proxies.processes))
            killed += 1
    await going.flows()
    return found


async def test_no_key_is_inverted(forks: Forks, tmp_path: Path) -> None:
    proxies = Proxies(tmp_path, forks.clusters)
    with proxies.processes[0]:
        async with traffic(proxies.urls, rate=200, is_ordered=True) as going:
            await going.flows()
            assert proxies.call("POST", body=MOVE)["kind"] == "ordered"
            while not (found := await proxies.status(f"{TOPIC}-1"))["ended"]:
                pass
            await going.flows()
            await going.end()
            assert going.inverted == []
            assert 0 < found["producers_stopped_ms"] < 12_000


@pytest.mark.proof
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("body", "count"), [(MOVE, 1), (EXPAND, 1), (MOVE, 2), (EXPAND, 2)])
async def test_proxies_are_killed_at_every_step(
    forks: Forks, tmp_path: Path, body: Mapping[str, object], count: int
) -> None:
    proxies = Proxies(tmp_path, forks.clusters, count)
    try:
        for process in proxies.processes:
            process.start()
        async with traffic(proxies.urls, rate=200, producers=2, consumers=2, is_ordered=True) as going:
            await going.flows()
            proxies.call("POST", body=body)
            found = await until_ended(proxies, going)
            await going.end()
            assert going.inverted == []
            assert found["step"] == "done"
            if body is EXPAND:
                assert len(forks.source.partitions(TOPIC)) == 4
    finally:
        for process in proxies.processes:
            process.close()


@pytest.mark.proof
@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", ["producers-stopped", "draining-source"])
async def test_one_that_is_rolled_back_is_as_before(forks: Forks, tmp_path: Path, step: str) -> None:
    proxies = Proxies(tmp_path, forks.clusters)
    with proxies.processes[0]:
        async with traffic(proxies.urls, rate=200, producers=2, consumers=2, is_ordered=True) as going:
            await going.flows()
            proxies.call("POST", body=MOVE)
            while (await proxies.status(f"{TOPIC}-1"))["step"] != step:
                pass
            proxies.call("POST", f"/{TOPIC}-1/rollback", {})
            found = await until_ended(proxies, going)
            await going.end()
            assert going.inverted == []
            assert (found["step"], found["produce"], found["consume"]) == ("canceled", ["a"], ["a"])
