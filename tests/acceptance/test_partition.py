"""Two buses over one MongoDB that are cut off from each other and from the store, stopped, and left without the store.

Whatever is done, a subscriber never gets more requests at once than its ``max_concurrency``, and gets every message.
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

import httpx
import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.process import free_port
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.mongodb_server import MongodbServer
from tests.servers.toxiproxy import Proxy, Toxiproxy

SLOTS: Final = 3
PAUSE: Final = 0.18
LONG: Final = 200.0
PATH: Final = "/slow"
SUBSCRIPTION: Final = {"max_concurrency": SLOTS, "timeout_seconds": 2, "retry": ["1s"]}


class Node:
    """One bus; it reaches the store, and is reached by the other bus, over a network that can be cut."""

    def __init__(self, network: Toxiproxy, store: MongodbServer, folder: Path, name: str) -> None:
        port = free_port()
        self.store = network.proxy(f"{name}-store", urlsplit(store.url).netloc)
        self.peers = network.proxy(f"{name}-peers", f"127.0.0.1:{port}")
        env = {
            "BUS_STORE": f"mongodb://{self.store.address}/bus",
            "BUS_ADVERTISE": f"http://{self.peers.address}",
        }
        self.bus = BusProcess(folder / name, port=port, env=env)


class Hosts:
    """Two nodes, a subscriber that counts what it gets at once, and a producer that sends to both."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.accepted: list[str] = []
        self._sends = True

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            network = stack.enter_context(Toxiproxy(need("toxiproxy"), self._folder))
            store = stack.enter_context(MongodbServer(self._folder / "mongodb", need("mongodb")))
            self.subscriber = stack.enter_context(SubscriberProcess(self._folder, f"{PATH}=delay:0.3", fsync=False))
            self.one, self.other = (Node(network, store, self._folder, name) for name in ("one", "other"))
            for node in (self.one, self.other):
                stack.enter_context(node.bus)
            self.one.bus.admin.destination("orders")
            self.one.bus.admin.subscription("orders", "slow", self.subscriber.url(PATH), **SUBSCRIPTION)
            pool = stack.enter_context(ThreadPoolExecutor())
            self._producers = [pool.submit(self._produce, node) for node in (self.one, self.other)]
            stack.callback(self.finish)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _produce(self, node: Node) -> None:
        with httpx.Client(base_url=node.bus.url, timeout=10, trust_env=False) as client:
            for number in itertools.count():
                if not self._sends:
                    return
                time.sleep(PAUSE)
                try:
                    answer = client.post("/v1/messages/orders", content=json.dumps({"seq": number}))
                except httpx.TransportError:
                    continue
                if answer.status_code == 202:
                    self.accepted.append(answer.json()["id"])

    def finish(self) -> None:
        """Send nothing more."""
        self._sends = False
        for producer in self._producers:
            producer.result()

    @contextmanager
    def cut(self, *proxies: Proxy) -> Iterator[None]:
        """Have nothing pass these, nor any connection be refused."""
        for proxy in proxies:
            for stream in ("upstream", "downstream"):
                proxy.add("timeout", stream=stream, timeout=0)  # type: ignore[arg-type]
        yield
        for proxy in proxies:
            proxy.heal()

    @contextmanager
    def stopped(self, node: Node) -> Iterator[None]:
        """Have a bus stand still."""
        node.bus.child.signal(signal.SIGSTOP)
        yield
        node.bus.child.signal(signal.SIGCONT)

    @contextmanager
    def killed(self, node: Node) -> Iterator[None]:
        """Have a bus killed, and started again."""
        node.bus.kill()
        yield
        node.bus.start()

    def await_deliveries(self, count: int, within: float) -> None:
        """Wait until the subscriber has so many more."""
        wanted = self.subscriber.count(PATH) + count
        wait_until(lambda: self.subscriber.count(PATH) >= wanted, within=within, what=f"{count} more deliveries")

    def check(self) -> None:
        """Wait until all that was accepted has arrived, and see how."""
        self.finish()
        wait_until(self._has_all, within=240, what="all that is accepted arrives")
        found = self.subscriber.calls(PATH)
        repeated = sum(self._delivered().values()) - len(self._delivered())
        print(f"accepted {len(self.accepted)}, delivered {len(self._delivered())}, repeated {repeated}")
        assert max(call.in_flight for call in found) <= SLOTS

    def _has_all(self) -> bool:
        return set(self.accepted) <= self._delivered().keys()

    def _delivered(self) -> Counter[str]:
        return Counter(call.id for call in self.subscriber.calls(PATH) if call.status == 200)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with Hosts(tmp_path) as made:
        yield made


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_a_subscriber_never_gets_too_much_at_once(hosts: Hosts) -> None:
    hosts.await_deliveries(10, within=20)
    with hosts.cut(hosts.one.store, hosts.one.peers, hosts.other.peers):
        time.sleep(12)  # the other one takes the slots of this one
        hosts.await_deliveries(10, within=10)
    hosts.await_deliveries(10, within=10)
    with hosts.stopped(hosts.other):
        time.sleep(8)
    with hosts.cut(hosts.one.store, hosts.other.store):
        time.sleep(5)
        hosts.await_deliveries(10, within=10)
    hosts.check()


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(6))
def test_a_subscriber_never_gets_too_much_at_once_whatever_fails(hosts: Hosts, seed: int) -> None:
    dice, end = random.Random(seed), time.monotonic() + LONG
    one, other = hosts.one, hosts.other
    while time.monotonic() < end:
        node = dice.choice([one, other])
        peers = [one.peers, other.peers]
        fault = dice.choice(
            [
                hosts.cut(node.store, *peers),
                hosts.cut(*peers),
                hosts.cut(node.store),
                hosts.cut(one.store, other.store),
                hosts.cut(one.store, other.store, *peers),
                hosts.stopped(node),
                hosts.killed(node),
            ]
        )
        with fault:
            time.sleep(dice.choice([2, 6, 12, 25]))
        time.sleep(dice.choice([1, 5, 10]))
    hosts.check()
