"""A bus by roles on all that it can stand on, at work, whose parts fail one at a time; and who was told of what."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Self

import httpx
import trustme

from tests.harness.alarm_channels import AlarmChannels
from tests.harness.bus_process import BusProcess
from tests.harness.cluster import Cluster
from tests.harness.http import PLAIN
from tests.harness.loop_disk import LoopDisk, loop_disk
from tests.harness.parts import BROKERS, STORES, Part
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.rabbitmq import RabbitmqServer

CHANNEL = "ops"
HEARTBEAT = "alive"
LANES = ("direct", "kafka", "rabbitmq", "nsq")
SHOP = "shop"
SECURE = "secure"
SETTLED = 15.0
"""Seconds for which a fault lasts once people are told of it."""
GIB = 2**30
RATE = 20
"""Messages a second to each destination."""
_SHORT = {"hold": "4s", "clear": "8s"}
RULES = {
    **dict.fromkeys(
        (
            "role-missing",
            "part-down",
            "breaker-open",
            "errors",
            "saturated",
            "failed-over",
            "orphans",
            "disk",
            "certificate",
            "broker-memory",
        ),
        _SHORT,
    ),
    "backlog": {**_SHORT, "limit": 400},
    "age": {**_SHORT, "limit": "45s"},
    "spool-age": {**_SHORT, "limit": "45s"},
    "turned-away": {"hold": "2s", "clear": "5s"},
    "dead": {"clear": "5s"},
    "rejected": {"clear": "5s"},
    "subscriber-gone": {"clear": "5s"},
}


class Fault(NamedTuple):
    """Something that fails: by which rule people are told, from which cause, and whether it is over once mended."""

    name: str
    rule: str
    cause: str
    inject: Callable[[], object]
    mend: Callable[[], object]
    clears: bool = True


class Line(NamedTuple):
    """What came of a fault; seconds from the fault to the notice, and from the mend to the one that it is over."""

    fault: Fault
    told: list[str]
    raised_after: float
    cleared_after: float | None
    causes: list[str]
    rules: set[str]


class Load:
    """Sends to each destination at a rate, over kept connections, until it is stopped; a refusal is sent again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(code,), daemon=True) for code in LANES]
        self.accepted = 0

    def _send(self, code: str) -> None:
        with httpx.Client(base_url=self._url, timeout=10, **PLAIN) as client:
            while not self._stopping.wait(1 / RATE):
                with suppress(httpx.HTTPError):
                    self.accepted += client.post(f"/v1/messages/{code}", content=b'{"n":1}').status_code == 202

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(20)


class Subscribers(NamedTuple):
    """Each on a host of its own: ``shop`` fails, and the certificate of ``secured_briefly`` ends soon."""

    sound: SubscriberProcess
    shop: SubscriberProcess
    secured: SubscriberProcess
    secured_briefly: SubscriberProcess


class Day:
    """The world; ``disk`` has the data directory of the process with the role admin."""

    def __init__(
        self,
        cluster: Cluster,
        parts: dict[str, Part],
        subscribers: Subscribers,
        disk: LoopDisk,
        channels: AlarmChannels,
    ) -> None:
        self.cluster, self.parts, self.subscribers, self.disk, self.channels = (
            cluster,
            parts,
            subscribers,
            disk,
            channels,
        )
        self.sound, self.shop = subscribers.sound, subscribers.shop

    def call_by_https(self, subscriber: SubscriberProcess) -> None:
        """Have a subscription call one of those with a certificate."""
        self.cluster.admin.subscription("direct", SECURE, subscriber.url("/secure"), retry=["1s"])

    def configure(self) -> None:
        admin = self.cluster.admin
        for lane in LANES:
            admin.destination(lane, transport=lane)
            admin.subscription(lane, "sound", self.sound.url(f"/{lane}"), retry=["1s"])
        admin.subscription("direct", SHOP, self.shop.url("/shop"), retry=["1s"], max_concurrency=4, dead_on=[422])
        self.call_by_https(self.subscribers.secured)

    @property
    def nsqd(self) -> str:
        """Where the first nsqd is, as the bus calls it."""
        return self.parts["nsq"].env["BUS_NSQ_NSQD"].split(",")[0].partition("/")[0]

    def process(self, role: str) -> BusProcess:
        return self.cluster.of(role)[0]

    def incidents(self) -> dict[str, dict]:
        """Return all incidents by id; raises ``KeyError`` while the store is away."""
        items = self.cluster.admin.call("GET", "/api/v1/alarms").json()["items"]
        return {one["id"]: one for one in items}

    def titles(self) -> list[str]:
        """Return what the channel was told."""
        return self.channels.titles(CHANNEL)

    def try_fault(self, fault: Fault, within: float = 90.0) -> Line:
        """Have it happen, wait until people are told, mend it, and wait until they are told that it is over."""
        before, known, begun = len(self.titles()), set(self.incidents()), time.monotonic()
        fault.inject()
        wait_until(lambda: len(self.titles()) > before, within=within, what=f"people are told of: {fault.name}")
        raised = time.monotonic() - begun
        time.sleep(SETTLED)  # what follows from it would be told meanwhile
        mended = time.monotonic()
        fault.mend()

        def new() -> list[dict]:
            with suppress(httpx.HTTPError, KeyError):
                return [one for id_, one in self.incidents().items() if id_ not in known]
            return []

        def is_over() -> bool:
            return bool(new()) and all(one["closed_at"] for one in new())

        def line(cleared: float | None) -> Line:
            causes = sorted({one["cause"] for one in new()})
            rules = {alarm["rule"] for one in new() for alarm in one["alarms"]}
            return Line(fault, self.titles()[before:], raised, cleared, causes, rules)

        if not fault.clears:
            return line(None)
        wait_until(is_over, within=240, what=f"it is over: {fault.name}", every=0.5, state=new)
        cleared, count = time.monotonic() - mended, len(new())

        def told_over() -> bool:
            return sum("over after" in title for title in self.titles()[before:]) >= count

        wait_until(told_over, within=60, what="people know that it is over", state=self.titles)
        return line(cleared)


@contextmanager
def _rabbitmq(folder: Path) -> Iterator[Part]:
    """Two clusters, of which the primary one has the management plugin."""
    home, plugin = need("rabbitmq"), need("rabbitmq_management")
    with (
        RabbitmqServer(home, folder / "primary", name="primary", management=plugin) as primary,
        RabbitmqServer(home, folder / "backup", name="backup") as backup,
    ):
        env = {
            "BUS_RABBITMQ_PRIMARY": primary.url,
            "BUS_RABBITMQ_BACKUP": backup.url,
            "BUS_RABBITMQ_MANAGEMENT": json.dumps({"primary": f"http://127.0.0.1:{primary.http_port}"}),
        }
        yield Part(env, (primary, backup))


@contextmanager
def _subscribers(folder: Path) -> Iterator[tuple[Subscribers, Path]]:
    """Run them; with the file of the authority that vouches for those called by https."""
    authority = trustme.CA()
    trusted = folder / "authority.pem"
    authority.cert_pem.write_to_path(trusted)

    def certificate(name: str, days: int) -> Path:
        path = folder / f"{name}.pem"
        until = datetime.now(UTC) + timedelta(days=days)
        authority.issue_cert("127.0.0.1", not_after=until).private_key_and_cert_chain_pem.write_to_path(path)
        return path

    with (
        SubscriberProcess(folder, name="sound", tally=True) as sound,
        SubscriberProcess(folder, name="shop", tally=True) as shop,
        SubscriberProcess(folder, name="secured", tally=True, certificate=certificate("long", 90)) as secured,
        SubscriberProcess(folder, name="briefly", tally=True, certificate=certificate("short", 5)) as briefly,
    ):
        yield Subscribers(sound, shop, secured, briefly), trusted


@contextmanager
def running(folder: Path) -> Iterator[Day]:
    """Run all of it."""
    for name in ("large", "small"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        # Others fill the disk of this machine, and a bus would rightly say so.
        large = stack.enter_context(loop_disk(folder / "large", 32 * GIB))
        (folder / "bus").symlink_to(large.path)
        parts = {name: stack.enter_context(BROKERS[name](folder / name)) for name in ("kafka", "nsq")}
        parts["rabbitmq"] = stack.enter_context(_rabbitmq(folder / "rabbitmq"))
        parts["store"] = stack.enter_context(STORES["mongodb"](folder / "mongodb"))
        channels = stack.enter_context(AlarmChannels())
        subscribers, trusted = stack.enter_context(_subscribers(folder))
        disk = stack.enter_context(loop_disk(folder / "small", GIB))
        (folder / "bus" / "admin-1").symlink_to(disk.path)
        env: dict[str, str] = {}
        for part in parts.values():
            env |= part.env
        env |= {
            "BUS_ALARM_RULES": json.dumps(RULES),
            "BUS_ALARM_CHANNELS": json.dumps(
                {
                    CHANNEL: {"url": channels.url(CHANNEL), "severity": "info"},
                    HEARTBEAT: {"url": channels.url(HEARTBEAT), "heartbeat": "2s"},
                }
            ),
            "SSL_CERT_FILE": str(trusted),
            "BUS_SWEEP": str(folder / "bus"),
            "BUS_SWEEP_IDLE": "5",
        }
        roles = ("admin", "receiver", "dispatcher", "compensator", "sweeper", "alarms")
        cluster = stack.enter_context(Cluster(folder / "bus", roles, store=parts["store"].env["BUS_STORE"], env=env))
        day = Day(cluster, parts, subscribers, disk, channels)
        day.configure()
        yield day
