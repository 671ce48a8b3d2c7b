"""Any outside part may stop, hang or lose everything: messages flow, health tells the truth, and nothing is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.parts import BROKERS, STORES, Part
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers.running import LocalServer

# In every run a broker and the store; in a proof all that the bus may stand on.
FEW = ("direct", "kafka")
# What health calls each part, by the beginning of the name.
PARTS = {"kafka": "kafka", "rabbitmq": "rabbitmq", "rabbitmq primary": "rabbitmq", "nsq": "nsq", "mongodb": "store"}
SENT = 8
FLOWS_WITHIN = 60.0
MENDED_WITHIN = 90.0


@dataclass
class World:
    """A bus on brokers and on MongoDB, a destination on each transport, with a sound and a flaky subscriber each."""

    bus: BusProcess
    subscriber: SubscriberProcess
    parts: dict[str, Part]
    sent: dict[str, list[str]]
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def configure(self) -> None:
        """Make the destinations."""
        for transport in self.sent:
            self.bus.admin.destination(transport, transport=transport)
            for name in ("sound", "flaky"):
                url = self.subscriber.url(f"/{transport}/{name}")
                self.bus.admin.subscription(transport, name, url, retry=["200ms"], stuck_after="5s")

    def servers(self, name: str) -> list[LocalServer]:
        """Return the servers that are harmed with a part."""
        if name == "rabbitmq primary":
            return [self.parts["rabbitmq"].servers[0]]
        return list(self.parts[name].servers)

    def send(self) -> None:
        """Send to every destination; each is acknowledged."""
        for transport, sent in self.sent.items():
            for _ in range(SENT):
                answer = self.bus.admin.send(transport, b'{"n":%d}' % next(self.numbers))
                assert answer.status_code == 202, answer.text
                sent.append(answer.json()["id"])

    @property
    def count(self) -> int:
        """How many messages were sent to each destination."""
        return min(len(sent) for sent in self.sent.values())

    def wait_delivered(self, since: int = 0) -> None:
        """Wait until everything, or what was sent after the first so many, has reached both subscribers."""
        wait_until(
            lambda: not self.missing(since),
            within=FLOWS_WITHIN,
            what="everything is delivered",
            state=lambda: self.missing(since),
            every=0.2,
        )

    def missing(self, since: int = 0) -> dict[str, int]:
        """Return how many messages a subscriber has not, by path."""
        got: dict[str, set[str]] = {}
        for call in self.subscriber.calls():
            if call.status < 300:
                got.setdefault(call.path, set()).add(call.id)
        paths = {f"/{transport}/{name}": transport for transport in self.sent for name in ("sound", "flaky")}
        missing = {
            path: len(set(self.sent[transport][since:]) - got.get(path, set())) for path, transport in paths.items()
        }
        return {path: count for path, count in missing.items() if count}

    def ill(self) -> set[str]:
        """Return the names of what is not well, as ``/readyz`` says; it answers 200 all the same."""
        answer = self.bus.admin.call("GET", "/readyz")
        assert answer.status_code == 200
        health: dict[str, Any] = answer.json()
        found = {check["name"] for check in health["checks"] if not check["ok"]}
        assert (health["status"] == "degraded") == bool(found)
        return found

    def degraded(self) -> set[str]:
        """Return what the metric says."""
        lines = [line for line in self.bus.admin.metrics().splitlines() if line.startswith("bus_degraded{")]
        return {line.split('"')[1] for line in lines if line.endswith(" 1.0")}

    def is_kept(self, directory: Path) -> bool:
        """Whether the kept configuration has every subscription."""
        found = directory / "subscriptions.snapshot"
        return found.exists() and all(f"{transport}/flaky".encode() in found.read_bytes() for transport in self.sent)

    def wait_well(self) -> None:
        """Wait until nothing is ill, and the metric, which is kept for a moment, agrees."""
        wait_until(lambda: not self.ill(), within=MENDED_WITHIN, what="all is well again", state=self.ill, every=0.2)
        wait_until(lambda: not self.degraded(), within=5, what="the metric agrees", state=self.degraded, every=0.2)


class Trouble(NamedTuple):
    """What is wrong with a part: for a while, or for a moment in the case of the bus."""

    part: str
    fault: str

    def __str__(self) -> str:
        return f"{self.part} {self.fault}"

    def begin(self, world: World) -> None:
        """Harm every server of the part."""
        if self.part == "bus":
            world.bus.kill()
            world.bus.start()
            return
        for server in world.servers(self.part):
            (LocalServer.pause if self.fault == "hung" else LocalServer.kill)(server)

    def end(self, world: World) -> None:
        """Mend it; what was wiped comes back empty."""
        if self.part != "bus":
            for server in world.servers(self.part):
                MENDING[self.fault](server)


MENDING: dict[str, Callable[[LocalServer], object]] = {
    "stopped": LocalServer.start,
    "hung": LocalServer.resume,
    "wiped": LocalServer.wipe,
}


def covering() -> Iterator[tuple[Trouble, Trouble]]:
    """Give pairs of troubles in which all pairs of parts meet, and each part's faults meet every fault of others.

    The store is not wiped: who keeps traces nowhere else has lost them. The bus is killed beside every part.
    """
    parts = ["kafka", "rabbitmq", "nsq", "mongodb"]
    faults = list(MENDING)
    for n, (one, other) in enumerate(itertools.combinations(parts, 2)):
        for m, fault in enumerate(faults):
            second = faults[(n + m) % len(faults)]
            yield Trouble(one, fault), Trouble(other, "stopped" if (other, second) == ("mongodb", "wiped") else second)
    for n, part in enumerate([*parts, *parts[:3]]):
        yield Trouble(part, faults[n % 2 if part == "mongodb" else n % 3]), Trouble("bus", "killed")


@contextmanager
def world(folder: Path, transports: Sequence[str], **settings: str) -> Iterator[World]:
    with ExitStack() as stack:
        parts = {transport: stack.enter_context(BROKERS[transport](folder / transport)) for transport in transports}
        parts["mongodb"] = stack.enter_context(STORES["mongodb"](folder / "mongodb"))
        env = settings | {key: value for part in parts.values() for key, value in part.env.items()}
        flaky = [f"/{transport}/flaky=fail:0.3" for transport in transports]
        subscriber = stack.enter_context(SubscriberProcess(folder, *flaky))
        bus = stack.enter_context(BusProcess(folder / "data", log=folder / "bus.log", env=env))
        made = World(bus, subscriber, parts, {transport: [] for transport in transports})
        made.configure()
        made.wait_well()
        yield made


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("degradation"), FEW, BUS_EVENTS="kafka") as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("degradation"), tuple(BROKERS)) as made:
        yield made


def survive(world: World, *troubles: Trouble, calm: bool = True) -> None:
    """Harm parts, send, and look at health; mend them, and look at the traces.

    Parameters
    ----------
    calm
        Everything sent before is delivered when the parts are harmed; otherwise they are harmed in the middle of it.
    """
    world.send()
    if calm:
        world.wait_delivered()
    before = world.count
    for trouble in troubles:
        trouble.begin(world)
    try:
        world.send()
        world.wait_delivered(since=before)
        lasting = [PARTS[trouble.part] for trouble in troubles if trouble.part in PARTS]
        for part in lasting:
            wait_until(
                lambda part=part: any(ill.startswith(part) for ill in world.ill() & world.degraded()),
                within=FLOWS_WITHIN,
                what=f"health names {part}",
                state=world.ill,
                every=0.2,
            )
        doctor = run_bus("doctor", "--url", world.bus.url)
        assert doctor.returncode == 1, doctor.stdout
        assert all(part in doctor.stdout for part in lasting), doctor.stdout
    finally:
        for trouble in troubles:
            trouble.end(world)
    world.wait_well()
    world.send()
    world.wait_delivered()
    for transport, sent in world.sent.items():
        world.bus.admin.wait_drained(transport, sent, within=MENDED_WITHIN)


def test_messages_flow_and_events_wait_while_kafka_is_stopped(small: World) -> None:
    admin, known, before = small.bus.admin, small.bus.admin.metric("bus_events_emitted_total"), small.count
    survive(small, Trouble("kafka", "stopped"))
    told = 4 * len(FEW) * (small.count - before)  # accepted, published, and settled by two subscribers
    wait_until(
        lambda: admin.metric("bus_events_emitted_total") >= known + told, within=MENDED_WITHIN, what="events are told"
    )
    assert admin.metric("bus_events_lost_total") == 0
    assert not (small.bus.data / "events").exists()


def test_messages_flow_while_the_store_is_stopped(small: World) -> None:
    survive(small, Trouble("mongodb", "stopped"))


@pytest.fixture
def storeless(small: World) -> Iterator[World]:
    """Start the bus while its store is away; the store is back afterwards."""
    (store,) = small.servers("mongodb")
    kept = small.bus.data / "configuration"
    wait_until(lambda: small.is_kept(kept), within=60, what="the configuration is on disk")
    small.bus.stop()  # killed, it would still be a member of Kafka's groups for seconds
    store.kill()
    try:
        small.bus.start()
        yield small
    finally:
        if not store.child.running:
            store.start()


def test_the_bus_starts_while_its_store_is_away(storeless: World) -> None:
    assert storeless.bus.admin.send("unknown", b"{}").status_code == 503
    storeless.send()
    storeless.wait_delivered()
    storeless.servers("mongodb")[0].start()
    storeless.wait_well()
    for transport, sent in storeless.sent.items():
        storeless.bus.admin.wait_drained(transport, sent, within=MENDED_WITHIN)


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PARTS)
def test_messages_flow_while_any_part_is_stopped(shared: World, name: str) -> None:
    survive(shared, Trouble(name, "stopped"))


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PARTS)
def test_messages_flow_while_a_part_hangs(shared: World, name: str) -> None:
    survive(shared, Trouble(name, "hung"))


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("troubles", list(covering()), ids=lambda troubles: " and ".join(map(str, troubles)))
def test_messages_flow_in_two_troubles_at_once(shared: World, troubles: tuple[Trouble, Trouble]) -> None:
    survive(shared, *troubles, calm=False)


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name in PARTS if name != "mongodb"])
def test_nothing_is_lost_when_a_broker_loses_everything(shared: World, name: str) -> None:
    shared.send()
    for server in shared.servers(name):
        server.wipe()
    shared.send()
    shared.wait_delivered()
    shared.wait_well()
    for transport, sent in shared.sent.items():
        shared.bus.admin.wait_drained(transport, sent, within=MENDED_WITHIN)
