"""A real server that a test holds in its hands: started, stopped, killed, paused, wiped."""

from __future__ import annotations

import os
import shutil
import signal
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from tests.harness.process import Child
from tests.harness.waiting import wait_until


class LocalServer(ABC):
    """One server process on loopback, with a folder of its own and ports that stay the same over restarts.

    Parameters
    ----------
    folder
        For its data, configuration and output; made when it is not there.
    """

    name: str
    """What it is called in errors and in the file of its output."""

    start_within = 60.0
    stop_within = 30.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self._child: Child | None = None

    @abstractmethod
    def argv(self) -> list[str]:
        """Return the command line."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves: one cheap request through its own protocol, False when refused."""

    def env(self) -> dict[str, str]:
        """Return changes to the environment."""
        return {}

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Write what it needs before a start; called each time, so it must bear being there already."""

    @property
    def child(self) -> Child:
        """Its process, running or not."""
        if self._child is None:
            self._child = Child(self.argv(), log=self.folder / f"{self.name}.log", env=self.env())
        return self._child

    def start(self) -> Self:
        """Start it and wait until it answers."""
        self.prepare()
        self.child.start()
        wait_until(self._serves, within=self.start_within, what=f"{self.name} answers", state=self.child.output)
        return self

    def stop(self) -> None:
        """End it in order."""
        self.child.stop(self.stop_within)

    def kill(self) -> None:
        """SIGKILL it and what it started."""
        self.child.kill()

    def pause(self) -> None:
        """SIGSTOP it: connections stay and nobody answers."""
        self.child.signal(signal.SIGSTOP)
        # Until all of its threads stand still, one of them may answer.
        os.waitid(os.P_PID, self.child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Undo ``pause``."""
        self.child.signal(signal.SIGCONT)

    def erase(self) -> None:
        """SIGKILL it, and delete all that it stored."""
        self.kill()
        shutil.rmtree(self.data)
        self.data.mkdir()

    def wipe(self) -> None:
        """SIGKILL it, delete all that it stored, and start it again."""
        self.erase()
        self.start()

    def close(self) -> None:
        """SIGKILL it; its folder stays."""
        if self._child is not None:
            self._child.kill()

    def _serves(self) -> bool:
        self.child.check_running()
        return self.answers()

    def __enter__(self) -> Self:
        return self if self.child.running else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
