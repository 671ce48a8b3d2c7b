"""The effect of callers without a key on a producer with one, and on memory, attack by attack."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path

from bench.attackers import ATTACKS
from bench.report import Row
from bench.run import Run
from bench.sending import percentile
from bench.usage import Usage
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.process import Child, module

SECTION = "strangers"
PAUSE = 0.01
P99_TARGET = 1.5
MIB = 2**20
SETTLED = 2.0
"""Seconds from the end of an attack until the bus is measured again."""


def measure(run: Run) -> list[Row]:
    """Return two rows for each attack: the producer's p99 beside the one of just before, and memory."""
    with run.place() as folder:
        data = folder / "data"
        secret = json.loads(run_bus("key", "create", "--role", "admin", "--data", data, "--json").stdout)["key"]
        with BusProcess(data) as bus:
            bus.admin.authorize(secret)
            bus.admin.destination("d")
            _latencies(bus.port, secret, run.size.seconds)
            return [row for kind in ATTACKS for row in _rows(run, folder, bus, secret, kind)]


def _rows(run: Run, folder: Path, bus: BusProcess, secret: str, kind: str) -> list[Row]:
    run.step(kind)
    quiet, attacked, grown, memory = [], [], [], Usage([bus.pid]).memory()
    for _ in range(run.size.rounds):
        quiet.append(percentile(_latencies(bus.port, secret, run.size.seconds), 0.99))
        argv = module("bench.attackers", bus.port, kind, run.size.seconds + SETTLED)
        with Child(argv, log=folder / "attackers.log") as attackers:
            time.sleep(SETTLED / 2)
            attacked.append(percentile(_latencies(bus.port, secret, run.size.seconds), 0.99))
            grown.append((Usage([bus.pid]).memory() - memory) / MIB)
            attackers.wait(within=30)
        time.sleep(SETTLED)
    return [
        Row(SECTION, f"{kind}: others' p99", attacked, "ms", "without", quiet, P99_TARGET, lower=True),
        Row(SECTION, f"{kind}: memory gained", grown, "MiB", "allowed", [20.0] * len(grown), 1.0, lower=True),
    ]


def _latencies(port: int, secret: str, seconds: float) -> list[float]:
    """Send messages one after the other, and return how many milliseconds each took, sorted."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"content-type": "application/json", "authorization": f"Bearer {secret}"}
    taken, end = [], time.monotonic() + seconds
    while (begun := time.monotonic()) < end:
        connection.request("POST", "/v1/messages/d", b'{"n":1}', headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == http.client.ACCEPTED, answer.status
        taken.append((time.monotonic() - begun) * 1000)
        time.sleep(PAUSE)
    connection.close()
    return sorted(taken)
