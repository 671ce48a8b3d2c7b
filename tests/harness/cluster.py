"""A bus whose roles are processes of their own, several of some, over one store."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.harness.bus_process import BusProcess

ROLES = ("admin", "receiver", "receiver", "dispatcher", "dispatcher", "compensator")


class Cluster:
    """Processes below a folder, each with a data directory of its own; used like one ``BusProcess``.

    Parameters
    ----------
    store
        Where all of them keep traces and configuration; left out: SQLite below the folder.
    env
        More settings, the same for all.
    """

    def __init__(
        self, folder: Path, roles: Sequence[str] = ROLES, *, store: str = "", env: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._env = {**(env or {}), "BUS_STORE": store or f"sqlite:///{folder.absolute()}/store"}
        self._numbers = itertools.count(1)
        self.processes = [self._new(role) for role in roles]
        self._victims = itertools.cycle(self.processes)
        self.url = self.of("receiver")[0].url
        self.admin = self.of("admin")[0].admin

    def _new(self, role: str) -> BusProcess:
        name = f"{role}-{next(self._numbers)}"
        return BusProcess(self._folder / name, log=self._folder / f"{name}.log", env=self._env, role=role)

    def of(self, role: str) -> list[BusProcess]:
        """Return the processes of a role."""
        return [process for process in self.processes if process.role == role]

    def add(self, role: str) -> BusProcess:
        """Start one more."""
        process = self._new(role)
        self.processes.append(process)
        return process.start()

    def start(self) -> Self:
        """Start all that do not run."""
        for process in self.processes:
            if not process.child.running:
                process.start()
        return self

    def kill(self) -> None:
        """SIGKILL one, another one each time."""
        next(self._victims).kill()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.close)
            self.start()
            stack.pop_all()
        return self

    def close(self) -> None:
        """SIGKILL all."""
        for process in self.processes:
            process.close()

    def __exit__(self, *_: object) -> None:
        self.close()
