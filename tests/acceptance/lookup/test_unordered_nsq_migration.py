"""A topic moves between two real clusters under load: nothing is lost, and nothing stays behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.lookup.conftest import Stock
from tests.acceptance.lookup.migrating import CHANNEL, TOPIC, Proxies, traffic
from tests.harness.waiting import until

BODY = {"topic": TOPIC, "to": "b", "interval": 0.5}


async def move(stock: Stock, folder: Path, *, rate: float, before: int, clients: int) -> None:
    proxies = Proxies(folder, stock.clusters)
    with proxies.processes[0]:
        async with traffic(proxies.urls, rate=rate, producers=clients, consumers=clients) as going:
            await going.flows(before)
            assert proxies.call("POST", body=BODY)["step"] == "prepare"
            while not (found := await proxies.status(f"{TOPIC}-1"))["ended"]:
                await going.flows(round(rate / 10))  # producers never stop
            await going.flows(before)
            await going.end()
            steps = [one["step"] for one in found["history"]]
            assert steps == ["prepare", "consumers-on-both", "producers-on-target", "done"]
            assert found["producers_stopped_ms"] == 0
            for nsqd in (*stock.source.nsqds, *stock.target.nsqds):
                await until(
                    lambda nsqd=nsqd: not _waiting(nsqd.stats(TOPIC, CHANNEL)), within=20, what="all is finished"
                )
            assert sum(nsqd.stats(TOPIC, CHANNEL)["message_count"] for nsqd in stock.target.nsqds) >= before


def _waiting(stats: dict[str, int]) -> int:
    return stats["depth"] + stats["in_flight_count"] + stats["deferred_count"]


async def test_nothing_is_lost_and_nothing_stays_behind(stock: Stock, tmp_path: Path) -> None:
    await move(stock, tmp_path, rate=100, before=20, clients=1)


@pytest.mark.proof
async def test_nothing_is_lost_at_two_thousand_messages_a_second(stock: Stock, tmp_path: Path) -> None:
    await move(stock, tmp_path, rate=2_000, before=10_000, clients=2)
