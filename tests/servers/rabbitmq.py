"""RabbitMQ 3.10.8: Debian's packages, unpacked into the cache; nothing of the machine changes and no service starts."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.process import Child, free_port
from tests.harness.waiting import wait_until
from tests.servers import docker
from tests.servers.cache import InstallFailed, apt_get, cache_dir, install_once, run
from tests.servers.running import LocalServer

VERSION = "3.10.8"
FOLDER = f"rabbitmq-{VERSION}"
IMAGE = "rabbitmq:3.13"
SERVER = f"usr/lib/rabbitmq/lib/rabbitmq_server-{VERSION}"
ERLANG = "usr/lib/erlang"
APPLICATIONS = (
    *("asn1", "base", "crypto", "eldap", "ftp", "inets", "mnesia", "os-mon", "parsetools", "public-key"),
    *("runtime-tools", "snmp", "ssl", "syntax-tools", "tftp", "tools", "xmerl"),
)
# Debian's own `erl` knows no other place than /usr/lib/erlang.
ERL = """#!/bin/sh
ROOTDIR=$(cd "$(dirname "$0")/.." && pwd)
BINDIR=$(echo "$ROOTDIR"/erts-*/bin)
EMU=beam
PROGNAME=erl
export ROOTDIR BINDIR EMU PROGNAME
exec "$BINDIR/erlexec" "$@"
"""


def find() -> Path | None:
    """Return the folder that it is unpacked in, None when it is not installed."""
    folder = cache_dir() / FOLDER
    return folder if folder.is_dir() else None


def install() -> Path:
    """Fetch and unpack the packages unless they are there; return their folder."""
    return install_once(FOLDER, _unpack, about="34 MB of Debian packages")


def _unpack(work: Path) -> None:
    packages = ["rabbitmq-server", *(f"erlang-{name}" for name in APPLICATIONS)]
    downloads = work / "downloads"
    downloads.mkdir()
    apt_get("download", "--quiet", *packages, cwd=downloads)
    for package in sorted(downloads.glob("*.deb")):
        run(["dpkg-deb", "-x", str(package), str(work)])
    shutil.rmtree(downloads)
    (work / ERLANG / "bin" / "erl").write_text(ERL)
    if not (work / SERVER).is_dir():
        raise InstallFailed(f"Debian's rabbitmq-server is not {VERSION}: {sorted((work / SERVER).parent.iterdir())}")


class RabbitmqServer(LocalServer):
    """One node, which is a cluster of its own, for the user ``guest`` with the password ``guest``.

    Parameters
    ----------
    home
        Where it is installed.
    folder
        For its data, configuration and output.
    name
        Tells nodes on one machine apart.
    management
        Whether it serves the management API, which makes its start slower.
    settings
        More lines of ``rabbitmq.conf``.
    """

    def __init__(
        self,
        home: Path,
        folder: Path,
        *,
        name: str = "rabbit",
        management: bool = False,
        settings: tuple[str, ...] = (),
    ) -> None:
        super().__init__(folder)
        self._home = home
        self.name = name
        self.port, self._distribution, self._names = free_port(), free_port(), free_port()
        self.management_port = free_port() if management else None
        self._settings = settings
        # The node registers its name with this; a shared one would outlive the tests.
        self._epmd = Child(
            [str(self._erts / "epmd"), "-address", "127.0.0.1", "-port", str(self._names)],
            log=folder / f"{name}-epmd.log",
        )

    @property
    def url(self) -> str:
        """Where it serves AMQP."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def management_url(self) -> str:
        """Where it serves its management API."""
        if self.management_port is None:
            raise ValueError(f"{self.name} runs without its management plugin")
        return f"http://127.0.0.1:{self.management_port}"

    def argv(self) -> list[str]:
        return [str(self._home / SERVER / "sbin" / "rabbitmq-server")]

    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{self._home / ERLANG / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": f"{self.name}@localhost",
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": str(self._configuration),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._plugins),
            "RABBITMQ_MNESIA_BASE": str(self.data),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._names),
            # The script becomes the node, so that signals reach it, instead of staying as its parent.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def prepare(self) -> None:
        lines = [f"listeners.tcp.local = 127.0.0.1:{self.port}", "disk_free_limit.absolute = 64MB", *self._settings]
        if self.management_port is not None:
            lines += ["management.tcp.ip = 127.0.0.1", f"management.tcp.port = {self.management_port}"]
        self._configuration.write_text("\n".join([*lines, ""]))
        self._plugins.write_text("[].\n" if self.management_port is None else "[rabbitmq_management].\n")
        if not self._epmd.running:
            self._epmd.start()
            wait_until(lambda: _accepts(self._names), within=10, what="epmd answers", state=self._epmd.output)

    def answers(self) -> bool:
        if self.management_port is not None and not _accepts(self.management_port):
            return False
        return _greets(self.port)

    def ctl(self, *arguments: str) -> str:
        """Run ``rabbitmqctl`` against it and return what it printed; takes about 2 seconds."""
        return run([str(self._home / SERVER / "sbin" / "rabbitmqctl"), "--quiet", *arguments], env=self.env())

    def remembers(self, queue: str) -> bool:
        """Whether a quorum queue would survive a SIGKILL now.

        The node writes where each queue's data lies about half a second after the queue was made; killed before that,
        it has the queue without its data, and it stays without a leader for ever.
        """
        return any(queue.encode() in file.read_bytes() for file in self.data.glob("*/quorum/*/names.dets"))

    def close(self) -> None:
        super().close()
        self._epmd.kill()

    @property
    def _erts(self) -> Path:
        (folder,) = (self._home / ERLANG).glob("erts-*/bin")
        return folder

    @property
    def _configuration(self) -> Path:
        return self.folder / f"{self.name}.conf"

    @property
    def _plugins(self) -> Path:
        return self.folder / f"{self.name}.plugins"


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Yield the AMQP URL of a broker: the environment's, else one in Docker, else one of the local install."""
    if url := os.environ.get("BUS_TEST_RABBITMQ"):
        yield url
    elif docker.answers():
        with _container() as url:
            yield url
    else:
        from tests.servers import need  # noqa: PLC0415 - it lists this module

        with RabbitmqServer(need("rabbitmq"), folder) as server:
            yield server.url


@contextmanager
def _container() -> Iterator[str]:
    from testcontainers.rabbitmq import RabbitMqContainer  # noqa: PLC0415 - where no engine answers, it is not needed

    with RabbitMqContainer(IMAGE) as container:
        parameters = container.get_connection_params()
        yield f"amqp://guest:guest@{parameters.host}:{parameters.port}/"


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _greets(port: int) -> bool:
    """Whether an AMQP handshake begins: a method frame on channel 0 follows the protocol's header."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return connection.recv(3) == b"\x01\x00\x00"
    except OSError:
        return False
