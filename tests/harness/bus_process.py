"""``bus up`` or ``bus run`` as a real process: started, killed, started again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import httpx

from tests.harness.admin import Admin
from tests.harness.http import PLAIN
from tests.harness.process import ROOT, Child, free_port, module
from tests.harness.waiting import wait_until

START_WITHIN = 60.0


def bus_command(*arguments: object, instead: Sequence[object] = ()) -> list[str]:
    """Return the command line of the ``bus`` program: the installed script, or the module where there is none.

    ``instead`` is a module of the harness that runs it otherwise, with arguments of its own.
    """
    if instead:
        name, *own = map(str, instead)
        return module(name, *own, *arguments)
    script = Path(sys.executable).with_name("bus")
    return [str(script), *map(str, arguments)] if script.exists() else module("bus.cli", *arguments)


def run_bus(
    *arguments: object,
    text: str | None = None,
    env: Mapping[str, str] | None = None,
    within: float = 30,
) -> subprocess.CompletedProcess[str]:
    """Run one ``bus`` command to its end, with ``text`` as its standard input."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
    return subprocess.run(
        bus_command(*arguments),
        cwd=ROOT,
        env={**clean, "PYTHONPATH": str(ROOT), **(env or {})},
        input=text or "",
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )


class BusProcess:
    """One bus on a data directory and a port that stay the same over restarts.

    Parameters
    ----------
    data
        The data directory.
    config
        A bus.toml.
    env
        Environment for the process; this process's own ``BUS_*`` do not reach it.
    role
        What it runs; empty for everything.
    instead
        What runs it in place of the program, as of ``bus_command``.
    under
        A command line that it is started by, such as that of a profiler.
    """

    def __init__(
        self,
        data: Path,
        *,
        log: Path | None = None,
        port: int | None = None,
        config: Path | None = None,
        env: Mapping[str, str] | None = None,
        role: str = "",
        instead: Sequence[object] = (),
        under: Sequence[str] = (),
    ) -> None:
        self.data = data
        self.role = role
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.admin = Admin(self.url)
        options = ["--config", config] if config else []
        command = ["run", role] if role else ["up"]
        argv = bus_command(*command, "--data", data, "--port", self.port, *options, instead=instead)
        self.child = Child([*under, *argv], log=log or data.with_name(f"{data.name}.log"), env=env)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self.child.pid

    def start(self, within: float = START_WITHIN) -> Self:
        """Start it and wait until all of it serves."""
        self.child.start()
        wait_until(
            self._healthy, within=within, what=f"{self.data.name} is healthy", every=0.02, state=self.child.output
        )
        return self

    def kill(self) -> None:
        """SIGKILL it."""
        self.child.kill()

    def stop(self, within: float = 45) -> int:
        """Send SIGTERM, wait for the drain, and return the exit code."""
        return self.child.stop(within)

    def _healthy(self) -> bool:
        self.child.check_running()
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5, **PLAIN).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def __enter__(self) -> Self:
        return self if self.child.running else self.start()

    def close(self) -> None:
        """SIGKILL it and close the connections to it."""
        self.kill()
        self.admin.close()

    def __exit__(self, *_: object) -> None:
        self.close()
