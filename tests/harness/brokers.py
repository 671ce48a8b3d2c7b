"""Real brokers for runs in which they are harmed: what the bus is told of them, and their servers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.servers import need, nsq
from tests.servers.running import LocalServer

# Long enough for every side to notice.
DOWN = 1.5


class Broker(NamedTuple):
    """A broker at work: the road's name, the bus's settings for it, and the servers that may be harmed."""

    transport: str
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
def _direct(_: Path) -> Iterator[Broker]:
    yield Broker("direct", {}, ())


@contextmanager
def _nsq(folder: Path) -> Iterator[Broker]:
    with nsq.running(need("nsq"), folder) as servers:
        env = {"BUS_NSQ_NSQD": servers.places.nsqd, "BUS_NSQ_LOOKUPD": servers.places.lookupd}
        yield Broker("nsq", env, servers.nsqds)


BROKERS = {"direct": _direct, "nsq": _nsq}
