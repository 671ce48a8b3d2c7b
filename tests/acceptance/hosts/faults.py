"""What is done to hosts, servers and clocks, at times and places that a seed chooses."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

from tests.acceptance.hosts.network import Host
from tests.acceptance.hosts.world import Node, World

LONGEST: Final = 45.0
Harm = Callable[[World], AbstractContextManager[None]]


class Fault(NamedTuple):
    """One fault; ``begin`` and ``end`` are seconds from the begin of the schedule."""

    begin: float
    end: float
    kind: str
    node: int
    peers: tuple[str, ...] = ()
    way: str = ""
    amount: float = 0.0

    def __str__(self) -> str:
        where = f" n{self.node + 1}" if self.node >= 0 else ""
        peers = f" {self.way} {'+'.join(self.peers)}" if self.peers else ""
        amount = f" {self.amount:g}" if self.amount else ""
        return f"{self.begin:.0f}-{self.end:.0f} {self.kind}{where}{peers}{amount}"


_PEERS: Final = (("store",), ("peers",), ("subscribers",), ("producers",), ("store", "peers"), ("broker",), ("all",))
_CLOCKS: Final = (-3600, -60, -8, 8, 60, 3600)
_DELAYS: Final = (0.02, 0.1, 0.5)


def schedule(seed: int, seconds: float, *, nodes: int, broker: bool, most: int = 2) -> list[Fault]:
    """Return faults, at most so many at a time; one node at least is always left alone."""
    dice, found, now = random.Random(seed), list[Fault](), 5.0
    while now < seconds - 5:
        fault = _draw(dice, now, seconds, nodes, broker=broker)
        under_way = [one for one in found if one.end > now]
        harmed = {one.node for one in (*under_way, fault)} - {-1}
        same = any(one.kind == fault.kind or one.node == fault.node for one in under_way)
        if len(under_way) < most and not same and len(harmed) < nodes:
            found.append(fault)
        now += dice.uniform(1, 12)
    return found


def _draw(dice: random.Random, now: float, seconds: float, nodes: int, *, broker: bool) -> Fault:
    end = min(now + dice.choice([2, 6, 12, 25, LONGEST]), seconds)
    kinds = ["cut", "cut", "cut", "stop", "kill", "clock", "store stop", "store kill", "store slow"]
    kind = dice.choice([*kinds, "broker stop", "broker kill", "broker slow"] if broker else kinds)
    node = dice.randrange(nodes) if kind in ("cut", "stop", "kill", "clock") else -1
    if kind == "cut":
        peers = dice.choice([one for one in _PEERS if broker or one != ("broker",)])
        return Fault(now, end, kind, node, peers, dice.choice(["both", "both", "in", "out"]))
    amount = dice.choice(_CLOCKS) if kind == "clock" else dice.choice(_DELAYS) if kind.endswith("slow") else 0.0
    return Fault(now, end, kind, node, amount=amount)


@contextmanager
def harmed(world: World, fault: Fault) -> Iterator[None]:
    """Do what a fault says, until the end of the context."""
    node = world.nodes[fault.node] if fault.node >= 0 else None
    server = world.broker if fault.kind.startswith("broker") else world.store
    if fault.kind == "cut" and node is not None:
        with _cut(world, node, fault):
            yield
    elif fault.kind == "stop" and node is not None:
        node.bus.child.signal(signal.SIGSTOP)
        yield
        node.bus.child.signal(signal.SIGCONT)
    elif fault.kind == "kill" and node is not None:
        node.bus.kill()
        yield
        node.bus.child.start()
    elif fault.kind == "clock" and node is not None:
        node.clock.put(round(fault.amount))
        yield
        node.clock.put(0)
    elif fault.kind.endswith("slow"):
        link = world.broker_link if fault.kind.startswith("broker") else world.store_link
        link.delay = fault.amount
        yield
        link.delay = 0.0
    elif server is not None:
        (server.pause if fault.kind.endswith("stop") else server.kill)()
        yield
        (server.resume if fault.kind.endswith("stop") else server.start)()


@contextmanager
def _cut(world: World, node: Node, fault: Fault) -> Iterator[None]:
    """Have packets between a node and others vanish, of one direction or of both."""
    hosts: list[Host] = []
    for name in ("store", "peers", "subscribers", "producers", "broker") if fault.peers == ("all",) else fault.peers:
        hosts += world.peers_of(node) if name == "peers" else [world.services[name]]
    ways = [(node.host, host) for host in hosts if fault.way in ("both", "out")]
    ways += [(host, node.host) for host in hosts if fault.way in ("both", "in")]
    for source, target in ways:
        source.lose(target)
    yield
    for source, target in ways:
        source.reach(target)


def run(world: World, faults: list[Fault], note: Callable[[str], None]) -> None:
    """Do all faults at their times; returns when the last one is over."""
    begun = time.monotonic()
    waiting = sorted(faults)
    open_: list[tuple[Fault, AbstractContextManager[None]]] = []
    while waiting or open_:
        now = time.monotonic() - begun
        for item in [item for item in open_ if item[0].end <= now]:
            item[1].__exit__(None, None, None)
            open_.remove(item)
            note(f"over: {item[0]}")
        while waiting and waiting[0].begin <= now:
            fault = waiting.pop(0)
            harm = harmed(world, fault)
            harm.__enter__()
            open_.append((fault, harm))
            note(f"{fault}")
        time.sleep(0.05)
