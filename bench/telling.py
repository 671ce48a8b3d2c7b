"""The cost of trace events: buses with and without them run at the same time, each on a core of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Final

import psutil

from bench.deliveries import WARM_UP, push
from bench.report import Row
from bench.run import Run
from bench.systems import BenchedTransport, System
from tests.harness.subscribers import SubscriberProcess

SECTION = "trace events"
TOLD: Final = "files"
SILENT: Final = "none"
CPU_TARGET = 1.03
_Bus = tuple[System, SubscriberProcess]


def measure(run: Run) -> list[Row]:
    """Return the rows for 1 and 4 subscribers."""
    return [_row(run, subscribers) for subscribers in (1, 4)]


def _row(run: Run, subscribers: int) -> Row:
    told: list[float] = []
    silent: list[float] = []
    for round_ in range(run.size.rounds):
        run.step(f"trace events, {subscribers} subscribers, round {round_ + 1}")
        pair = _swapped_pair(run, subscribers)
        told.append(pair[TOLD])
        silent.append(pair[SILENT])
    figure = f"CPU for 1,000 deliveries, {subscribers} subscriber{'s' if subscribers > 1 else ''}"
    return Row(SECTION, figure, told, "s", f"events = {SILENT}", silent, CPU_TARGET, lower=True)


def _swapped_pair(run: Run, subscribers: int) -> dict[str, float]:
    """Return the processor seconds for 1,000 deliveries of each kind, as their geometric mean over both cores.

    A machine that is shared is faster or slower from second to second, and its cores differ. Both kinds run at the
    same time, and then once more with their cores exchanged: what is left of it in their ratio is noise.
    """
    paths = [f"/s{number}" for number in range(subscribers)]
    count = run.size.messages // (2 if subscribers > 1 else 1)
    with ExitStack() as stack:
        buses = {kind: _bus(stack, run, kind, paths) for kind in (TOLD, SILENT)}
        _both(buses, paths, WARM_UP)
        first, second = _cores()
        turns = []
        for cores in ({TOLD: first, SILENT: second}, {TOLD: second, SILENT: first}):
            for kind, core in cores.items():
                _pin(buses[kind][0], core)
            turns.append(_both(buses, paths, count))
    return {kind: (turns[0][kind] * turns[1][kind]) ** 0.5 for kind in buses}


def _bus(stack: ExitStack, run: Run, kind: str, paths: Sequence[str]) -> _Bus:
    sink = stack.enter_context(run.sink())
    transport = BenchedTransport("direct", {"BUS_EVENTS": kind})
    return stack.enter_context(run.system("bus", [sink.url(path) for path in paths], transport=transport)), sink


def _both(buses: Mapping[str, _Bus], paths: Sequence[str], count: int) -> dict[str, float]:
    """Give both buses the same load at the same time; return the processor seconds of each for 1,000 deliveries."""
    with ThreadPoolExecutor(len(buses)) as threads:
        pushed = {kind: threads.submit(push, *bus, paths, count) for kind, bus in buses.items()}
        return {kind: figures.result().cpu for kind, figures in pushed.items()}


def _cores() -> tuple[int, int]:
    """Return two of the cores that this process may use; the same one twice on a machine that has no more."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


def _pin(system: System, core: int) -> None:
    """Bind all threads of a system to a core; those that it starts later follow them."""
    for process in system.usage.processes():
        with suppress(psutil.NoSuchProcess):
            for thread in process.threads():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread.id, {core})
