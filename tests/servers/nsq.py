"""Stock NSQ 1.3.0, built from the Go module proxy."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.harness.http import PLAIN
from tests.harness.waiting import wait_until
from tests.servers import docker
from tests.servers.cache import cache_dir, install_once, run
from tests.servers.running import LocalServer

VERSION = "1.3.0"
FOLDER = f"nsq-{VERSION}-clients"
IMAGE = f"nsqio/nsq:v{VERSION}"
PROGRAMS = ("nsqd", "nsqlookupd", "nsqadmin", "nsq_to_http", "nsq_tail", "to_nsq")
HOST = "127.0.0.1"
LARGEST_MESSAGE = 4 * 2**20
# Below those that the system gives to clients, or one of these could take the port of a server that restarts.
PORTS = range(12_000, 32_000, 2)


def find() -> Path | None:
    """Return the folder of the programs, None when they are not installed."""
    folder = cache_dir() / FOLDER
    return folder if folder.is_dir() else None


def install() -> Path:
    """Build the programs unless they are there; return their folder."""
    return install_once(FOLDER, _build, about="a Go build of about a minute")


def _build(work: Path) -> None:
    # `go install PACKAGE@VERSION` ignores the module's own `replace`, so build inside the module's folder.
    module = json.loads(run(["go", "mod", "download", "-json", f"github.com/nsqio/nsq@v{VERSION}"], cwd=work))
    packages = [f"./apps/{program}" for program in PROGRAMS]
    run(["go", "build", "-buildvcs=false", "-trimpath", "-o", f"{work}/", *packages], cwd=Path(module["Dir"]))


class NsqLookupServer(LocalServer):
    """An nsqlookupd, which stores nothing.

    Parameters
    ----------
    programs
        The folder that ``install`` returned.
    name
        Tells servers on one machine apart.

    Attributes
    ----------
    tcp, http
        ``host:port`` for nsqds and for clients.
    """

    def __init__(self, programs: Path, folder: Path, name: str = "nsqlookupd") -> None:
        super().__init__(folder)
        self.name = name
        self._program = programs / "nsqlookupd"
        self.tcp, self.http = _free_addresses()

    def argv(self) -> list[str]:
        """Listen on loopback."""
        return [str(self._program), *self.options]

    @property
    def options(self) -> list[str]:
        """What it is started with."""
        return [
            f"-tcp-address={self.tcp}",
            f"-http-address={self.http}",
            "-broadcast-address=127.0.0.1",
            "-log-level=warn",
        ]

    def answers(self) -> bool:
        """Whether its HTTP API answers."""
        return _pings(self.http)


class NsqdServer(LocalServer):
    """An nsqd that keeps its queues on disk.

    Parameters
    ----------
    programs
        The folder that ``install`` returned.
    name
        Tells servers on one machine apart.
    number
        Makes its message ids its own.
    lookupds
        ``host:port`` for nsqds of the nsqlookupds that it registers with.
    options
        More of its options, such as ``-msg-timeout=2s``.

    Attributes
    ----------
    tcp, http
        ``host:port`` of its protocol and of its HTTP API.
    """

    def __init__(
        self,
        programs: Path,
        folder: Path,
        name: str = "nsqd",
        *,
        number: int = 1,
        lookupds: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(folder)
        self.name = name
        self._program = programs / "nsqd"
        self._number = number
        self._lookupds = lookupds
        self._options = options
        self.tcp, self.http = _free_addresses()

    @property
    def place(self) -> str:
        """``host:tcp_port/http_port``, as settings name it."""
        return f"{self.tcp}/{self.http.rpartition(':')[2]}"

    def argv(self) -> list[str]:
        """Listen on loopback, with the queues on disk."""
        return [str(self._program), f"-data-path={self.data}", *self.options]

    @property
    def options(self) -> list[str]:
        """What it is started with, but for the folder of its data."""
        return [
            f"-tcp-address={self.tcp}",
            f"-http-address={self.http}",
            f"-https-address={HOST}:0",
            f"-broadcast-address={HOST}",
            f"-node-id={self._number}",
            "-mem-queue-size=0",
            f"-max-msg-size={LARGEST_MESSAGE}",
            f"-max-body-size={4 * LARGEST_MESSAGE}",
            "-log-level=warn",
            *(f"-lookupd-tcp-address={address}" for address in self._lookupds),
            *self._options,
        ]

    def answers(self) -> bool:
        """Whether its HTTP API answers."""
        return _pings(self.http)

    def stats(self, topic: str, channel: str) -> dict[str, Any]:
        """Return what it says about a channel; empty when it has none."""
        query = {"format": "json", "topic": topic, "channel": channel}
        topics = httpx.get(f"http://{self.http}/stats", params=query, **PLAIN).raise_for_status().json()["topics"] or []
        return next((found for one in topics for found in one["channels"]), {})

    def topics(self) -> list[str]:
        """Return the topics that it has."""
        answer = httpx.get(f"http://{self.http}/stats", params={"format": "json"}, **PLAIN).raise_for_status()
        return [one["topic_name"] for one in answer.json()["topics"] or []]

    def call(self, path: str, body: bytes = b"", **query: object) -> None:
        """POST to its HTTP API, for example ``/pub`` with a topic."""
        httpx.post(f"http://{self.http}{path}", params={**query}, content=body, **PLAIN).raise_for_status()


class NsqServers(NamedTuple):
    """Two nsqlookupds, and two nsqds that register with both."""

    lookupds: tuple[NsqLookupServer, NsqLookupServer]
    nsqds: tuple[NsqdServer, NsqdServer]

    @property
    def places(self) -> Places:
        """Where they are."""
        return Places(",".join(nsqd.place for nsqd in self.nsqds), ",".join(lookupd.http for lookupd in self.lookupds))


class Places(NamedTuple):
    """Servers as settings name them: ``BUS_NSQ_NSQD`` and ``BUS_NSQ_LOOKUPD``."""

    nsqd: str
    lookupd: str


def servers(programs: Path, folder: Path, *options: str) -> NsqServers:
    """Return two of each, not started; ``options`` are more of nsqd's."""
    lookupds = tuple(NsqLookupServer(programs, folder / f"lookupd-{n}", f"nsqlookupd-{n}") for n in (1, 2))
    known = [lookupd.tcp for lookupd in lookupds]
    nsqds = tuple(
        NsqdServer(programs, folder / f"nsqd-{n}", f"nsqd-{n}", number=n, lookupds=known, options=options)
        for n in (1, 2)
    )
    return NsqServers((lookupds[0], lookupds[1]), (nsqds[0], nsqds[1]))


@contextmanager
def running(programs: Path, folder: Path, *options: str) -> Iterator[NsqServers]:
    """Start two of each, and stop them at the end."""
    made = servers(programs, folder, *options)
    with ExitStack() as stack:
        for server in (*made.lookupds, *made.nsqds):
            stack.enter_context(server)
        yield made


@contextmanager
def somewhere(folder: Path) -> Iterator[Places]:
    """Yield two of each: the environment's, else in Docker where an engine answers, else of the local install."""
    if nsqd := os.environ.get("BUS_TEST_NSQD"):
        yield Places(nsqd, os.environ.get("BUS_TEST_NSQLOOKUPD", ""))
    elif docker.answers():
        with _containers(folder) as places:
            yield places
    else:
        from tests.servers import need  # noqa: PLC0415 - it lists this module

        with running(need("nsq"), folder) as made:
            yield made.places


@contextmanager
def _containers(folder: Path) -> Iterator[Places]:
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - only where an engine answers

    made = servers(Path("/"), folder)
    with ExitStack() as stack:
        for server in (*made.lookupds, *made.nsqds):
            command = [server.argv()[0], *server.options]
            # nsqds announce their own ports, so they must be the same inside and outside.
            stack.enter_context(DockerContainer(IMAGE, command=command, network_mode="host"))
            wait_until(server.answers, within=60, what=f"{server.name} answers")
        yield made.places


def _free_addresses() -> tuple[str, str]:
    """Return two that were free a moment ago: the port of HTTP is the next one, as is NSQ's custom."""
    for port in random.sample(PORTS, len(PORTS)):
        with ExitStack() as stack, suppress(OSError):
            for number in (port, port + 1):
                stack.enter_context(closing(socket.socket())).bind((HOST, number))
            return f"{HOST}:{port}", f"{HOST}:{port + 1}"
    raise OSError(f"no two ports are free in {PORTS}")


def _pings(http: str) -> bool:
    try:
        # One that wants TLS refuses, which is an answer; one that is not well says so with a 500.
        return not httpx.get(f"http://{http}/ping", timeout=2, **PLAIN).is_server_error
    except httpx.TransportError:
        return False
