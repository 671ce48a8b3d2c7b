"""The bus on Kafka and the MongoDB protocol, with faults: rollups are what subscribers counted, no loss is missed."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pymongo
import pytest

from pipeline.lake.batches import ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import ROLLUPS
from pipeline.transforms.rolling import merged, readable
from tests.harness.bus_process import BusProcess
from tests.harness.history import read_history
from tests.harness.jobs import minute_is_over, pipeline, states
from tests.harness.kills import Harm, KillRun, Plan
from tests.harness.parts import BROKERS, STORES, Part
from tests.harness.spark import spark_session
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import need

PATHS = ("/fast", "/flaky=fail:0.1")
LONELY = 12  # failures of one subscription, fewer than open its breaker


class World(NamedTuple):
    folder: Path
    broker: Part
    store: Part

    @property
    def env(self) -> dict[str, str]:
        return {**self.broker.env, **self.store.env, "BUS_EVENTS": "kafka"}

    @property
    def database(self) -> str:
        return self.store.env["BUS_STORE"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        broker = stack.enter_context(BROKERS["kafka"](tmp_path / "kafka"))
        store = stack.enter_context(STORES["mongodb"](tmp_path / "mongodb"))
        yield World(tmp_path, broker, store)


def _roll_up(world: World) -> Path:
    lake = world.folder / "lake"
    source = ("--kafka", world.broker.env["BUS_KAFKA_BOOTSTRAP"], "--connectors", need("connectors"))
    done = pipeline("rollup", *source, "--lake", lake, "--once", "--memory", "1g")
    assert done.returncode == 0, done.stderr
    return lake


def _totals(lake: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the rollups of the day by stage and subscription; the run may lie on both sides of a midnight."""
    rows = readable(merged(Lake(Storage(str(lake))).read(spark_session(), ROLLUPS, line=ROLLUP_LINE), "day")).collect()
    totals: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row.stage, row.subscription)
        counts = {name: row[name] for name in ("events", "delivered", "failed", "bytes", "distinct_biz_ids")}
        known = totals.setdefault(key, dict.fromkeys(counts, 0))
        totals[key] = {name: known[name] + counts[name] for name in counts}
    return totals


def _leave_without_owner(world: World, lost: list[str]) -> None:
    with pymongo.MongoClient(world.database) as client:
        rows = client.get_default_database()["compensations"]
        for message_id in lost:
            assert rows.delete_many({"message_id": message_id}).deleted_count == 1


def _lonely(bus: BusProcess, url: str) -> list[str]:
    """Send messages whose only subscriber fails, and wait until each was tried once."""
    bus.admin.destination("bills", transport="kafka")
    bus.admin.subscription("bills", "mail", url, retry=["6h"])
    ids = [bus.admin.send("bills", json.dumps({"seq": seq}).encode()).json()["id"] for seq in range(LONELY)]
    tried = Counter({("mail", "retrying"): LONELY})
    wait_until(lambda: states(bus.admin, ids) == tried, within=120, what="all were tried")
    return ids


def _repaired(world: World, bus: BusProcess, mail: SubscriberProcess, lonely: list[str], lake: Path) -> None:
    """Lose the retries of some messages, and have them found and delivered."""
    lost = lonely[1::5]
    _leave_without_owner(world, lost)
    bus.start()
    mail.configure("/mail=fail:0")
    wait_until(lambda: minute_is_over(lonely), within=90, what="the messages' minute is over")
    answer = pipeline(
        *("reconcile", "--lake", lake, "--store", world.database, "--connectors", need("connectors")),
        *("--allowance", "1s", "--complete", "--repair", "--url", bus.url, "--json"),
    )
    assert answer.returncode == 0, answer.stderr
    proof = json.loads(answer.stdout)
    assert sorted((each["id"], each["subscription"]) for each in proof["missing"]) == [(each, "mail") for each in lost]
    assert proof["hops"]["deliver"]["under_way"] == LONELY - len(lost)
    assert states(bus.admin, lost) == Counter({("mail", "delivered"): len(lost)})
    got = Counter(call.id for call in mail.calls("/mail") if call.status == httpx.codes.OK)
    assert got == Counter(lost)


def _assert_counted(totals: dict[tuple[str, str], dict[str, Any]], run: KillRun) -> None:
    """Assert that rollups have what the producer and the subscribers wrote down, to the last one."""
    sent = [event for event in read_history(run.folder / "producer.jsonl") if event.type == "ok"]
    for stage in ("sent", "accepted"):
        assert totals[stage, ""]["events"] == len(sent) + (LONELY if stage == "accepted" else 0)
        assert abs(totals[stage, ""]["distinct_biz_ids"] - len(sent)) <= 0.05 * len(sent)
    for path in PATHS:
        name = path.partition("=")[0]
        calls = run.subscriber.calls(name)
        counts = totals["settled", name.strip("/")]
        good = sum(call.status == httpx.codes.OK for call in calls)
        assert (counts["events"], counts["delivered"], counts["failed"]) == (len(calls), good, len(calls) - good)
        assert counts["bytes"] == sum(call.bytes for call in calls)


@pytest.mark.proof
@pytest.mark.timeout(3_600)
def test_rollups_are_what_subscribers_counted_and_what_was_lost_is_repaired(
    world: World, subscriber: SubscriberProcess
) -> None:
    plan = Plan(messages=5_000, rate=100, kills=0, seed=6, stuck_after="10s", drain_within=600)
    harms = [Harm(2, world.broker.restart(random.Random(6)))]
    lonely: list[str] = []

    def at_end() -> None:
        subscriber.configure("/mail=fail:1")
        lonely.extend(_lonely(bus, subscriber.url("/mail")))

    def drained() -> None:
        run.stop_producer()
        assert bus.stop(within=60) == 0
        lake = _roll_up(world)
        _assert_counted(_totals(lake), run)
        _repaired(world, bus, subscriber, lonely, lake)

    folder = world.folder / "run"
    folder.mkdir()
    run = KillRun(
        folder, plan, transport="kafka", env=world.env, harms=harms, paths=PATHS, at_end=at_end, drained=drained
    )
    bus = run.bus
    assert isinstance(bus, BusProcess)
    found = run.run()
    assert found.passed, found.complaints
