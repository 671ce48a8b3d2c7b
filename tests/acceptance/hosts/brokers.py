"""RabbitMQ, or two groups of Kafka brokers, each behind a host of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.hosts.network import Host, Relay
from tests.servers import need
from tests.servers.kafka_cluster import KafkaCluster
from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.running import LocalServer

GROUPS = ("east", "west")
# The hosts of the brokers of each transport.
PLACES: dict[str, tuple[str, ...]] = {"direct": (), "rabbitmq": ("broker",), "kafka": GROUPS}


class Broker(NamedTuple):
    """The servers behind one host; ``start`` starts those that do not run, and waits for them."""

    links: Sequence[Relay]
    servers: Sequence[LocalServer]
    start: Callable[[], object]

    def pause(self) -> None:
        """SIGSTOP all servers."""
        for server in self.servers:
            server.pause()

    def resume(self) -> None:
        """Undo ``pause``."""
        for server in self.servers:
            server.resume()

    def kill(self) -> None:
        """SIGKILL all servers."""
        for server in self.servers:
            server.kill()

    def delay(self, seconds: float) -> None:
        """Delay each piece of a stream to or from the servers."""
        for link in self.links:
            link.delay = seconds


class Brokers(NamedTuple):
    """All brokers of a transport by their hosts' names, and the settings of a bus for them."""

    by_place: dict[str, Broker]
    env: dict[str, str]


def open_brokers(stack: ExitStack, transport: str, folder: Path, hosts: Mapping[str, Host]) -> Brokers:
    """Start the brokers of a transport on their hosts; direct has none."""
    if transport == "rabbitmq":
        rabbitmq = stack.enter_context(RabbitmqServer(need("rabbitmq"), folder / "rabbitmq"))
        link = Relay(hosts["broker"], rabbitmq.port)
        env = {"BUS_RABBITMQ_PRIMARY": f"amqp://guest:guest@{link.address}/"}
        return Brokers({"broker": Broker([link], [rabbitmq], rabbitmq.start)}, env)
    if transport == "kafka":
        groups = {name: _open_group(stack, folder / name, hosts[name]) for name in GROUPS}
        addresses = {name: ",".join(link.address for link in group.links) for name, group in groups.items()}
        env = {"BUS_KAFKA_GROUPS": json.dumps(addresses), "BUS_KAFKA_BOOTSTRAP": addresses[GROUPS[0]]}
        return Brokers(groups, env)
    return Brokers({}, {})


def _open_group(stack: ExitStack, folder: Path, host: Host) -> Broker:
    cluster = KafkaCluster(need("kafka"), folder, host.ip)
    # Brokers speak with each other through the relays as well.
    links = [Relay(host, broker.port) for broker in cluster.copies]
    stack.enter_context(cluster)
    return Broker(links, cluster.copies, cluster.start)
