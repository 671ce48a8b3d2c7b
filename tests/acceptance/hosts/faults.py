"""Faults of hosts, servers, disks and clocks, at times and places that a seed chooses."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, NamedTuple

from tests.acceptance.hosts.brokers import PLACES
from tests.acceptance.hosts.network import Host
from tests.acceptance.hosts.nodes import ROLES, Node
from tests.acceptance.hosts.producers import SdkProducer
from tests.acceptance.hosts.world import World

LONGEST: Final = 45.0


class Fault(NamedTuple):
    """One fault; ``begin`` and ``end`` are seconds from the begin of the schedule.

    ``place`` is the host that it is done to, or ``sdk`` with a number; ``role`` the process there, empty for all.
    """

    begin: float
    end: float
    kind: str
    place: str
    role: str = ""
    peers: tuple[str, ...] = ()
    way: str = ""
    amount: float = 0.0

    def __str__(self) -> str:
        words = [f"{self.begin:.0f}-{self.end:.0f}", self.kind, self.place, self.role, self.way, "+".join(self.peers)]
        return " ".join(word for word in [*words, f"{self.amount:g}" if self.amount else ""] if word)

    @property
    def name(self) -> str:
        """What it is called in tables: without times and numbers."""
        where = "node" if self.is_of_node else self.place.rstrip("0123456789")
        return " ".join(word for word in (where, self.role, self.kind, "+".join(self.peers)) if word)

    @property
    def is_of_node(self) -> bool:
        """Whether it is done to a host of the bus."""
        return self.place.startswith("n")


class Shape(NamedTuple):
    """What there is to be harmed."""

    nodes: int = 3
    transport: str = "direct"
    apart: bool = False
    sdks: int = 3


_PEERS: Final = (("store",), ("peers",), ("subscribers",), ("producers",), ("store", "peers"), ("all",))
_CLOCKS: Final = (-3600, -60, -8, 8, 60, 3600)
_DELAYS: Final = (0.02, 0.1, 0.5)
_LOSSES: Final = (0.05, 0.2)
_LENGTHS: Final = (2, 6, 12, 25, LONGEST)
# Of a lossy host: packets are dropped for this long at a time, some seconds apart.
_BURST: Final = 0.05


def schedule(seed: int, seconds: float, shape: Shape, most: int = 2) -> list[Fault]:
    """Return faults, at most so many at a time; one node at least is always left alone."""
    dice, found, now = random.Random(seed), list[Fault](), 5.0
    while now < seconds - 5:
        fault = _draw(dice, now, seconds, shape)
        under_way = [one for one in found if one.end > now]
        harmed = {one.place for one in (*under_way, fault) if one.is_of_node}
        same = any(one.name == fault.name or one.place == fault.place for one in under_way)
        if len(under_way) < most and not same and len(harmed) < shape.nodes:
            found.append(fault)
        now += dice.uniform(1, 12)
    return found


def _draw(dice: random.Random, now: float, seconds: float, shape: Shape) -> Fault:
    end = min(now + dice.choice(_LENGTHS), seconds)
    brokers = PLACES[shape.transport]
    places = ["node"] * 6 + ["store"] * 3 + ["broker"] * 3 * bool(brokers) + ["sdk"] * bool(shape.sdks)
    match dice.choice(places):
        case "node":
            return _draw_of_node(dice, Fault(now, end, "", f"n{dice.randint(1, shape.nodes)}"), shape)
        case "sdk":
            return Fault(now, end, "kill", f"sdk{dice.randint(1, shape.sdks)}")
        case place:
            at = "store" if place == "store" else dice.choice(brokers)
            kinds = ["stop", "kill", "slow", *(["wipe"] if at == "broker" else [])]
            kind = dice.choice(kinds)
            return Fault(now, end, kind, at, amount=dice.choice(_DELAYS) if kind == "slow" else 0.0)


def _draw_of_node(dice: random.Random, fault: Fault, shape: Shape) -> Fault:
    kind = dice.choice(["cut", "cut", "cut", "lossy", "stop", "kill", "clock", "disk"])
    fault = fault._replace(kind=kind)
    if kind == "cut":
        brokers = ((place,) for place in PLACES[shape.transport])
        peers = dice.choice([*_PEERS, *brokers])
        return fault._replace(peers=peers, way=dice.choice(["both", "both", "in", "out"]))
    if kind in ("stop", "kill"):
        return fault._replace(role=dice.choice(["", *ROLES]) if shape.apart else "")
    choices = {"lossy": _LOSSES, "clock": _CLOCKS, "disk": (0.0,)}[kind]
    return fault._replace(amount=dice.choice(choices))


@contextmanager
def harmed(world: World, sdks: Sequence[SdkProducer], fault: Fault) -> Iterator[None]:
    """Do what a fault says, until the end of the context."""
    nodes = {node.host.name: node for node in world.nodes}
    if fault.place.startswith("sdk"):
        sdk = sdks[int(fault.place.removeprefix("sdk")) - 1]
        sdk.kill()
        yield
        sdk.start()
    elif fault.is_of_node:
        with _harmed_node(world, nodes[fault.place], fault):
            yield
    elif fault.kind == "slow":
        links = [world.store_link] if fault.place == "store" else world.brokers[fault.place].links
        for link in links:
            link.delay = fault.amount
        yield
        for link in links:
            link.delay = 0.0
    else:
        server = world.store if fault.place == "store" else world.brokers[fault.place]
        (server.pause if fault.kind == "stop" else server.kill)()
        yield
        if fault.kind == "wipe":
            for one in world.brokers[fault.place].servers:
                shutil.rmtree(one.data)
                one.data.mkdir()
        (server.resume if fault.kind == "stop" else server.start)()


@contextmanager
def _harmed_node(world: World, node: Node, fault: Fault) -> Iterator[None]:
    if fault.kind == "cut":
        with _cut(world, node, fault.peers, fault.way):
            yield
    elif fault.kind == "lossy":
        over = threading.Event()
        thread = threading.Thread(target=_lose_packets, args=(world, node, fault.amount, over))
        thread.start()
        yield
        over.set()
        thread.join()
    elif fault.kind == "stop":
        node.pause(fault.role)
        yield
        node.resume(fault.role)
    elif fault.kind == "kill":
        node.kill(fault.role)
        yield
        node.start(fault.role)
    elif fault.kind == "disk":
        node.fill_disk()
        yield
        node.free_disk()
    else:
        node.clock.put(round(fault.amount))
        yield
        node.clock.put(0)


@contextmanager
def _cut(world: World, node: Node, peers: Sequence[str], way: str) -> Iterator[None]:
    """Have packets between a node and others vanish, of one direction or of both."""
    hosts: list[Host] = []
    for name in ("peers", *world.services) if peers == ("all",) else peers:
        hosts += world.peers_of(node) if name == "peers" else [world.services[name]]
    ways = [(node.host, host) for host in hosts if way in ("both", "out")]
    ways += [(host, node.host) for host in hosts if way in ("both", "in")]
    for source, target in ways:
        source.lose(target)
    yield
    for source, target in ways:
        source.reach(target)


def _lose_packets(world: World, node: Node, share: float, over: threading.Event) -> None:
    """Drop what is sent from and to a node in bursts that make up a share of the time."""
    dice = random.Random(node.host.name)
    while not over.wait(_BURST * (1 / share - 1) * dice.uniform(0.5, 1.5)):
        with _cut(world, node, ("all",), "both"):
            time.sleep(_BURST)


def run(world: World, sdks: Sequence[SdkProducer], faults: Sequence[Fault], note: Callable[[str], None]) -> None:
    """Do all faults at their times; returns when the last one is over."""
    begun = time.monotonic()
    locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def do(fault: Fault) -> None:
        time.sleep(max(0.0, fault.begin - (time.monotonic() - begun)))
        # What is started again may take longer than the schedule says.
        with locks[fault.place]:
            note(str(fault))
            with harmed(world, sdks, fault):
                time.sleep(max(0.0, fault.end - (time.monotonic() - begun)))
        note(f"over: {fault}")

    with ThreadPoolExecutor(max(1, len(faults))) as pool:
        list(pool.map(do, faults))
