"""Kafka 4.1.0 in KRaft mode, one node that is broker and controller, from Maven's central repository."""

from __future__ import annotations

import base64
import os
import re
import shutil
import socket
import struct
import uuid
from abc import abstractmethod
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.harness.process import free_port
from tests.servers.cache import MAVEN, InstallFailed, cache_dir, install_once, run
from tests.servers.running import LocalServer

VERSION = "4.1.0"
LOGGING_VERSION = "2.25.1"
FOLDER = f"kafka-{VERSION}"
PREPARED = f"{FOLDER}-prepared"
FORMATTED, CLASSES = "formatted", "classes.jsa"
USER, PASSWORD = "bus", "secret of the bus"

_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bus.tests</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>{LOGGING_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


def find() -> Path | None:
    """Return the folder of the jars, None when they are not installed."""
    folder = cache_dir() / FOLDER
    return folder if folder.is_dir() and (cache_dir() / PREPARED).is_dir() else None


def install() -> Path:
    """Fetch the jars unless they are there, and do once what each start would do; return the folder of the jars."""
    jars = install_once(FOLDER, _fetch, about="46 jars, 43 MB")
    install_once(PREPARED, partial(_prepare, jars), about="a first start of it")
    return jars


def url() -> str | None:
    """Return the bootstrap servers that ``BUS_TEST_KAFKA`` names, None when tests bring up their own."""
    return os.environ.get("BUS_TEST_KAFKA")


class KafkaProcess(LocalServer):
    """A Kafka process of any role; where it listens, and what it is told, is of those that extend it.

    Parameters
    ----------
    jars
        The folder that ``install`` returned.
    folder
        For its data, configuration and output.
    """

    name = "kafka"
    node_id = 1
    largest_heap = "512m"

    def __init__(self, jars: Path, folder: Path) -> None:
        super().__init__(folder)
        self._jars = jars
        self._config = folder / "server.properties"

    @abstractmethod
    def properties(self) -> dict[str, object]:
        """Return its configuration."""

    def argv(self) -> list[str]:
        """Run it with a small heap."""
        heap = ("-Xms64m", f"-Xmx{self.largest_heap}")
        return self._java(*heap, self._classes(), main="kafka.Kafka", arguments=[self._config])

    def prepare(self) -> None:
        """Write the configuration, and format the data's folder as a new cluster's unless it is one."""
        (self.folder / "log4j2.properties").write_text(_LOGGING)
        self._config.write_text("".join(f"{name}={value}\n" for name, value in self.properties().items()))
        if not (self.data / "meta.properties").exists():
            self._format()

    def _cluster_id(self) -> str:
        return new_id()

    def _format(self) -> None:
        """Make it a node of a new cluster out of the one that was formatted when Kafka was installed."""
        shutil.copytree(cache_dir() / PREPARED / FORMATTED, self.data, dirs_exist_ok=True)
        own = {"cluster.id": self._cluster_id(), "node.id": self.node_id, "directory.id": new_id()}
        meta = self.data / "meta.properties"
        text = meta.read_text()
        for name, value in own.items():
            text = re.sub(f"(?m)^{re.escape(name)}=.*$", f"{name}={value}", text)
        meta.write_text(text)

    def _classes(self) -> str:
        """Return the option that takes the classes as they were when Kafka was installed, read and checked."""
        return f"-XX:SharedArchiveFile={cache_dir() / PREPARED / CLASSES}"

    def _java(self, *options: str, main: str, arguments: list[object]) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        return [
            "java",
            *options,
            # Compiling well takes more than it gives in the minutes that a test or a measurement lasts.
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            logging,
            "-cp",
            # In the same order each time, or the classes that were kept are of no use.
            ":".join(map(str, sorted(self._jars.glob("*.jar")))),
            main,
            *map(str, arguments),
        ]


class KafkaServer(KafkaProcess):
    """One node whose ports stay the same over restarts and wipes.

    Parameters
    ----------
    jars
        The folder that ``install`` returned.
    folder
        For its data, configuration and output.

    Attributes
    ----------
    bootstrap
        For clients in the clear.
    sasl_bootstrap
        For clients that log in with SASL/PLAIN as ``USER`` with ``PASSWORD``.
    tls_bootstrap, ca
        For clients that trust the authority ``ca``, and show a certificate of it.
    behind_proxy, proxy_port
        A listener for a proxy: put one on ``proxy_port`` in front of ``behind_proxy``, and clients that start
        from the proxy stay behind it.
    """

    def __init__(self, jars: Path, folder: Path) -> None:
        super().__init__(jars, folder)
        ports = free_ports(6)
        self._port, self._sasl_port, self._tls_port, self._behind_port, self._controller_port, self.proxy_port = ports
        self.bootstrap = f"127.0.0.1:{self._port}"
        self.sasl_bootstrap = f"127.0.0.1:{self._sasl_port}"
        self.tls_bootstrap = f"127.0.0.1:{self._tls_port}"
        self.ca = trustme.CA()
        self.behind_proxy = f"127.0.0.1:{self._behind_port}"

    def answers(self) -> bool:
        """Whether the broker answers a request for metadata with itself in it."""
        try:
            return brokers_listed(self._port) > 0
        except (OSError, struct.error):
            return False

    def prepare(self) -> None:
        """Write its certificates as well."""
        (self.folder / "server.pem").write_bytes(_key_and_chain(self.ca.issue_cert("127.0.0.1")))
        self.ca.cert_pem.write_to_path(self.folder / "ca.pem")
        super().prepare()

    def properties(self) -> dict[str, object]:
        """Return what one node needs that is broker and controller."""
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        return {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.voters": f"{self.node_id}@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAIN://{self.bootstrap},LOGIN://{self.sasl_bootstrap},SECURE://{self.tls_bootstrap},"
            f"PROXIED://{self.behind_proxy},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAIN://{self.bootstrap},LOGIN://{self.sasl_bootstrap},SECURE://{self.tls_bootstrap},"
            f"PROXIED://127.0.0.1:{self.proxy_port}",
            "listener.security.protocol.map": "PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SECURE:SSL,"
            "PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAIN",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{login} user_{USER}="{PASSWORD}";',
            "listener.name.secure.ssl.keystore.type": "PEM",
            "listener.name.secure.ssl.keystore.location": self.folder / "server.pem",
            "listener.name.secure.ssl.truststore.type": "PEM",
            "listener.name.secure.ssl.truststore.location": self.folder / "ca.pem",
            "listener.name.secure.ssl.client.auth": "required",
            # Those who log in may do everything that no rule forbids, others everything.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "log.dirs": self.data,
            "auto.create.topics.enable": "false",
            "default.replication.factor": 1,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 2,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1000,
            "num.network.threads": 2,
            "num.io.threads": 4,
            "log.cleaner.dedupe.buffer.size": 4_194_304,
            # A killed node may register again only after its session is over.
            "broker.session.timeout.ms": 4000,
            "broker.heartbeat.interval.ms": 300,
        }


class _FirstKafka(KafkaServer):
    """The one whose formatted folder and whose classes the others take."""

    def __init__(self, jars: Path, folder: Path, kept: Path) -> None:
        super().__init__(jars, folder)
        self._kept = kept

    def _format(self) -> None:
        arguments = ["format", "-t", new_id(), "-c", self._config]
        run(self._java("-Xmx256m", main="kafka.tools.StorageTool", arguments=arguments))
        shutil.copytree(self.data, self._kept / FORMATTED)

    def _classes(self) -> str:
        return f"-XX:ArchiveClassesAtExit={self._kept / CLASSES}"


def _prepare(jars: Path, work: Path) -> None:
    with TemporaryDirectory() as folder, _FirstKafka(jars, Path(folder), work) as server:
        server.stop()
    if not (work / CLASSES).exists():
        raise InstallFailed(f"Kafka kept no classes: {server.child.output()}")


def _fetch(work: Path) -> None:
    (work / "pom.xml").write_text(_POM)
    with MAVEN:
        run(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={work}"], cwd=work)
    (work / "pom.xml").unlink()
    if not (work / f"kafka_2.13-{VERSION}.jar").exists():
        raise InstallFailed(f"Maven copied no Kafka {VERSION}")


def new_id() -> str:
    """Return the id of a new cluster; one that begins with a dash would be taken for an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "a", 1)


def _key_and_chain(cert: trustme.LeafCert) -> bytes:
    """Return a certificate as Kafka reads it: its key in PKCS#8 before it."""
    key = load_pem_private_key(cert.private_key_pem.bytes(), None)
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pkcs8 + b"".join(pem.bytes() for pem in cert.cert_chain_pems)


def free_ports(count: int) -> list[int]:
    """Return ports that differ, though none of them is taken yet."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


def brokers_listed(port: int) -> int:
    """Return how many brokers the one at a port knows.

    Asks for metadata of no topic (version 1) by hand, so that no client library has a say in it.
    """
    client = b"probe"
    request = struct.pack(">hhih", 3, 1, 7, len(client)) + client + struct.pack(">i", 0)
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            _, brokers = struct.unpack(">ii", answer.read(size)[:8])
    return int(brokers)
