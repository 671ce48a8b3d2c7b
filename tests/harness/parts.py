"""Real brokers and stores for runs in which they are harmed: what the bus is told of them, and their servers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.servers import kafka, need, nsq, rabbitmq
from tests.servers.mongodb_server import MongodbServer
from tests.servers.running import LocalServer

# Long enough for every side to notice.
DOWN = 1.5


class Part(NamedTuple):
    """Something that the bus stands on: the bus's settings for it, and the servers that may be harmed."""

    env: dict[str, str]
    servers: Sequence[LocalServer]

    def restart(self, dice: random.Random) -> Callable[[], None]:
        """Return what kills one server, keeps it down for a while, and starts it."""

        def strike() -> None:
            server = dice.choice(self.servers)
            server.kill()
            time.sleep(DOWN)
            server.start()

        return strike

    def pause(self, dice: random.Random) -> Callable[[], None]:
        """Return what lets one server hang for a while."""

        def strike() -> None:
            server = dice.choice(self.servers)
            server.pause()
            time.sleep(DOWN)
            server.resume()

        return strike

    def wipe(self, dice: random.Random) -> Callable[[], None]:
        """Return what kills one server, deletes all that it stored, and starts it."""
        return lambda: dice.choice(self.servers).wipe()


@contextmanager
def _direct(_: Path) -> Iterator[Part]:
    yield Part({}, ())


@contextmanager
def _kafka(folder: Path) -> Iterator[Part]:
    with kafka.KafkaServer(need("kafka"), folder) as server:
        yield Part({"BUS_KAFKA_BOOTSTRAP": server.bootstrap}, (server,))


@contextmanager
def _rabbitmq(folder: Path) -> Iterator[Part]:
    home = need("rabbitmq")
    with (
        rabbitmq.RabbitmqServer(home, folder / "primary", name="primary") as primary,
        rabbitmq.RabbitmqServer(home, folder / "backup", name="backup") as backup,
    ):
        env = {"BUS_RABBITMQ_PRIMARY": primary.url, "BUS_RABBITMQ_BACKUP": backup.url}
        yield Part(env, (primary, backup))


@contextmanager
def _nsq(folder: Path) -> Iterator[Part]:
    with nsq.running(need("nsq"), folder) as servers:
        env = {"BUS_NSQ_NSQD": servers.places.nsqd, "BUS_NSQ_LOOKUPD": servers.places.lookupd}
        yield Part(env, servers.nsqds)


@contextmanager
def _sqlite(_: Path) -> Iterator[Part]:
    yield Part({}, ())


@contextmanager
def _mongodb(folder: Path) -> Iterator[Part]:
    with MongodbServer(folder, need("mongodb")) as server:
        yield Part({"BUS_STORE": f"{server.url}/bus"}, (server,))


Opener = Callable[[Path], AbstractContextManager[Part]]
BROKERS: Final[dict[str, Opener]] = {"direct": _direct, "kafka": _kafka, "rabbitmq": _rabbitmq, "nsq": _nsq}
STORES: Final[dict[str, Opener]] = {"sqlite": _sqlite, "mongodb": _mongodb}
