"""A bus whose store or broker is away, or hangs, starts and stops all the same, again and again."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.process import free_port

DRAIN: Final = 10  # seconds; the bus's own limit of a stop
# What others on this machine may add to a start or a stop.
PATIENCE: Final = 20
SETTINGS: Final = {
    "mongodb": lambda port: {"BUS_STORE": f"mongodb://127.0.0.1:{port}/bus"},
    "kafka": lambda port: {"BUS_KAFKA_BOOTSTRAP": f"127.0.0.1:{port}"},
    "rabbitmq": lambda port: {"BUS_RABBITMQ_PRIMARY": f"amqp://guest:guest@127.0.0.1:{port}/"},
    "nsq": lambda port: {"BUS_NSQ_NSQD": f"127.0.0.1:{port}"},
}


@contextmanager
def refusing() -> Iterator[int]:
    """Give a port at which nobody listens."""
    yield free_port()


@contextmanager
def silent() -> Iterator[int]:
    """Give a port that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield listener.getsockname()[1]


def start_and_stop(folder: Path, env: dict[str, str], times: int) -> None:
    """Start and stop it so many times; each stop is a clean one."""
    with BusProcess(folder / "data") as before:
        assert before.stop() == 0  # a bus that was never at work has no configuration without its store
    env |= {"BUS_DRAIN_TIMEOUT": str(DRAIN)}
    bus, starts, stops = BusProcess(folder / "data", env=env), [], []
    try:
        for _ in range(times):
            begun = time.monotonic()
            bus.start(within=5 + PATIENCE)
            starts.append(time.monotonic() - begun)
            begun = time.monotonic()
            assert bus.stop(within=DRAIN + PATIENCE) == 0, bus.child.output()
            stops.append(time.monotonic() - begun)
            assert "Traceback" not in bus.child.output()
    finally:
        bus.close()
    print({"times": times, "longest_start": round(max(starts), 2), "longest_stop": round(max(stops), 2)})


@pytest.mark.parametrize("away", [refusing, silent])
def test_a_bus_starts_and_stops_while_all_parts_are_away(tmp_path: Path, away: Callable[..., contextmanager]) -> None:
    with away() as port:
        env = {key: value for settings in SETTINGS.values() for key, value in settings(port).items()}
        start_and_stop(tmp_path, env, 1)


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("away", [refusing, silent])
@pytest.mark.parametrize("part", SETTINGS)
def test_a_bus_starts_and_stops_twenty_times_while_a_part_is_away(
    tmp_path: Path, part: str, away: Callable[..., contextmanager]
) -> None:
    with away() as port:
        start_and_stop(tmp_path, SETTINGS[part](port), 20)
