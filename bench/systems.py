"""The systems that are measured, all driven in the same way: publish over HTTP, delivered by POST to a sink."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import httpx

from bench.usage import Usage
from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.process import Child, free_port
from tests.harness.process_group import ProcessGroup
from tests.harness.waiting import wait_until

TOPIC = "bench"
CONCURRENCY = 100
MOST_IN_FLIGHT = 1_600
"""Of all subscribers: more connections at once than the sink's backlog has room for are not answered in time, and
nsq_to_http tries what failed so again only after a minute and a half.
"""
START_WITHIN = 30.0


class BenchedTransport(NamedTuple):
    """A transport, and the bus's settings for its servers."""

    name: str
    env: dict[str, str]


DIRECT = BenchedTransport("direct", {})


def concurrency_of(subscribers: int) -> int:
    """Return how many requests at once each subscriber gets, from any system."""
    return min(CONCURRENCY, MOST_IN_FLIGHT // max(1, subscribers))


class System(Protocol):
    """A running system with a subscription for each URL."""

    name: str
    publish_url: str

    @property
    def usage(self) -> Usage:
        """CPU and memory of all its processes."""
        ...

    def start(self) -> Self: ...

    def pause(self, *, is_paused: bool) -> None:
        """Hold what its subscriptions get, or deliver it."""
        ...

    def kill(self) -> None:
        """SIGKILL the part that holds the messages."""
        ...

    def restart(self) -> None:
        """Start that part again."""
        ...

    def close(self) -> None:
        """End everything."""
        ...


class Nsq:
    """Stock nsqd with its disk queue only, and one nsq_to_http a subscriber."""

    name = "nsq"

    def __init__(self, folder: Path, urls: Sequence[str], programs: Path) -> None:
        self._programs = programs
        self._folder = folder / "nsqd"
        self._folder.mkdir(parents=True)
        self._http, self._tcp = free_port(), free_port()
        self.publish_url = f"http://127.0.0.1:{self._http}/pub?topic={TOPIC}"
        self._nsqd = Child(self._nsqd_argv(), log=folder / "nsqd.log")
        at_once = concurrency_of(len(urls))
        self._posters = [self._poster(number, url, folder, at_once) for number, url in enumerate(urls)]

    @property
    def usage(self) -> Usage:
        return Usage([self._nsqd.pid, *(poster.pid for poster in self._posters)])

    def start(self) -> Self:
        self._start_nsqd()
        self._call("topic/create", topic=TOPIC)
        for number, poster in enumerate(self._posters):
            self._call("channel/create", topic=TOPIC, channel=f"c{number}")
            poster.start()
        wait_until(self._consumed, within=START_WITHIN, what="nsq_to_http connected")
        return self

    def pause(self, *, is_paused: bool) -> None:
        verb = "pause" if is_paused else "unpause"
        for number in range(len(self._posters)):
            self._call(f"channel/{verb}", topic=TOPIC, channel=f"c{number}")

    def kill(self) -> None:
        self._nsqd.kill()

    def restart(self) -> None:
        self._start_nsqd()

    def close(self) -> None:
        for child in (*self._posters, self._nsqd):
            child.kill()

    def _nsqd_argv(self) -> list[str]:
        return [
            str(self._programs / "nsqd"),
            f"--data-path={self._folder}",
            "--mem-queue-size=0",
            f"--http-address=127.0.0.1:{self._http}",
            f"--tcp-address=127.0.0.1:{self._tcp}",
            "--broadcast-address=127.0.0.1",
            "--log-level=error",
        ]

    def _poster(self, number: int, url: str, folder: Path, at_once: int) -> Child:
        argv = [
            str(self._programs / "nsq_to_http"),
            f"--topic={TOPIC}",
            f"--channel=c{number}",
            f"--nsqd-tcp-address=127.0.0.1:{self._tcp}",
            f"--post={url}",
            "--content-type=application/json",
            f"--max-in-flight={2 * at_once}",
            f"--n={at_once}",
            "--status-every=0",
            # How soon it connects again after nsqd was killed; a minute by default.
            "--consumer-opt=lookupd_poll_interval,1s",
        ]
        return Child(argv, log=folder / f"nsq_to_http-{number}.log")

    def _start_nsqd(self) -> None:
        self._nsqd.start()
        wait_until(self._answers, within=START_WITHIN, what="nsqd answers")

    def _answers(self) -> bool:
        self._nsqd.check_running()
        try:
            return self._call("ping").is_success
        except httpx.TransportError:
            return False

    def _consumed(self) -> bool:
        topics = self._call("stats", format="json", topic=TOPIC).json()["topics"]
        return all(channel["client_count"] for topic in topics for channel in topic["channels"])

    def _call(self, path: str, **query: str) -> httpx.Response:
        verb = "GET" if path in {"ping", "stats"} else "POST"
        return httpx.request(verb, f"http://127.0.0.1:{self._http}/{path}", params=query, **PLAIN)


class Pier:
    """``bus up`` with one destination, of so many processes; ``fields`` are those of its subscriptions."""

    name = "bus"

    def __init__(
        self,
        folder: Path,
        urls: Sequence[str],
        *,
        topic: str = TOPIC,
        transport: BenchedTransport = DIRECT,
        processes: int = 1,
        ordering: str = "none",
        **fields: object,
    ) -> None:
        self._urls = urls
        self._ordering = ordering
        self._topic = topic
        self._transport = transport
        self._fields = {"max_concurrency": concurrency_of(len(urls))} | fields
        data, log = folder / "bus", folder / "bus.log"
        self.bus = (
            BusProcess(data, log=log, env=transport.env)
            if processes == 1
            else ProcessGroup(data, processes, log=log, env=transport.env)
        )
        self.publish_url = f"{self.bus.url}/v1/messages/{topic}"

    @property
    def usage(self) -> Usage:
        return Usage([self.bus.pid])

    def start(self) -> Self:
        self.bus.start()
        self.bus.admin.destination(self._topic, transport=self._transport.name, ordering=self._ordering)
        for number, url in enumerate(self._urls):
            self.bus.admin.subscription(self._topic, f"s{number}", url, **self._fields)
        return self

    def pause(self, *, is_paused: bool) -> None:
        for number in range(len(self._urls)):
            self.bus.admin.pause(self._topic, f"s{number}", paused=is_paused)

    def kill(self) -> None:
        self.bus.kill()

    def restart(self) -> None:
        self.bus.start()

    def close(self) -> None:
        self.bus.close()
