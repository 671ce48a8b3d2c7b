"""``bus up`` with several processes on one port: any of them, and their supervisor, may be killed."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import httpx
import msgspec

from bus.serving import Place
from tests.harness.bus_process import START_WITHIN, BusProcess
from tests.harness.http import PLAIN
from tests.harness.waiting import wait_until


class ProcessGroup(BusProcess):
    """A supervisor and its processes; used like one ``BusProcess``, of which a kill is that of one of them in turn."""

    def __init__(
        self,
        data: Path,
        count: int,
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        instead: Sequence[object] = (),
    ) -> None:
        super().__init__(data, log=log, env={**(env or {}), "BUS_PROCESSES": str(count)}, instead=instead)
        self.count = count
        self._victims = itertools.cycle([*range(count), None])

    def places(self) -> dict[int, tuple[int, str]]:
        """Return the id and the own URL of each process that runs, by its number."""
        found: dict[int, tuple[int, str]] = {}
        for process in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
            try:
                environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            for entry in environment:
                name, _, value = entry.partition(b"=")
                if name == b"PIER_PLACE":
                    place = msgspec.json.decode(value, type=Place)
                    found[place.number] = int(process), place.urls[place.number]
        return found

    def start(self, within: float = START_WITHIN) -> Self:
        """Start it unless it runs, and wait until all of its processes serve."""
        if not self.child.running:
            super().start(within)
        wait_until(self._all_serve, within=within, what="all processes serve", every=0.02, state=self.child.output)
        return self

    def kill_one(self, number: int) -> None:
        """SIGKILL one process; it is gone when this returns."""
        pid, _ = self.places()[number]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.places().get(number, (0, ""))[0] != pid, within=10, what="it is gone", every=0.01)

    def kill(self) -> None:
        """SIGKILL one process, another one each time, and the supervisor in its turn."""
        victim = next(self._victims)
        if victim is None:
            self.kill_all()
        else:
            self.kill_one(victim)

    def kill_all(self) -> None:
        """SIGKILL the supervisor alone, and wait until its processes are gone."""
        left = [pid for pid, _ in self.places().values()]
        self.child.kill()
        wait_until(
            lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), within=10, what="no process outlives it"
        )

    def close(self) -> None:
        """SIGKILL all and close the connections."""
        if self.child.running:
            self.kill_all()
        self.admin.close()

    def _all_serve(self) -> bool:
        self.child.check_running()
        places = self.places()
        return len(places) == self.count and all(_serves(url) for _, url in places.values())


def _serves(url: str) -> bool:
    # That of the process itself: what waits in the backlog of its socket is answered only once it serves.
    try:
        return httpx.get(f"{url}/healthz", timeout=5, **PLAIN).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
