"""Child processes with their output in a file, ended by their own id."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from tests.harness.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SHOWN_BYTES = 4_000
_LOWEST: Final = 10_000
_FIRST_OUTGOING: Final = 32_768  # the first port that Linux gives to outgoing connections, unless it was told others


class Died(AssertionError):
    """A process ended that should have gone on; the text has the end of its output."""


class Child:
    """One program run in the repository's folder, in a process group of its own.

    Parameters
    ----------
    log
        File for standard output and error together; later runs of the same program append.
    env
        Changes to this process's environment, from which all ``BUS_*`` are left out.
    """

    def __init__(self, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.argv = list(argv)
        self.log = log
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
        self._env |= {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT), **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._output_from = 0

    @property
    def pid(self) -> int:
        """The id of the running process."""
        if self._process is None:
            raise Died(f"{self.argv} was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it; returns at once."""
        self._output_from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.argv,
                cwd=ROOT,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def signal(self, number: int) -> None:
        """Send a signal to the process alone."""
        if self.running and self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL it and everything it started; returns when it is gone."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, within: float) -> int:
        """Return the exit code; raises TooLate when it does not end in time."""
        wait_until(lambda: not self.running, within=within, what=f"end of {self.argv}", every=0.02, state=self.output)
        if self._process is None or self._process.returncode is None:
            raise Died(f"{self.argv} was not started")
        return self._process.returncode

    def stop(self, within: float = 60) -> int:
        """Send SIGTERM and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(within)

    def output(self) -> str:
        """Return the end of what it wrote since it was last started."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(self._output_from)
            return file.read()[-SHOWN_BYTES:].decode(errors="replace")

    def check_running(self) -> bool:
        """Return True, or raise Died with its output."""
        if not self.running:
            code = None if self._process is None else self._process.returncode
            raise Died(f"{self.argv} ended with {code}:\n{self.output()}")
        return True

    def ready_line(self, within: float = 20, *, number: int = 0) -> dict[str, Any]:
        """Wait for the first whole line of JSON that it prints, or a later one, and return it."""
        return wait_until(
            lambda: self._json_line(number), within=within, what=f"a JSON line of {self.argv}", every=0.02
        )

    def _json_line(self, number: int) -> dict[str, Any] | None:
        text = self.output()
        lines = [line for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("{")]
        if len(lines) <= number:
            self.check_running()
            return None
        found: dict[str, Any] = json.loads(lines[number])
        return found

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


def module(name: str, *arguments: object) -> list[str]:
    """Return the command line of a Python module of this repository."""
    return [sys.executable, "-m", name, *map(str, arguments)]


def free_port() -> int:
    """Return a loopback port that was free a moment ago, and that nobody else is given meanwhile.

    It may be seconds until the one that it is for listens: what this process was given before comes again last, other
    workers have other ports, and no outgoing connection is given one of these.
    """
    while True:
        port = next(_ports)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _walk() -> Iterator[int]:
    """Return the ports of this worker of the run, round and round from anywhere on, for other runs have the same."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    mine = range(_LOWEST + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), _FIRST_OUTGOING, workers)
    start = random.randrange(len(mine))
    return itertools.cycle((*mine[start:], *mine[:start]))


_ports: Final = _walk()
