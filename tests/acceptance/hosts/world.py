"""Buses on hosts of their own, with a store and a broker on others, and a subscriber that writes down what it gets."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from tests.acceptance.hosts.network import Host, Relay, make_network
from tests.harness.admin import Admin
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.moved_clock import MovedClock
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.mongodb_server import MongodbServer
from tests.servers.rabbitmq import RabbitmqServer

PORT: Final = 8700
SLOTS: Final = 3
PLAIN_CODE, KEYED_CODE = "plain", "keyed"
# What each subscription's path does, and its settings.
SUBSCRIPTIONS: Final[dict[tuple[str, str], dict[str, Any]]] = {
    (PLAIN_CODE, "slow"): {"max_concurrency": SLOTS},
    (PLAIN_CODE, "failing"): {"max_concurrency": 8},
    (KEYED_CODE, "ordered"): {"max_concurrency": 8},
}
_PATHS: Final = ("/slow=delay:0.1", "/failing=fail:0.1")
_COMMON: Final = {"timeout_seconds": 2, "retry": ["500ms", "1s", "2s"], "stuck_after": "20s"}


class Node:
    """A bus on a host: everything in one process."""

    def __init__(self, host: Host, folder: Path, env: dict[str, str], clock: MovedClock) -> None:
        self.host = host
        self.clock = clock
        url = f"http://{host.ip}:{PORT}"
        env = {**env, **clock.env, "BUS_HOST": "0.0.0.0", "BUS_ADVERTISE": url, "BUS_NODE": host.name}
        self.bus = BusProcess(folder / host.name, port=PORT, env=env, under=host.enter)
        self.bus.url, self.bus.admin = url, Admin(url)


class World:
    """All hosts; to be used in a network of its own.

    Attributes
    ----------
    services
        The hosts that buses talk to, by what they have: ``store``, ``broker``, ``subscribers``, ``producers``.
    """

    def __init__(self, folder: Path, *, nodes: int, transport: str) -> None:
        self.folder = folder
        self.transport = transport
        make_network()
        names = ("store", "broker", "subscribers", "producers")
        self.services = {name: Host(name, number) for number, name in enumerate(names, 2)}
        self._nodes = [Host(f"n{number}", 10 + number) for number in range(1, nodes + 1)]
        self.nodes: list[Node] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.store = stack.enter_context(MongodbServer(self.folder / "mongodb", need("mongodb")))
            self.store_link = Relay(self.services["store"], self.store.port)
            env = {
                "BUS_STORE": f"mongodb://{self.store_link.address}/bus",
                "BUS_SECRET_KEY": "0123456789abcdef" * 2,
                "BUS_EGRESS_ALLOW": "10.78.0.0/24",
            }
            self.broker = self._broker(stack)
            if self.broker is not None:
                self.broker_link = Relay(self.services["broker"], self.broker.port)
                env["BUS_RABBITMQ_PRIMARY"] = f"amqp://guest:guest@{self.broker_link.address}/"
            self.subscriber = stack.enter_context(SubscriberProcess(self.folder, *_PATHS, fsync=False))
            self._subscribers = Relay(self.services["subscribers"], self.subscriber.port)
            self.key = self._first_key()
            self.nodes = [Node(host, self.folder, env, self._clock(host)) for host in self._nodes]
            for node in self.nodes:
                stack.enter_context(node.bus)
                node.bus.admin.authorize(self.key)
            self._configure(self.nodes[0].bus.admin)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _broker(self, stack: ExitStack) -> RabbitmqServer | None:
        if self.transport != "rabbitmq":
            return None
        return stack.enter_context(RabbitmqServer(need("rabbitmq"), self.folder / "rabbitmq"))

    def _clock(self, host: Host) -> MovedClock:
        folder = self.folder / f"{host.name}-clock"
        folder.mkdir()
        return MovedClock(folder)

    def _first_key(self) -> str:
        data = self.folder / "first-key"
        env = {"BUS_STORE": f"{self.store.url}/bus", "BUS_SECRET_KEY": "0123456789abcdef" * 2}
        done = run_bus("key", "create", "--role", "admin", "--name", "first", "--data", data, env=env, within=60)
        assert done.returncode == 0, done.stdout + done.stderr
        shutil.rmtree(data, ignore_errors=True)
        return next(word for word in done.stdout.split() if word.startswith("bus_"))

    def _configure(self, admin: Admin) -> None:
        admin.destination(PLAIN_CODE, transport=self.transport)
        admin.destination(KEYED_CODE, transport=self.transport, ordering="key")
        for (code, name), settings in SUBSCRIPTIONS.items():
            url = f"http://{self._subscribers.address}/{name}"
            wait_until(lambda: self._subscribe(admin, code, name, url, settings), within=20, what="a subscription")  # noqa: B023

    def _subscribe(self, admin: Admin, code: str, name: str, url: str, settings: dict[str, Any]) -> bool:
        path = f"/api/v1/destinations/{code}/subscriptions/{name}"
        return admin.call("PUT", path, json={"name": name, "url": url, **_COMMON, **settings}).is_success

    def peers_of(self, node: Node) -> list[Host]:
        """Return the hosts of the other buses."""
        return [other.host for other in self.nodes if other is not node]
