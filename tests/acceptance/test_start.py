"""Modules that a bus loads before it serves: none that nobody has asked for yet."""

from __future__ import annotations

import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.harness.bus_process import BusProcess, bus_command
from tests.harness.http import PLAIN
from tests.harness.process import Child, free_port
from tests.harness.waiting import wait_until

IMPORTED: Final = re.compile(r"^import time:.*\|\s*(\S+)$", re.MULTILINE)
# Each costs a good part of a second, or belongs to something that the settings do not name.
INTRUDERS: Final = {
    "the admin API": ("fastapi", "admin.app", "admin.routes", "admin.models"),
    "the pages": ("nicegui", "socketio", "engineio", "admin.pages.build", "admin.pages.guard"),
    "single sign-on": ("authlib", "joserfc", "bus.security.oidc"),
    "calls to other processes": ("httpx", "httpcore"),
    "brokers": (
        "aiokafka",
        "aio_pika",
        "aiormq",
        "bus.transports.kafka",
        "bus.transports.rabbitmq",
        "bus.transports.nsq",
    ),
    "another store": ("pymongo", "bson", "bus.stores.mongodb"),
    "the pipeline": ("pyspark", "pandas", "numpy", "pyarrow", "statsmodels", "pipeline.session"),
}
MOST: Final = 1015  # 1013 when this was written


def modules_of(output: str) -> set[str]:
    return set(IMPORTED.findall(output))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the modules that ``bus up`` has loaded when it answers, and when it has stopped."""
    folder, port = tmp_path_factory.mktemp("start"), free_port()
    argv = [sys.executable, "-X", "importtime", *bus_command("up", "--data", folder / "data", "--port", port)]
    with Child(argv, log=folder / "bus.log") as bus:

        def healthy() -> bool:
            bus.check_running()
            try:
                return httpx.get(f"http://127.0.0.1:{port}/healthz", **PLAIN).is_success
            except httpx.TransportError:
                return False

        wait_until(healthy, within=60, what="the bus answers", state=bus.output)
        bus.signal(signal.SIGTERM)
        assert bus.wait(30) == 0, bus.output()
    return modules_of((folder / "bus.log").read_text())


@pytest.mark.parametrize("part", INTRUDERS)
def test_what_nobody_asked_for_is_not_loaded(loaded: set[str], part: str) -> None:
    parts = INTRUDERS[part]
    assert not sorted(name for name in loaded if any(name == one or name.startswith(f"{one}.") for one in parts))


def test_a_start_loads_no_more_than_it_did(loaded: set[str]) -> None:
    families = Counter(name.split(".")[0] for name in loaded).most_common(15)
    assert "dispatcher.dispatcher" in loaded
    assert len(loaded) <= MOST, f"{len(loaded)} modules; the largest families are {families}"


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[BusProcess]:
    with BusProcess(tmp_path / "data") as bus:
        yield bus


def test_whoever_asks_first_is_answered_though_all_ask_at_once(fresh: BusProcess) -> None:
    paths = ["/api/v1/destinations", "/openapi.json", "/admin/", "/admin/destinations", "/v1/messages/nobody"] * 4
    with ThreadPoolExecutor(len(paths)) as pool:
        answers = pool.map(lambda path: httpx.get(f"{fresh.url}{path}", timeout=60, **PLAIN).status_code, paths)
        assert dict(zip(paths, answers, strict=True)) == dict.fromkeys(paths, 200) | {"/v1/messages/nobody": 405}
    assert "Traceback" not in fresh.child.log.read_text()
