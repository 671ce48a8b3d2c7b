"""``archive`` and ``replay`` as processes that are killed with SIGKILL again and again: nothing is lost or repeated."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyarrow import parquet

from bus.clock import SystemClock
from pipeline.jobs import archive, replay
from pipeline.schemas import MESSAGES, REPLAYS
from tests.harness.archived_bus import Place
from tests.harness.bus_process import BusProcess
from tests.harness.gate import Gate
from tests.harness.killed_jobs import Job, Point, Seen, appears, changes
from tests.harness.lake_places import LakePlace, in_folder
from tests.harness.old_messages import Sent, made
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.mongodb_fixtures import database, mongodb, patient
from tests.servers.s3_fixtures import bucket, s3_server

__all__ = ["bucket", "database", "mongodb", "patient", "s3_server"]

NAME = "again-1"
CODES = ("bills", "orders")
OLDEST = 20
DAYS, MANY = 6, 20_000
ARCHIVE_KILLS, REPLAY_KILLS = 5, (2, 4)


@pytest.fixture(params=["sqlite", "mongodb", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A bus with either store and a lake on disk, and one with a lake in a bucket."""
    is_in_bucket = request.param == "bucket"
    lake: LakePlace = request.getfixturevalue("bucket") if is_in_bucket else in_folder(tmp_path / "lake")
    is_mongodb = request.param == "mongodb"
    store = request.getfixturevalue("database") if is_mongodb else f"sqlite:///{tmp_path}/data/store"
    bus = BusProcess(tmp_path / "data", env={"BUS_STORE": store})
    with bus, SubscriberProcess(tmp_path, fsync=False) as subscriber:
        yield Place(bus, subscriber, store, lake.folder, name=lake.name)


@pytest.fixture
def gate(place: Place) -> Iterator[Gate]:
    with Gate(place.bus.url) as made_:
        yield made_


def job(log: Path, place: Place, gate: Gate, *arguments: object) -> Job:
    common = ("--store", place.store, "--lake", place.name, "--url", gate.url)
    return Job(log, *arguments, *common, "--connectors", need("connectors"))


def table(place: Place, name: str) -> Path:
    return Path(place.lake.storage.root) / name


@contextmanager
def held(gate: Gate, path: str, *, answered: bool, after: int = 0) -> Iterator[Seen]:
    with gate.holding(path, answered=answered, after=after) as hold:
        yield hold.holds.is_set


@contextmanager
def delivered(place: Place, count: int) -> Iterator[Seen]:
    before = place.subscriber.count("/s")
    yield lambda: place.subscriber.count("/s") >= before + count


def archived(place: Place, line: str, name: str) -> Counter[tuple[str, str]]:
    """Count id and body of what the manifests name; every file is the one that was written."""
    rows: Counter[tuple[str, str]] = Counter()
    for file in (file for each in place.lake.manifests(line) for file in each.tables[name]):
        path = place.lake.storage.url(file.path)
        assert place.lake.storage.sha256(file.path) == file.sha256
        for row in parquet.ParquetFile(path).read(columns=["id", "body"]).to_pylist():
            rows[row["id"], digest(row["body"])] += 1
    return rows


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def stored(place: Place) -> set[str]:
    return {message["id"] for code in CODES for message in place.bus.admin.messages(destination=code)}


def assert_somewhere(place: Place, old: list[Sent]) -> None:
    """Assert that each message is once in the lake, or not at all and then in the store."""
    kept = archived(place, archive.LINE, MESSAGES.name)
    sent = {each.id: digest(each.body) for each in old}
    assert set(kept) <= set(sent.items())
    assert set(kept.values()) <= {1}
    assert set(sent) == {id_ for id_, _ in kept} | stored(place) & set(sent)


def archive_points(place: Place, gate: Gate) -> list[Point]:
    """Return: the answer to a drop is lost, a file is half written, it counts, the drop is asked for, one was told."""
    return [
        partial(held, gate, "/drop", answered=True),
        partial(appears, table(place, f"{MESSAGES.name}/{archive.LINE}"), ".parquet"),
        partial(appears, table(place, f"_manifests/{archive.LINE}"), ".json"),
        partial(held, gate, "/drop", answered=False),
        partial(held, gate, "/drop", answered=False, after=1),
    ]


def freezing_points(place: Place) -> list[Point]:
    """Return: the selection is frozen and nothing of it sent, a file of it is half written."""
    return [
        partial(appears, table(place, f"_manifests/{replay.LINE}"), ".json"),
        partial(appears, table(place, REPLAYS.name), ".parquet"),
    ]


def sending_points(place: Place, gate: Gate, most: int) -> list[Point]:
    """Return: the answer to a batch is lost, one is written down, copies have come, a batch was never heard of."""
    return [
        partial(held, gate, "/v1/messages", answered=True, after=1),
        partial(changes, table(place, f"_replays/{NAME}.json")),
        partial(delivered, place, most),
        partial(held, gate, "/v1/messages", answered=False),
    ]


def archive_killed(log: Path, place: Place, gate: Gate, old: list[Sent], kills: int) -> None:
    """Archive and drop what is old; after each kill every message is somewhere."""
    archiving = job(log, place, gate, "archive")
    for point in archive_points(place, gate)[:kills]:
        archiving.kill_at(point)
        assert_somewhere(place, old)
    assert {each["state"] for each in archiving.finish()} == {"dropped"}
    assert archived(place, archive.LINE, MESSAGES.name) == Counter((each.id, digest(each.body)) for each in old)


def replay_killed(log: Path, place: Place, gate: Gate, rate: int, kills: tuple[int, int]) -> dict[str, Any]:
    """Replay all that was sent; return what was told once nothing of it is open."""
    arguments = ("replay", NAME, "--rate", rate)
    freezing = job(log.with_name("freezing"), place, gate, *arguments, "--where", "biz_id like 'A-%'")
    for point in reversed(freezing_points(place)[: kills[0]]):
        freezing.kill_at(point)
    sending = job(log, place, gate, *arguments)
    for point in sending_points(place, gate, rate)[: kills[1]]:
        sending.kill_at(point)
    found: list[dict[str, Any]] = []

    def closed() -> bool:
        found.extend(sending.finish())
        return not (found[-1]["open"] or found[-1]["unknown"])

    wait_until(closed, within=600, what="the balance closes", state=lambda: found[-1:])
    return found[-1]


def assert_accepted_once(gate: Gate, ids: set[str]) -> int:
    """Assert that the receiver took each copy once; return how many lines it knew already."""
    answers = [msgspec.json.decode(each.answer) for each in gate.exchanges if each.path == "/v1/messages"]
    results = Counter((each["id"], each["status"]) for answer in answers for each in answer["results"])
    assert {key: count for key, count in results.items() if key[1] == "accepted"} == {
        (id_, "accepted"): 1 for id_ in ids
    }
    assert {status for _, status in results} <= {"accepted", "duplicate"}
    return results.total() - len(ids)


@pytest.mark.proof
@pytest.mark.timeout(3_600)
def test_whatever_is_killed_every_message_stays_and_comes_again_once(
    tmp_path: Path,
    place: Place,
    gate: Gate,
    record_property: Callable[[str, object], None],
) -> None:
    now = SystemClock().now()
    old = [each for day in range(DAYS) for each in made(MANY // DAYS, OLDEST + day, now, CODES)]
    young = made(6, 2, now, CODES)
    place.deliver(old + young, within=600)
    sent = {each.id: digest(each.body) for each in old + young}

    archive_killed(tmp_path / "archive", place, gate, old, ARCHIVE_KILLS)
    assert stored(place) == {each.id for each in young}
    assert [each.status for each in gate.exchanges if each.path.endswith("/drop")] == [200] * DAYS

    before = len(place.subscriber.calls())
    told = replay_killed(tmp_path / "replay", place, gate, MANY // 40, REPLAY_KILLS)
    assert [told[name] for name in ("selected", "accepted", "delivered")] == [len(sent)] * 3
    assert [told[name] for name in ("rejected", "failed", "ended", "balanced")] == [0, 0, 0, True]
    (manifest,) = place.lake.manifests(replay.LINE)
    frozen = [row for file in manifest.tables[REPLAYS.name] for row in place.lake.storage.rows(file.path)]
    assert {row["id"]: digest(row["body"]) for row in frozen} == sent
    known = assert_accepted_once(gate, {row["new_id"] for row in frozen})
    calls = Counter((call.id, call.sha256) for call in place.subscriber.calls()[before:])
    assert calls == Counter((row["new_id"], digest(row["body"])) for row in frozen)
    record_property("kills", ARCHIVE_KILLS + sum(REPLAY_KILLS))
    record_property("duplicates answered", known)
