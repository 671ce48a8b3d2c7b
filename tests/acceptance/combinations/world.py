"""Runs the rows of a group at the same time on one bus, which suffers the group's fault in the middle of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

from tests.acceptance.combinations.model import Group, Row
from tests.acceptance.combinations.oracle import Verdict, Window
from tests.acceptance.combinations.row_run import PAUSE, RowRun
from tests.harness.agent_process import AgentProcess
from tests.harness.bus_process import BusProcess
from tests.harness.cluster import Cluster
from tests.harness.loop_disk import MIB, loop_disk
from tests.harness.parts import BROKERS, STORES, Part
from tests.harness.process_group import ProcessGroup
from tests.harness.subscribers import SubscriberProcess

_DISK: Final = 1024 * MIB
_ROLES: Final = ("admin", "receiver", "dispatcher", "dispatcher", "compensator")
_FAULT_AT: Final = 0.7
_BEAT: Final = 0.05
_STALLED: Final = 0.4


class Brokers:
    """Real brokers, each started when the first row needs it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._parts: dict[str, Part] = {}

    def env(self, names: set[str]) -> dict[str, str]:
        """Return the bus's settings for some."""
        for name in sorted(names - self._parts.keys()):
            folder = self._folder / name
            folder.mkdir()
            self._parts[name] = self._stack.enter_context(BROKERS[name](folder))
        return {key: value for name in names for key, value in self._parts[name].env.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class World:
    """One group's bus, subscriber and agent; each row sends ``count`` different messages, a third if they are large."""

    def __init__(self, group: Group, folder: Path, brokers: Brokers, count: int) -> None:
        self.group = group
        self.count = count
        self.folder = folder
        self.windows: list[Window] = []
        self._brokers = brokers
        self._stack = ExitStack()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.subscriber = stack.enter_context(SubscriberProcess(self.folder, fsync=False))
            self._start(stack)
            self.agent = stack.enter_context(AgentProcess(self.folder, self.urls[0]))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._stack.close()

    @property
    def urls(self) -> list[str]:
        """Where receivers are."""
        if isinstance(self.bus, Cluster):
            return [one.url for one in self.bus.of("receiver")]
        return [self.bus.url]

    def _start(self, stack: ExitStack) -> None:
        env = self._brokers.env({row.transport for row in self.group.rows})
        data = self.folder
        self.disk = self.store = None
        if self.group.fault == "disk":
            self.disk = stack.enter_context(loop_disk(self.folder, _DISK))
            data = self.disk.path
        if self.group.fault == "store":
            self.store = stack.enter_context(STORES["mongodb"](self.folder / "mongodb"))
            env |= self.store.env
        self.bus: BusProcess | Cluster
        match self.group.processes:
            case "one":
                self.bus = BusProcess(data / "data", log=self.folder / "bus.log", env=env)
            case "two":
                self.bus = ProcessGroup(data / "data", 2, log=self.folder / "bus.log", env=env)
            case "apart":
                self.bus = Cluster(data, _ROLES, store=env.pop("BUS_STORE", ""), env=env)
        stack.enter_context(self.bus)

    def run(self) -> dict[Row, Verdict]:
        """Run all rows and the fault, and judge each."""
        threading.Thread(target=self._watch_stalls, daemon=True).start()
        with ThreadPoolExecutor(len(self.group.rows) + 1) as pool:
            runs = [RowRun(self, row) for row in self.group.rows]
            list(pool.map(RowRun.configure, runs))
            sends = [pool.submit(run.send) for run in runs]
            fault = pool.submit(self._suffer)
            for future in (*sends, fault):
                future.result()
            return dict(zip(self.group.rows, pool.map(RowRun.verdict, runs), strict=True))

    def _suffer(self) -> None:
        if self.group.fault == "none":
            return
        time.sleep(_FAULT_AT)
        begin = time.time()
        self._strike()
        end = time.time()
        # Waits double while the fault lasts, so that it may be noticed as late again that it is over.
        self.windows.append(Window(begin, end + (end - begin)))

    def _strike(self) -> None:
        if self.disk is not None:
            self.disk.fill(leave=MIB)
            time.sleep(PAUSE)
            self.disk.empty()
        elif self.store is not None:
            server = self.store.servers[0]
            server.kill()
            time.sleep(PAUSE)
            server.start()
        elif self.group.fault == "kill":
            self.bus.kill()
            self.bus.start()
        else:
            for process in self.bus.processes if isinstance(self.bus, Cluster) else [self.bus]:
                process.stop()
            self.bus.start()

    def _watch_stalls(self) -> None:
        """Note when this machine has no time for anybody."""
        last = time.time()
        while not self._over.wait(_BEAT):
            now = time.time()
            if now - last > _STALLED:
                self.windows.append(Window(last, now))
            last = now


@contextmanager
def world(group: Group, folder: Path, brokers: Brokers, count: int) -> Iterator[World]:
    """Start what a group needs."""
    folder.mkdir()
    with World(group, folder, brokers, count) as made:
        yield made
