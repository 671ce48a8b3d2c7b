"""Two groups of real brokers for a strict order, each copy of which may be harmed: what the bus is told of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from bus.transports.rabbitmq.names import Lane
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.kafka_cluster import KafkaCluster
from tests.servers.rabbitmq_cluster import RabbitmqCluster
from tests.servers.running import LocalServer

NAMES: Final = ("east", "west")


class Group(Protocol):
    """Servers that keep a copy each."""

    @property
    def copies(self) -> Sequence[LocalServer]:
        """Those servers."""
        ...

    def mend(self) -> None:
        """Undo whatever was done to them."""
        ...

    def lose_disks(self) -> None:
        """SIGKILL all of it, and delete all that it stored."""
        ...

    def keeps(self, lanes: Sequence[Lane]) -> bool:
        """Whether the queues of these would outlive a SIGKILL of all copies."""
        ...


class GroupPart(NamedTuple):
    """The bus's settings for the groups, the groups, and the subscriptions whose queues must be on them."""

    env: dict[str, str]
    groups: Sequence[Group]
    lanes: Sequence[Lane]

    def kill(self, dice: random.Random, copies: int, down: float) -> Callable[[], None]:
        """Return what kills so many copies of one group, and brings them back after some seconds."""
        return lambda: self._harm(dice, copies, down, LocalServer.kill)

    def pause(self, dice: random.Random, copies: int, down: float) -> Callable[[], None]:
        """Return what has so many copies of one group stand still for some seconds."""
        return lambda: self._harm(dice, copies, down, LocalServer.pause)

    def _harm(self, dice: random.Random, copies: int, down: float, act: Callable[[LocalServer], None]) -> None:
        group = dice.choice(self.groups)
        wait_until(lambda: group.keeps(self.lanes), within=30, what="all queues are on the disks of a group")
        for server in dice.sample(list(group.copies), copies):
            act(server)
        time.sleep(down)
        group.mend()


@contextmanager
def _kafka(folder: Path, lanes: Sequence[Lane]) -> Iterator[GroupPart]:
    jars = need("kafka")
    with (
        KafkaCluster(jars, folder / NAMES[0]) as east,
        KafkaCluster(jars, folder / NAMES[1]) as west,
    ):
        places = {name: ",".join(group.bootstrap) for name, group in zip(NAMES, (east, west), strict=True)}
        yield GroupPart({"BUS_KAFKA_GROUPS": _json(places)}, (east, west), lanes)


@contextmanager
def _rabbitmq(folder: Path, lanes: Sequence[Lane]) -> Iterator[GroupPart]:
    home, data = need("rabbitmq"), need("rabbitmq_cluster")
    with (
        RabbitmqCluster(home, folder / NAMES[0], data) as east,
        RabbitmqCluster(home, folder / NAMES[1], data) as west,
    ):
        places = {name: group.url for name, group in zip(NAMES, (east, west), strict=True)}
        yield GroupPart({"BUS_RABBITMQ_GROUPS": _json(places)}, (east, west), lanes)


def _json(places: dict[str, str]) -> str:
    return msgspec.json.encode(places).decode()


Opener = Callable[[Path, Sequence[Lane]], AbstractContextManager[GroupPart]]
GROUPS: Final[dict[str, Opener]] = {"kafka": _kafka, "rabbitmq": _rabbitmq}
