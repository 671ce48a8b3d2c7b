"""Three RabbitMQ nodes that are one cluster, each of which can be harmed by itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Self

from bus.transports.rabbitmq.names import Lane
from bus.transports.rabbitmq.strict.names import queue_of
from tests.servers import rabbitmq
from tests.servers.cache import cache_dir, install_once
from tests.servers.rabbitmq import Epmd, RabbitmqServer

FORMED = f"rabbitmq-{rabbitmq.VERSION}-formed"

NODES: Final = ("one", "two", "three")
_SETTINGS: Final = (
    "cluster_formation.peer_discovery_backend = classic_config",
    *(f"cluster_formation.classic_config.nodes.{n} = {name}@localhost" for n, name in enumerate(NODES, 1)),
    # One that others took for gone and that was only paused starts anew; pausing the minority leaves it as it is.
    "cluster_partition_handling = autoheal",
    # Seconds after which nodes take one for gone that was paused; a minute by default.
    "net_ticktime = 8",
)


def find() -> Path | None:
    """Return the data of three nodes that have found each other, None when it is not there."""
    folder = cache_dir() / FORMED
    return folder if folder.is_dir() else None


def install() -> Path:
    """Have three nodes find each other, unless that is done; it takes them thrice as long as a start."""
    return install_once(FORMED, partial(_form, rabbitmq.install()), about="three nodes that find each other")


def _form(home: Path, work: Path) -> None:
    with RabbitmqCluster(home, work) as cluster:
        _at_once(RabbitmqServer.stop, cluster.nodes)


class RabbitmqCluster:
    """Three nodes, started together, with ports that stay the same over restarts.

    Parameters
    ----------
    home
        Where RabbitMQ is installed.
    folder
        For what all of them write.
    data
        With what they begin, as ``find`` returns it.
    """

    def __init__(self, home: Path, folder: Path, data: Path | None = None) -> None:
        if data is not None:
            for name in NODES:
                shutil.copytree(data / name / "data", folder / name / "data")
        self._epmd = Epmd(home, folder)
        self.nodes = [
            RabbitmqServer(home, folder / name, name=name, epmd=self._epmd, settings=_SETTINGS) for name in NODES
        ]

    @property
    def url(self) -> str:
        """Where they serve AMQP."""
        return f"amqp://guest:guest@{','.join(f'127.0.0.1:{node.port}' for node in self.nodes)}/"

    @property
    def copies(self) -> Sequence[RabbitmqServer]:
        """The nodes, each of which keeps all."""
        return self.nodes

    def start(self) -> Self:
        """Start those that do not run, together since each waits for the others, and let paused ones go on."""
        _at_once(_revive, self.nodes)
        return self

    def lose_disks(self) -> None:
        """SIGKILL all nodes, and delete all that they stored."""
        _at_once(RabbitmqServer.erase, self.nodes)

    def mend(self) -> None:
        """Undo whatever was done to its nodes."""
        self.start()

    def keeps(self, lanes: Sequence[Lane]) -> bool:
        """Whether the queues of these would outlive a SIGKILL of all nodes."""
        return all(node.remembers(queue_of(lane)) for node in self.nodes for lane in lanes)

    def close(self) -> None:
        """SIGKILL all; their folder stays."""
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _at_once(act: Callable[[RabbitmqServer], object], nodes: Sequence[RabbitmqServer]) -> None:
    with ThreadPoolExecutor(len(nodes)) as threads:
        list(threads.map(act, nodes))


def _revive(node: RabbitmqServer) -> None:
    if node.child.running:
        node.resume()
    else:
        node.start()
