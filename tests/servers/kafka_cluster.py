"""A Kafka cluster of two brokers and a controller apart, each of which a test may harm by its id."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

from bus.transports.rabbitmq.names import Lane
from tests.harness.process import free_port
from tests.harness.waiting import wait_until
from tests.servers.kafka import KafkaProcess, brokers_listed, free_ports, new_id

BROKERS: Final = (1, 2)
_CONTROLLER: Final = 3


class KafkaNode(KafkaProcess):
    """One process of a cluster.

    Parameters
    ----------
    cluster
        The id of its cluster.
    controller
        The port of the cluster's controller.
    """

    largest_heap = "256m"

    def __init__(self, jars: Path, folder: Path, node_id: int, cluster: str, controller: int) -> None:
        super().__init__(jars, folder)
        self.node_id = node_id
        self._cluster = cluster
        self._controller = controller

    def properties(self) -> dict[str, object]:
        """Return what each process of the cluster is told."""
        return {
            "node.id": self.node_id,
            "controller.quorum.voters": f"{_CONTROLLER}@127.0.0.1:{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.data,
            "num.network.threads": 2,
            "num.io.threads": 4,
            "log.cleaner.dedupe.buffer.size": 4_194_304,
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 300,
        }

    def _cluster_id(self) -> str:
        return self._cluster


class KafkaController(KafkaNode):
    """Keeps the quorum, and no messages, so that one broker alone can go on."""

    largest_heap = "128m"

    def properties(self) -> dict[str, object]:
        """Return what the controller is told."""
        return super().properties() | {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{self._controller}",
        }

    def answers(self) -> bool:
        """Whether it is there; whether it leads shows when brokers join it."""
        return True


class KafkaBroker(KafkaNode):
    """One of the two brokers.

    Attributes
    ----------
    port
        For clients in the clear, and for the other broker.
    address
        Where clients reach that port.
    """

    def __init__(self, jars: Path, folder: Path, node_id: int, cluster: str, controller: int, host: str) -> None:
        super().__init__(jars, folder, node_id, cluster, controller)
        self.port = free_port()
        self.address = f"{host}:{self.port}"

    def answers(self) -> bool:
        """Whether the broker answers a request for metadata with a broker in it."""
        try:
            return brokers_listed(self.port) > 0
        except (OSError, struct.error):
            return False

    def properties(self) -> dict[str, object]:
        """Return what a broker of a group needs (docs/kafka.md), and times that are short."""
        return super().properties() | {
            "process.roles": "broker",
            "listeners": f"PLAIN://127.0.0.1:{self.port}",
            "advertised.listeners": f"PLAIN://{self.address}",
            "inter.broker.listener.name": "PLAIN",
            "auto.create.topics.enable": "false",
            "default.replication.factor": 2,
            "offsets.topic.replication.factor": 2,
            "offsets.topic.num.partitions": 2,
            "transaction.state.log.replication.factor": 2,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 2,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
            "unclean.leader.election.enable": "false",
            "replica.lag.time.max.ms": 2000,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1000,
        }


class KafkaCluster:
    """Two brokers and a controller, whose ports stay the same over restarts.

    ``host`` is the address at which clients reach the brokers' ports, by relays if it is not the loopback.
    """

    def __init__(self, jars: Path, folder: Path, host: str = "127.0.0.1") -> None:
        cluster, (controller,) = new_id(), free_ports(1)
        self.controller = KafkaController(jars, folder / str(_CONTROLLER), _CONTROLLER, cluster, controller)
        self.brokers = {
            node: KafkaBroker(jars, folder / str(node), node, cluster, controller, host) for node in BROKERS
        }

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """Where clients find the brokers."""
        return tuple(broker.address for broker in self.brokers.values())

    @property
    def copies(self) -> list[KafkaBroker]:
        """The brokers, each of which keeps all."""
        return list(self.brokers.values())

    def start(self) -> Self:
        """Start what does not run, all at once, and wait until each broker knows both."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(_start, self._nodes()))
        wait_until(self._is_whole, within=60, what="both brokers know each other")
        return self

    def keeps(self, _: Sequence[Lane]) -> bool:
        """Return True: a topic is there when it was made."""
        return True

    def lose_disks(self) -> None:
        """SIGKILL all of it, and delete all that it stored."""
        for node in self._nodes():
            node.erase()

    def mend(self) -> None:
        """Undo whatever was done to its processes."""
        for node in self._nodes():
            node.resume()
        self.start()

    def close(self) -> None:
        """SIGKILL all of it."""
        for node in self._nodes():
            node.close()

    def _nodes(self) -> Iterator[KafkaNode]:
        yield self.controller
        yield from self.brokers.values()

    def _is_whole(self) -> bool:
        try:
            return all(brokers_listed(broker.port) == len(BROKERS) for broker in self.brokers.values())
        except (OSError, struct.error):
            return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _start(node: KafkaNode) -> None:
    if not node.child.running:
        node.start()
