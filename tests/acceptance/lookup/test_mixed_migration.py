"""A topic moves between stock NSQ and the fork, and clients of the fork that keep their connections hold nothing up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.lookup.migrating import CHANNEL, TOPIC, Proxies, traffic
from tests.doubles.youzan.running import YouzanDouble
from tests.harness.process import Child
from tests.harness.waiting import until
from tests.proofs.figures import Figures, note
from tests.servers import need, nsq
from tests.servers.youzan_oracle import PROGRAM

BODY = {"topic": TOPIC, "to": "b", "interval": 0.5}
STEPS = ["prepare", "consumers-on-both", "producers-on-target", "done"]


class Mixed(NamedTuple):
    """Two clusters by name, the first one with the topic."""

    clusters: dict[str, str]
    partitions: int | None


@pytest.fixture(params=["to the fork", "to stock NSQ"])
def mixed(request: pytest.FixtureRequest, programs: Path, tmp_path: Path) -> Iterator[Mixed]:
    with YouzanDouble(tmp_path / "fork") as fork, nsq.running(programs, tmp_path / "stock") as stock:
        places = {"fork": fork.lookups[0], "stock": stock.lookupds[0].http}
        if request.param == "to the fork":
            for nsqd in stock.nsqds:
                nsqd.call("/topic/create", topic=TOPIC)
                nsqd.call("/channel/create", topic=TOPIC, channel=CHANNEL)
            yield Mixed({"a": places["stock"], "b": places["fork"]}, 2)
        else:
            fork.create_topic(TOPIC, partitions=2)
            fork.create_channel(TOPIC, CHANNEL)
            yield Mixed({"a": places["fork"], "b": places["stock"]}, None)


@pytest.mark.parametrize("run", [0, *(pytest.param(number, marks=pytest.mark.proof) for number in range(1, 10))])
async def test_a_topic_moves_between_stock_nsq_and_the_fork(mixed: Mixed, tmp_path: Path, run: int) -> None:
    proxies = Proxies(tmp_path, mixed.clusters)
    with proxies.processes[0]:
        async with traffic(proxies.urls, rate=200 if run else 100, producers=2, consumers=2) as going:
            await going.flows(50)
            assert proxies.call("POST", body=BODY)["partitions"] == mixed.partitions
            while not (found := await proxies.status(f"{TOPIC}-1"))["ended"]:
                await going.flows(10)
            await going.flows(50)
            await going.end()
            assert [one["step"] for one in found["history"]] == STEPS
            note(Figures(messages=going.count, faults=1, lost=sum(map(len, going.lost.values()))))


@pytest.mark.parametrize(
    "count", [pytest.param(700, id="small"), pytest.param(6_000, id="full", marks=pytest.mark.proof)]
)
async def test_a_producer_that_keeps_its_connections_holds_no_migration_up(tmp_path: Path, count: int) -> None:
    oracle = need("youzan_oracle") / PROGRAM
    with ExitStack() as stack:
        source, target = (stack.enter_context(YouzanDouble(tmp_path / name)) for name in "ab")
        source.create_topic(TOPIC, partitions=2)
        source.create_channel(TOPIC, CHANNEL)
        proxies = Proxies(tmp_path, {"a": source.lookups[0], "b": target.lookups[0]})
        stack.enter_context(proxies.processes[0])
        fixed = [str(oracle), "-lookups", proxies.urls[0].removeprefix("http://"), "-topic", TOPIC, "-trace=false"]
        reading = [*fixed, "-channel", CHANNEL, "-count", "1000000", "-ordered=false"]
        consumer = stack.enter_context(Child(reading, log=tmp_path / "consumed"))
        writing = [*fixed, "-count", str(count), "-keys", "8", "-pace", "30ms"]
        producer = stack.enter_context(Child(writing, log=tmp_path / "published"))
        await until(lambda: len(_numbers(consumer)) > 20, within=60, what="messages flow")
        proxies.call("POST", body={**BODY, "interval": 1.5})
        while not (found := await proxies.status(f"{TOPIC}-1"))["ended"]:
            producer.check_running()
        assert [one["step"] for one in found["history"]] == STEPS
        await until(lambda: not producer.running, within=count, what="all is sent")
        await until(lambda: _numbers(consumer) >= _numbers(producer), within=60, what="all has come")
        assert len(_numbers(producer)) == count


def _numbers(program: Child) -> set[int]:
    lines = program.log.read_text("utf-8").splitlines()
    return {json.loads(line)["number"] for line in lines if line.startswith("{") and line.endswith("}")}
