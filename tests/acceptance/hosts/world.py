"""Buses on hosts of their own, with a store and brokers on others, and a subscriber that writes down what it gets."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import httpx

from tests.acceptance.hosts.brokers import PLACES, open_brokers
from tests.acceptance.hosts.network import Host, Relay, make_network
from tests.acceptance.hosts.nodes import MORE_ROLES, ROLES, Node
from tests.harness.admin import Admin
from tests.harness.bus_process import run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.mongodb_server import MongodbServer

SLOTS: Final = 3
PLAIN_CODE, KEYED_CODE, STRICT_CODE = "plain", "keyed", "strict"
# What each subscription's path does, and its settings.
SUBSCRIPTIONS: Final[dict[tuple[str, str], dict[str, Any]]] = {
    (PLAIN_CODE, "slow"): {"max_concurrency": SLOTS},
    (PLAIN_CODE, "failing"): {"max_concurrency": 8},
    (KEYED_CODE, "ordered"): {"max_concurrency": 8},
    (STRICT_CODE, "book"): {"max_concurrency": 1},
    (STRICT_CODE, "copy"): {"max_concurrency": 1},
}
_PATHS: Final = ("/slow=delay:0.1", "/failing=fail:0.1")
_COMMON: Final = {"timeout_seconds": 2, "retry": ["500ms", "1s", "2s"], "stuck_after": "20s"}
_SECRET: Final = "0123456789abcdef" * 2
_SHORT: Final = {"hold": "4s", "clear": "8s"}
_RULES: Final = (
    "role-missing part-down process-unreachable breaker-open errors saturated failed-over orphans stalled backlog age"
    " spool-age"
)
_ALARM_RULES: Final[dict[str, dict[str, object]]] = {
    **{rule: dict(_SHORT) for rule in _RULES.split()},
    "volume-low": {"off": True},
    "latency": {"off": True},
}


class World:
    """All hosts; to be used in a network of its own.

    Attributes
    ----------
    services
        The hosts that buses talk to, by what they have: ``store``, ``subscribers``, ``producers``, and the brokers.
    codes
        The destinations that there are.
    admins
        For the APIs of those hosts that have one.
    """

    def __init__(self, folder: Path, *, nodes: int, transport: str, apart: bool) -> None:
        self.folder = folder
        self.transport = transport
        make_network()
        names = ("store", "subscribers", "producers", *PLACES[transport])
        self.services = {name: Host(name, number) for number, name in enumerate(names, 2)}
        self.codes = (PLAIN_CODE, KEYED_CODE, *((STRICT_CODE,) if transport == "kafka" else ()))
        self._hosts = [Host(f"n{number}", 10 + number) for number in range(1, nodes + 1)]
        self._apart = apart
        self.nodes: list[Node] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.store = stack.enter_context(MongodbServer(self.folder / "mongodb", need("mongodb")))
            self.store_link = Relay(self.services["store"], self.store.port)
            brokers = open_brokers(stack, self.transport, self.folder, self.services)
            self.brokers = brokers.by_place
            env = {
                **brokers.env,
                "BUS_STORE": f"mongodb://{self.store_link.address}/bus",
                "BUS_SECRET_KEY": _SECRET,
                "BUS_EGRESS_ALLOW": "10.78.0.0/24",
                "BUS_ALARM_RULES": json.dumps(_ALARM_RULES),
            }
            self.subscriber = stack.enter_context(SubscriberProcess(self.folder, *_PATHS, fsync=False))
            self._subscribers = Relay(self.services["subscribers"], self.subscriber.port)
            self.key = self._first_key()
            self.nodes = [Node(host, self.folder, env, roles=self._roles(host)) for host in self._hosts]
            for node in self.nodes:
                stack.callback(node.close)
                node.start()
            self.admins = [node.admin for node in self.nodes if node.admin is not None]
            for admin in self.admins:
                admin.authorize(self.key)
            self._configure(self.admins[0])
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _roles(self, host: Host) -> tuple[str, ...]:
        if not self._apart:
            return ("",)
        return (*ROLES, *MORE_ROLES) if host in self._hosts[:2] else ROLES

    def peers_of(self, node: Node) -> list[Host]:
        """Return the hosts of the other buses."""
        return [other.host for other in self.nodes if other is not node]

    def ask(self, path: str) -> Any:
        """Return what the first bus that answers says; None if none does."""
        for admin in self.admins:
            try:
                answer = admin.call("GET", path, timeout=3)
            except httpx.HTTPError:
                continue
            if answer.is_success:
                return answer.json()
        return None

    def _first_key(self) -> str:
        data = self.folder / "first-key"
        env = {"BUS_STORE": f"{self.store.url}/bus", "BUS_SECRET_KEY": _SECRET}
        done = run_bus("key", "create", "--role", "admin", "--name", "first", "--data", data, env=env, within=60)
        assert done.returncode == 0, done.stdout + done.stderr
        shutil.rmtree(data, ignore_errors=True)
        return next(word for word in done.stdout.split() if word.startswith("bus_"))

    def _configure(self, admin: Admin) -> None:
        for code in self.codes:
            ordering = {KEYED_CODE: "key", STRICT_CODE: "strict"}.get(code, "none")
            admin.destination(code, transport=self.transport, ordering=ordering)
        for (code, name), settings in SUBSCRIPTIONS.items():
            if code in self.codes:
                url = f"http://{self._subscribers.address}/{name}"
                wait_until(lambda: self._subscribe(admin, code, name, url, settings), within=20, what="a subscription")  # noqa: B023

    def _subscribe(self, admin: Admin, code: str, name: str, url: str, settings: dict[str, Any]) -> bool:
        path = f"/api/v1/destinations/{code}/subscriptions/{name}"
        return admin.call("PUT", path, json={"name": name, "url": url, **_COMMON, **settings}).is_success
