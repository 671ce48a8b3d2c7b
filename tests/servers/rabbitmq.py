"""RabbitMQ 3.10.8: Debian's packages, unpacked into the cache; nothing of the machine changes and no service starts."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.harness.process import Child, free_port
from tests.harness.waiting import wait_until
from tests.servers.cache import InstallFailed, cache_dir, install_once, run, unpack_packages
from tests.servers.running import LocalServer

VERSION = "3.10.8"
FOLDER = f"rabbitmq-{VERSION}-bare"
SERVER = f"usr/lib/rabbitmq/lib/rabbitmq_server-{VERSION}"
ERLANG = "usr/lib/erlang"
MANAGEMENT = f"rabbitmq-{VERSION}-management"
MANAGEMENT_PLUGINS = ("rabbitmq_management", "rabbitmq_management_agent", "rabbitmq_web_dispatch")
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


def find_management() -> Path | None:
    """Return the folder of the management plugin, None when it is not installed."""
    folder = cache_dir() / MANAGEMENT
    return folder if folder.is_dir() else None


def install_management() -> Path:
    """Fetch the management plugin unless it is there; return its folder, for ``RabbitmqServer``."""
    return install_once(MANAGEMENT, _unpack_management, about="15 MB of a Debian package")


def _unpack_management(work: Path) -> None:
    package = work / "package"
    unpack_packages(package, "rabbitmq-server")
    for name in MANAGEMENT_PLUGINS:
        (folder,) = (package / SERVER / "plugins").glob(f"{name}-{VERSION}")
        folder.rename(work / folder.name)
    shutil.rmtree(package)


def _unpack(work: Path) -> None:
    packages = ["rabbitmq-server", *(f"erlang-{name}" for name in APPLICATIONS)]
    unpack_packages(work, *packages)
    _remove_plugins(work / SERVER / "plugins")
    (work / ERLANG / "bin" / "erl").write_text(ERL)
    if not (work / SERVER).is_dir():
        raise InstallFailed(f"Debian's rabbitmq-server is not {VERSION}: {sorted((work / SERVER).parent.iterdir())}")


def _remove_plugins(folder: Path) -> None:
    """Remove what no test enables: a node looks into each of them at every start, which takes half of it."""
    for plugin in folder.glob("rabbitmq_*"):
        if not plugin.name.startswith("rabbitmq_prelaunch-"):
            shutil.rmtree(plugin)


class Epmd:
    """Where nodes register their names and find each other; the machine's own one would outlive the tests."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.port = free_port()
        argv = [str(_erts(home) / "epmd"), "-address", "127.0.0.1", "-port", str(self.port)]
        self._child = Child(argv, log=folder / "epmd.log")
        self._starting = threading.Lock()

    def start(self) -> None:
        """Start it unless it runs."""
        with self._starting:
            if not self._child.running:
                self._child.start()
                wait_until(lambda: _accepts(self.port), within=10, what="epmd answers", state=self._child.output)

    def close(self) -> None:
        """SIGKILL it."""
        self._child.kill()


class RabbitmqServer(LocalServer):
    """One node for the user ``guest`` with the password ``guest``; a cluster of its own unless it was told others.

    Parameters
    ----------
    home
        Where it is installed.
    folder
        For its data, configuration and output.
    name
        Tells nodes on one machine apart.
    epmd
        Shared with the other nodes of its cluster; without it, it has one of its own.
    settings
        More lines of its configuration.
    management
        The folder of the management plugin, which it then runs.
    """

    def __init__(
        self,
        home: Path,
        folder: Path,
        *,
        name: str = "rabbit",
        epmd: Epmd | None = None,
        settings: Sequence[str] = (),
        management: Path | None = None,
    ) -> None:
        super().__init__(folder)
        self._home = home
        self._management = management
        self.http_port = free_port()
        self.name = name
        self.port, self._distribution = free_port(), free_port()
        self._epmd = epmd or Epmd(home, folder)
        self._settings = settings

    @property
    def url(self) -> str:
        """Where it serves AMQP."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

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
            "RABBITMQ_PLUGINS_DIR": os.pathsep.join(map(str, self._plugin_folders())),
            "RABBITMQ_MNESIA_BASE": str(self.data),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd.port),
            # The script becomes the node, so that signals reach it, instead of staying as its parent.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def prepare(self) -> None:
        lines = [f"listeners.tcp.local = 127.0.0.1:{self.port}", "disk_free_limit.absolute = 64MB"]
        if self._management is not None:
            lines += ["management.tcp.ip = 127.0.0.1", f"management.tcp.port = {self.http_port}"]
        self._configuration.write_text("\n".join([*lines, *self._settings, ""]))
        self._plugins.write_text("[rabbitmq_management].\n" if self._management is not None else "[].\n")
        self._write_cookie()
        self._epmd.start()

    def answers(self) -> bool:
        return _greets(self.port)

    def eval(self, expression: str) -> None:
        """Evaluate an Erlang expression that gives ``ok`` in the node; ``rabbitmqctl`` would take a hundredfold."""
        argv = [str(_erts(self._home) / "erl_call"), "-address", f"127.0.0.1:{self._distribution}", "-e"]
        answer = run(argv, env=self.env(), given=f"{expression}.\n")
        if answer != "{ok, ok}":
            raise AssertionError(f"{expression}: {answer}")

    def cut(self) -> None:
        """Close all connections."""
        self.eval('rabbit_networking:close_all_connections("maintenance")')

    def remembers(self, queue: str) -> bool:
        """Whether a quorum queue would survive a SIGKILL now.

        The node writes where each queue's data lies about half a second after the queue was made; killed before that,
        it has the queue without its data, and it stays without a leader for ever.
        """
        return any(queue.encode() in file.read_bytes() for file in self.data.glob("*/quorum/*/names.dets"))

    def close(self) -> None:
        super().close()
        self._epmd.close()

    def _plugin_folders(self) -> list[Path]:
        own = self._home / SERVER / "plugins"
        return [own, self._management] if self._management is not None else [own]

    def _write_cookie(self) -> None:
        """Write what nodes know each other by."""
        file = self.folder / ".erlang.cookie"
        if not file.exists():
            file.write_text("PIER")
            file.chmod(0o400)

    @property
    def _configuration(self) -> Path:
        return self.folder / f"{self.name}.conf"

    @property
    def _plugins(self) -> Path:
        return self.folder / f"{self.name}.plugins"


def _erts(home: Path) -> Path:
    (folder,) = (home / ERLANG).glob("erts-*/bin")
    return folder


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
