"""A host of the bus: everything in one process, or each role in a process of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.acceptance.hosts.network import Host
from tests.harness.admin import Admin
from tests.harness.bus_process import BusProcess
from tests.harness.moved_clock import MovedClock

PORT: Final = 8700
ROLES: Final = ("receiver", "dispatcher", "compensator")
"""Of each host of roles apart; the first two have alarms and an admin as well."""
MORE_ROLES: Final = ("alarms", "admin")
_DISK: Final = "400m"


class Node:
    """Processes on a host, with a disk and a clock of their own.

    Attributes
    ----------
    url
        Where messages are sent to.
    admin
        For its API; None where it has none.
    """

    def __init__(self, host: Host, folder: Path, env: Mapping[str, str], *, roles: Sequence[str]) -> None:
        self.host = host
        self.disk = folder / host.name
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", self.disk], check=True)
        (folder / f"{host.name}-clock").mkdir()
        self.clock = MovedClock(folder / f"{host.name}-clock")
        env = {**env, **self.clock.env, "BUS_HOST": "0.0.0.0"}
        self.processes = {role: self._process(role, PORT + number, env) for number, role in enumerate(roles)}
        self.url = f"http://{host.ip}:{PORT}"
        self.admin: Admin | None = self.processes[roles[-1]].admin if roles[-1] in ("", "admin") else None

    def _process(self, role: str, port: int, env: dict[str, str]) -> BusProcess:
        name = f"{self.host.name}-{role}" if role else self.host.name
        url = f"http://{self.host.ip}:{port}"
        env = {**env, "BUS_ADVERTISE": url, "BUS_NODE": name}
        log = self.disk.with_name(f"{name}.log")
        bus = BusProcess(self.disk / (role or "data"), log=log, port=port, env=env, role=role, under=self.host.enter)
        bus.url, bus.admin = url, Admin(url)
        return bus

    def start(self, role: str = "") -> None:
        """Start the process of a role, or all of them, and wait until they serve."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(BusProcess.start, self._of(role)))

    def kill(self, role: str = "") -> None:
        """SIGKILL the process of a role, or all of them."""
        for bus in self._of(role):
            bus.kill()

    def pause(self, role: str = "") -> None:
        """SIGSTOP the process of a role, or all of them."""
        for bus in self._of(role):
            bus.child.signal(signal.SIGSTOP)

    def resume(self, role: str = "") -> None:
        """Undo ``pause``."""
        for bus in self._of(role):
            bus.child.signal(signal.SIGCONT)

    def fill_disk(self) -> None:
        """Leave no byte of the disk free."""
        with (self.disk / "filler").open("wb", buffering=0) as file:
            for size in (2**20, 2**12):
                with suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def free_disk(self) -> None:
        """Undo ``fill_disk``."""
        (self.disk / "filler").unlink()

    def close(self) -> None:
        """SIGKILL all processes and close the connections to them."""
        for bus in self.processes.values():
            bus.close()

    def _of(self, role: str) -> list[BusProcess]:
        return [self.processes[role]] if role else list(self.processes.values())
