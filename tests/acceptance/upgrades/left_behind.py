"""Makes the files that a version is tried with later: ``python -m tests.acceptance.upgrades.left_behind``.

It writes ``data/VERSION.tar.xz`` beside itself, which stays in the repository once that version is released: what a bus
left that was killed two years ago with messages in every state, what its producer had not sent, and a backup of it.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.harness.backups import taken
from tests.harness.bus_process import BusProcess
from tests.harness.history import read_history
from tests.harness.moved_clock import DAY, MovedClock
from tests.harness.process import Child, module
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

FOLDER: Final = Path(__file__).with_name("data")
DATA: Final = "data"
PRODUCER: Final = "producer"
BACKUP: Final = "backup"
_TOLD: Final = "told.json"
_YEARS: Final = -730 * DAY
_KEPT: Final = {"retention_days": 3650}
_ONCE: Final = {"retry_max_attempts": 1}
SUBSCRIPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "shop": {},
    "failing": {"retry": ["1h"]},
    "giving-up": _ONCE,
    "filtered": {"filter": "body.n > `100`"},
    "held": {"paused": True},
    "again": _ONCE,
    "gone": {"paused": True},
}
FAILING: Final = ("/failing", "/giving-up", "/again", "/parking")
LATE: Final = 10
UNSENT: Final = 3


class Told(msgspec.Struct, frozen=True):
    """What the bus told of its messages before it was killed.

    Attributes
    ----------
    states
        By message and subscription.
    late
        Messages that were acknowledged and that the store did not have yet.
    scheduled
        One that was due later.
    unsent
        Messages that the producer had acknowledged, and no receiver.
    """

    states: dict[str, dict[str, str]]
    late: list[str]
    scheduled: str
    unsent: list[str]


def unpack(archive: Path, folder: Path) -> Told:
    """Put the files of a version into a folder, and return what that version told of them."""
    with tarfile.open(archive) as files:
        # Python 3.11.2 has no filter.
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(folder)
    return msgspec.json.decode((folder / _TOLD).read_bytes(), type=Told)


def make(folder: Path) -> None:
    """Leave everything in a folder as this version leaves it."""
    clock = MovedClock(Path(tempfile.mkdtemp(dir=folder.parent)))
    clock.put(_YEARS)
    with (
        SubscriberProcess(folder.parent) as subscriber,
        BusProcess(folder / DATA, log=folder.parent / "bus.log", env=clock.env) as bus,
    ):
        for path in FAILING:
            subscriber.configure(f"{path}=fail:1,status:503")
        _configure(bus, subscriber)
        states, scheduled = _messages(bus)
        bus.admin.call("PUT", "/api/v1/rates", json={"receiver": 0.01, "dispatcher": None}).raise_for_status()
        late = [bus.admin.send("late", b'{"n":%d}' % n).json()["id"] for n in range(LATE)]
        taken(folder / BACKUP, bus.data, env=clock.env)
        bus.kill()
    told = Told(states, late, scheduled, _unsent(folder, clock))
    (folder / _TOLD).write_bytes(msgspec.json.format(msgspec.json.encode(told)))


def _configure(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    for code, ordering in (("orders", "none"), ("late", "none"), ("keys", "key")):
        bus.admin.destination(code, ordering=ordering, **_KEPT)
    for name, fields in SUBSCRIPTIONS.items():
        bus.admin.subscription("orders", name, subscriber.url(f"/{name}"), **fields)
    bus.admin.subscription("late", "late", subscriber.url("/late"), paused=True)
    bus.admin.subscription("keys", "parking", subscriber.url("/parking"), on_failure="park", **_ONCE)


def _messages(bus: BusProcess) -> tuple[dict[str, dict[str, str]], str]:
    """Bring messages into every state, and return these."""
    sent = [bus.admin.send("orders", b'{"n":%d}' % n, bus_biz_id=f"A-{n}").json()["id"] for n in range(2)]
    sent.append(bus.admin.send("keys", b'{"n":7}', bus_key="k").json()["id"])
    wanted = {"shop": "delivered", "failing": "retrying", "giving-up": "dead", "filtered": "skipped", "again": "dead"}
    _wait(bus, sent[:2], wanted)
    _wait(bus, sent[2:], {"parking": "parked"})
    for name in ("shop", "failing", "giving-up", "again"):
        bus.admin.pause("orders", name, paused=True)
    bus.admin.call("DELETE", "/api/v1/destinations/orders/subscriptions/gone").raise_for_status()
    for message_id in sent[:2]:
        resend = {"subscriptions": ["again"]}
        bus.admin.call("POST", f"/api/v1/messages/{message_id}/resend", json=resend).raise_for_status()
    _wait(bus, sent[:2], {**wanted, "again": "resend", "gone": "canceled", "held": "pending"})
    tomorrow = datetime.now(UTC) + timedelta(seconds=_YEARS + DAY)
    due = tomorrow.isoformat(timespec="milliseconds")
    later = bus.admin.send("orders", b'{"n":8}', bus_deliver_at=due).raise_for_status().json()["id"]
    _wait(bus, [later], {"shop": "pending"})
    return {message_id: _states(bus, message_id) for message_id in (*sent, later)}, later


def _states(bus: BusProcess, message_id: str) -> dict[str, str]:
    found = bus.admin.call("GET", f"/api/v1/messages/{message_id}")
    if found.status_code == 404:
        return {}
    return {delivery["subscription"]: delivery["status"] for delivery in found.json()["deliveries"]}


def _wait(bus: BusProcess, ids: list[str], wanted: dict[str, str]) -> None:
    wait_until(
        lambda: all(wanted.items() <= _states(bus, each).items() for each in ids),
        within=30,
        what=f"{wanted}",
        state=lambda: [_states(bus, each) for each in ids],
    )


def _unsent(folder: Path, clock: MovedClock) -> list[str]:
    """Have a producer send what no receiver takes, and return the ids."""
    history = folder.parent / "producer.jsonl"
    options = "--url", "http://127.0.0.1:9", "--spool", folder / PRODUCER, "--history", history
    argv = module("tests.harness.producer", *options, "--destination", "late", "--count", UNSENT)
    with Child(argv, log=folder.parent / "producer.log", env=clock.env) as producer:
        producer.ready_line()
    return [event.id for event in read_history(history) if event.type == "ok"]


def pack(folder: Path, archive: Path) -> None:
    """Write what was left in a folder into an archive, without what a bus makes anew."""

    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        name = Path(entry.name).name
        if name == "ballast" or name.endswith("-shm") or "events" in Path(entry.name).parts:
            return None
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(archive, "w:xz", preset=9) as files:
        for path in sorted(folder.iterdir()):
            files.add(path, path.name, filter=kept)


def main() -> None:
    archive = FOLDER / f"{version('pier-bus')}.tar.xz"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "left"
        folder.mkdir()
        make(folder)
        pack(folder, archive)
    print(json.dumps({"archive": archive.name, "bytes": archive.stat().st_size}))


if __name__ == "__main__":
    main()
