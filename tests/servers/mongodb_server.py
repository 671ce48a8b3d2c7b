"""A MongoDB for tests: one that the environment names, one in Docker, or FerretDB on a PostgreSQL of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import bson
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.harness.process import Died, free_port
from tests.harness.waiting import wait_until
from tests.servers import docker, mongodb, need
from tests.servers.running import LocalServer

IMAGE = "mongo:8.0.16"
NOBODY = 65534
_OP_MSG = 2013
_HEAD_BYTES = 21  # four numbers, the flags, and the kind of what follows
# PostgreSQL refuses to run as root; these let it read the program and its folder below directories that are root's.
KEPT = "+dac_override,+dac_read_search"


class PostgresServer(LocalServer):
    """PostgreSQL on loopback; what it committed outlives a SIGKILL, though not a power cut."""

    name = "postgresql"

    def __init__(self, folder: Path, installed: Path) -> None:
        super().__init__(folder)
        programs = mongodb.postgresql_of(installed)
        if programs is None:
            raise AssertionError(f"{installed} is gone: python -m tests.servers install mongodb")
        self._programs = programs
        self._libraries = mongodb.libraries_of(installed)
        self.port = free_port()
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres?pool_max_conns=32"

    def argv(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 40,
            "fsync": "off",
            "full_page_writes": "off",
            "jit": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return self._as_nobody("postgres", "-D", str(self.data), *options)

    def env(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self._libraries)} if self._libraries.name.endswith("-gnu") else {}

    def prepare(self) -> None:
        if (self.data / "PG_VERSION").exists():
            return
        if os.geteuid() == 0:
            os.chown(self.data, NOBODY, NOBODY)
        folder = str(self.data)
        self._run("initdb", "-D", folder, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def start(self) -> Self:
        """Start it; after a SIGKILL its workers may take a moment to notice and to give the memory back."""

        def started() -> Self | None:
            try:
                return super(PostgresServer, self).start()
            except Died as error:
                if "shared memory block" not in str(error):
                    raise
                return None

        return wait_until(started, within=self.start_within, what="the workers of a killed PostgreSQL end")

    def answers(self) -> bool:
        return "ready to accept connections" in self.child.output()

    def stop(self) -> None:
        self.child.signal(signal.SIGINT)
        self.child.wait(self.stop_within)

    def _as_nobody(self, program: str, *arguments: str) -> list[str]:
        argv = [str(self._programs / program), *arguments]
        if os.geteuid() != 0:
            return argv
        user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return ["setpriv", *user, f"--inh-caps={KEPT}", f"--ambient-caps={KEPT}", *argv]

    def _run(self, program: str, *arguments: str) -> None:
        argv = self._as_nobody(program, *arguments)
        done = subprocess.run(argv, env={**os.environ, **self.env()}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


class MongodbServer(LocalServer):
    """FerretDB and its PostgreSQL as one server; ``pause`` stops the one that clients are connected to."""

    name = "ferretdb"

    def __init__(self, folder: Path, installed: Path) -> None:
        super().__init__(folder)
        self._program = installed / mongodb.PROGRAM
        self._postgresql = PostgresServer(folder / "postgresql", installed)
        self.port = free_port()
        self.url = f"mongodb://127.0.0.1:{self.port}"

    def argv(self) -> list[str]:
        listen = f"-listen=127.0.0.1:{self.port}"
        return [str(self._program), listen, f"-postgresql={self._postgresql.url}"]

    def env(self) -> dict[str, str]:
        return {"GOGC": "800"}

    def prepare(self) -> None:
        if not self._postgresql.child.running:
            self._postgresql.start()

    def answers(self) -> bool:
        """Ask on a bare socket, for a client of the driver has threads that outlive its ``close``."""
        question = bson.encode({"listDatabases": 1, "nameOnly": True, "$db": "admin"})
        request = struct.pack("<iiiiIb", _HEAD_BYTES + len(question), 1, 0, _OP_MSG, 0, 0) + question
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connected:
                connected.sendall(request)
                reply = connected.recv(1 << 16)
        except OSError:
            return False
        return len(reply) > _HEAD_BYTES and bson.decode(reply[_HEAD_BYTES:])["ok"] == 1

    def stop(self) -> None:
        """End both in order."""
        super().stop()
        self._postgresql.stop()

    def kill(self) -> None:
        """SIGKILL both."""
        super().kill()
        self._postgresql.kill()

    def wipe(self) -> None:
        """SIGKILL both, delete all that was stored, and start them again."""
        self.kill()
        shutil.rmtree(self._postgresql.data)
        self._postgresql.data.mkdir()
        self.start()

    def close(self) -> None:
        """SIGKILL both; the folder stays."""
        super().close()
        self._postgresql.close()


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Give the URL of a MongoDB: the environment's, one in Docker where an engine answers, or a local one."""
    if url := os.environ.get("BUS_TEST_MONGODB"):
        yield url
    elif docker.answers():
        with _replica_set() as url:
            yield url
    else:
        with MongodbServer(folder, need("mongodb")) as server:
            yield server.url


@contextmanager
def _replica_set() -> Iterator[str]:
    """Run a replica set of one mongod, which keeps what it acknowledged as majority and journaled."""
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - needs an engine to be of use

    container = DockerContainer(IMAGE).with_command("--replSet bus --bind_ip_all").with_exposed_ports(27017)
    with container:
        address = f"{container.get_container_host_ip()}:{container.get_exposed_port(27017)}"
        url = f"mongodb://{address}/?directConnection=true"

        def is_primary() -> bool:
            client: MongoClient[dict[str, Any]] = MongoClient(url, serverSelectionTimeoutMS=500, timeoutMS=5_000)
            try:
                if client.admin.command("hello").get("isWritablePrimary"):
                    return True
                client.admin.command("replSetInitiate", {"_id": "bus", "members": [{"_id": 0, "host": "127.0.0.1"}]})
            except PyMongoError:
                pass  # it starts, or it is initiated already and elects
            finally:
                client.close()
            return False

        wait_until(is_primary, within=60, what="mongod is primary", every=0.2)
        yield url
