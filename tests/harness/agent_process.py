"""``bus agent`` as a real process: started, killed, started again."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tests.harness.bus_process import bus_command
from tests.harness.process import Child, free_port

START_WITHIN = 30.0


class AgentProcess:
    """One agent on a spool directory and a port that stay the same over restarts; ``options`` are its others."""

    def __init__(
        self, folder: Path, url: str, *options: object, spool: Path | None = None, name: str = "agent"
    ) -> None:
        self.spool = spool or folder / "spool"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        own = "--json", "--url", url, "--spool", self.spool, "--port", self.port, "--source", name
        self.child = Child(bus_command("agent", *own, *options), log=folder / f"{name}.log")

    def start(self) -> Self:
        """Start it and wait until it serves."""
        self.child.start()
        self.child.ready_line(START_WITHIN)
        return self

    def kill(self) -> None:
        """SIGKILL it."""
        self.child.kill()

    def stop(self, within: float = 30) -> int:
        """Send SIGTERM and return the exit code."""
        return self.child.stop(within)

    def __enter__(self) -> Self:
        return self if self.child.running else self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
