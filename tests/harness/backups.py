"""A bus under load that is backed up, killed and put back elsewhere, and what then has to be true."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.http import PLAIN
from tests.harness.subscribers import SubscriberProcess


class Load:
    """Posts messages to receivers from several threads, and notes which were acknowledged; ``acknowledged`` grows.

    With a key one thread sends, so that there is an order.
    """

    def __init__(
        self, urls: Sequence[str], code: str, *, rate: float, threads: int = 4, size: int = 200, key: str = ""
    ) -> None:
        self.acknowledged: list[str] = []
        self._code = code
        self._key = {"bus-key": key} if key else {}
        threads = 1 if key else threads
        self._numbers = itertools.count()
        self._pad = "x" * size
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(urls[n % len(urls)], threads / rate)) for n in range(threads)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _run(self, url: str, pause: float) -> None:
        with httpx.Client(base_url=url, timeout=10, **PLAIN) as http:
            while not self._ending.is_set():
                body = json.dumps({"seq": next(self._numbers), "pad": self._pad}).encode()
                headers = {"content-type": "application/json", **self._key}
                try:
                    answer = http.post(f"/v1/messages/{self._code}", content=body, headers=headers)
                except httpx.TransportError:  # it was killed
                    time.sleep(pause)
                    continue
                if answer.status_code == httpx.codes.ACCEPTED:
                    self.acknowledged.append(answer.json()["id"])
                self._ending.wait(pause)


def configure(bus: BusProcess | Any, subscriber: SubscriberProcess, code: str, names: Iterable[str]) -> None:
    """Make a destination with a subscription of each name, whose path is the same."""
    bus.admin.destination(code)
    for name in names:
        bus.admin.subscription(
            code, name, subscriber.url(f"/{name}"), retry=["300ms", "1s"], stuck_after="5s", max_concurrency=16
        )


def taken(folder: Path, data: Path, *options: object, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Take a backup and return what it says."""
    done = run_bus("backup", folder, "--data", data, "--json", *options, env=env, within=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def put_back(folder: Path, data: Path, *options: object, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Restore a backup and return what it says."""
    done = run_bus("restore", folder, "--data", data, "--json", *options, env=env, within=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def unfinished(bus: BusProcess | Any, code: str, ids: Iterable[str]) -> set[str]:
    """Return the messages that are not delivered, or not known."""
    found = {message["id"]: message["status"] for message in bus.admin.messages(destination=code)}
    return {each for each in ids if found.get(each) != "delivered"}


def missing(subscriber: SubscriberProcess, names: Iterable[str], ids: Iterable[str]) -> dict[str, set[str]]:
    """Return what has not reached each subscriber, of messages that had to."""
    calls = subscriber.calls()
    found = {}
    for name in names:
        arrived = {call.id for call in calls if call.path == f"/{name}" and 200 <= call.status < 300}
        if left := set(ids) - arrived:
            found[name] = left
    return found
