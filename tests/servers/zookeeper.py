"""ZooKeeper 3.9.3, one server, from Maven's central repository."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.harness.process import free_port
from tests.harness.waiting import wait_until
from tests.servers.cache import MAVEN, InstallFailed, cache_dir, install_once, run
from tests.servers.running import LocalServer

VERSION = "3.9.3"
FOLDER = f"zookeeper-{VERSION}"

_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bus.tests</groupId>
  <artifactId>zookeeper</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.zookeeper</groupId>
      <artifactId>zookeeper</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>io.dropwizard.metrics</groupId>
      <artifactId>metrics-core</artifactId>
      <version>4.1.12.1</version>
    </dependency>
    <dependency>
      <groupId>org.xerial.snappy</groupId>
      <artifactId>snappy-java</artifactId>
      <version>1.1.10.5</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.30</version>
    </dependency>
  </dependencies>
</project>
"""


def find() -> Path | None:
    """Return the folder of the jars, None when they are not installed."""
    folder = cache_dir() / FOLDER
    return folder if folder.is_dir() else None


def install() -> Path:
    """Fetch the jars unless they are there; return their folder."""
    return install_once(FOLDER, _fetch, about="24 jars, 13 MB")


def address() -> str | None:
    """Return the servers that ``BUS_TEST_ZOOKEEPER`` names, None when tests bring up their own."""
    return os.environ.get("BUS_TEST_ZOOKEEPER")


class ZookeeperServer(LocalServer):
    """One server whose port stays the same over restarts and wipes.

    Parameters
    ----------
    jars
        The folder that ``install`` returned.
    folder
        For its data, configuration and output.

    Attributes
    ----------
    address
        ``HOST:PORT`` for clients.
    """

    name = "zookeeper"

    def __init__(self, jars: Path, folder: Path) -> None:
        super().__init__(folder)
        self._jars = jars
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._config = folder / "zoo.cfg"

    def argv(self) -> list[str]:
        """Run the server with little memory, and without the file of 64 MiB that it would fill with zeros first."""
        return [
            "java",
            *("-Xms16m", "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            "-Dzookeeper.preAllocSize=64",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *("-cp", ":".join(map(str, sorted(self._jars.glob("*.jar"))))),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self._config),
        ]

    def answers(self) -> bool:
        """Whether it says in which mode it serves."""
        return bool(self.mode())

    def mode(self) -> str:
        """Return ``standalone``, ``leader`` or ``follower``; empty while it does not serve."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=2) as connection:
                connection.sendall(b"srvr")
                with connection.makefile("rb") as answer:
                    return answer.read().decode().partition("Mode: ")[2].partition("\n")[0]
        except OSError:
            return ""

    def prepare(self) -> None:
        """Write the configuration."""
        self._config.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))

    def _properties(self) -> dict[str, object]:
        return {
            "clientPort": self._port,
            "clientPortAddress": "127.0.0.1",
            "dataDir": self.data,
            "tickTime": 200,  # a session lasts from 2 to 20 of them
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
        }


class ZookeeperMember(ZookeeperServer):
    """One server of an ensemble, which serves while a majority runs.

    Parameters
    ----------
    number
        Its own, from 1.
    peers
        ``HOST:PORT:PORT`` of every member, by number.
    """

    def __init__(self, jars: Path, folder: Path, number: int, peers: Sequence[str]) -> None:
        super().__init__(jars, folder)
        self._number = number
        self._peers = peers

    def prepare(self) -> None:
        """Write the configuration, and which member it is."""
        super().prepare()
        (self.data / "myid").write_text(str(self._number))

    def _properties(self) -> dict[str, object]:
        servers = {f"server.{number}": peer for number, peer in enumerate(self._peers, 1)}
        return {**super()._properties(), "initLimit": 20, "syncLimit": 10, **servers}


@contextmanager
def ensemble(jars: Path, folder: Path, size: int = 3) -> Iterator[list[ZookeeperMember]]:
    """Run an ensemble, and give its members once all of them serve."""
    peers = [f"127.0.0.1:{free_port()}:{free_port()}" for _ in range(size)]
    with ExitStack() as stack:
        members = [ZookeeperMember(jars, folder / str(number), number, peers) for number in range(1, size + 1)]
        for member in members:
            member.prepare()
            member.child.start()
            stack.callback(member.close)
        for member in members:
            wait_until(member.answers, within=member.start_within, what="a member serves", state=member.child.output)
        yield members


def _fetch(work: Path) -> None:
    (work / "pom.xml").write_text(_POM)
    with MAVEN:
        run(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={work}"], cwd=work)
    (work / "pom.xml").unlink()
    if not (work / f"zookeeper-{VERSION}.jar").exists():
        raise InstallFailed(f"Maven copied no ZooKeeper {VERSION}")
