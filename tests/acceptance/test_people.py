"""People and keys over several processes: who is let in, who no longer, and what the audit log says of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.cluster import Cluster
from tests.harness.http import PLAIN
from tests.harness.waiting import wait_until


class Browser:
    """One browser; it shows its session's cookie and proof to whichever process it asks."""

    def __init__(self) -> None:
        self._http = httpx.Client(timeout=60, **PLAIN)
        self.proof = ""

    def log_in(self, at: BusProcess, name: str, password: str) -> httpx.Response:
        answer = self.call("POST", at, "/session", json={"name": name, "password": password})
        self.proof = answer.json().get("csrf", "")
        return answer

    def call(self, verb: str, at: BusProcess, path: str, **options: Any) -> httpx.Response:
        headers = {"origin": at.url, "x-csrf-token": self.proof}
        return self._http.request(verb, f"{at.url}/api/v1{path}", headers=headers, **options)

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


def offline(folder: Path, *arguments: str) -> dict[str, Any]:
    ran = run_bus(
        *arguments, "--data", folder / "offline", "--json", env={"BUS_STORE": f"sqlite:///{folder.absolute()}/store"}
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_a_session_holds_in_every_process_and_after_a_restart_until_it_is_ended(
    tmp_path: Path, browser: Browser
) -> None:
    password = offline(tmp_path, "user", "add", "ann", "--role", "admin")["password"]
    with Cluster(tmp_path, ("receiver", "admin", "admin")) as bus:
        one, other = bus.of("admin")
        assert browser.call("GET", one, "/destinations").status_code == 401
        assert browser.log_in(one, "ann", "wrong").status_code == 401
        assert browser.log_in(one, "ann", password).status_code == 201
        assert browser.call("PUT", other, "/destinations/orders", json={}).status_code == 200
        one.kill()
        one.start()
        assert browser.call("GET", one, "/destinations/orders").status_code == 200
        key = browser.call("POST", one, "/keys", json={"role": "producer"}).json()
        bearer = {"authorization": f"Bearer {key['key']}"}
        place = f"{bus.url}/v1/messages/orders"
        wait_until(
            lambda: httpx.post(place, content=b"{}", headers=bearer, **PLAIN).status_code == 202,
            within=60,
            what="the receiver knows the key",
        )
        assert browser.call("DELETE", other, f"/keys/{key['id']}").status_code == 204
        wait_until(
            lambda: httpx.post(place, content=b"{}", headers=bearer, **PLAIN).status_code == 401,
            within=60,
            what="the receiver refuses the key",
        )
        found = browser.call("GET", other, "/audit").json()["items"]
        assert [(entry["who"]["name"], entry["method"], entry["resource"], entry["outcome"]) for entry in found] == [
            ("ann", "DELETE", f"keys/{key['id']}", "done"),
            ("ann", "POST", "keys", "done"),
            ("ann", "PUT", "destinations/orders", "done"),
            ("ann", "POST", "session", "done"),
        ]
        assert browser.call("DELETE", one, "/session").status_code == 204
        for process in (one, other):
            assert browser.call("GET", process, "/session").status_code == 401


def test_nothing_changes_without_an_entry_though_the_bus_is_killed_meanwhile(tmp_path: Path) -> None:
    answered: set[str] = set()
    with BusProcess(tmp_path / "data") as bus:
        for life in range(3):
            with ThreadPoolExecutor(4) as hands:
                working = [hands.submit(_change_until_it_dies, bus.url, f"{life}-{hand}") for hand in range(4)]
                try:
                    wait_until(
                        lambda life=life: len(_codes(bus.url)) >= 25 * (life + 1), within=90, what="changes are made"
                    )
                finally:
                    bus.kill()
                answered |= {code for one in working for code in one.result()}
            bus.start()
        found = httpx.get(f"{bus.url}/api/v1/audit", params={"limit": 1000}, timeout=60, **PLAIN).json()["items"]
        there = _codes(bus.url)
    outcomes = {entry["resource"].removeprefix("destinations/"): entry["outcome"] for entry in found}
    assert there <= set(outcomes)
    assert answered <= there
    assert {outcomes[code] for code in answered} == {"done"}
    assert set(outcomes.values()) <= {"done", "unknown"}


def _change_until_it_dies(url: str, prefix: str) -> list[str]:
    """Make destinations until the bus is gone; return those whose making was answered."""
    answered = []
    with httpx.Client(timeout=60, **PLAIN) as http:
        for number in itertools.count():
            code = f"d{prefix}-{number}"
            try:
                answer = http.put(f"{url}/api/v1/destinations/{code}", json={})
            except httpx.TransportError:
                return answered
            assert answer.status_code == 200, answer.text
            answered.append(code)
    raise AssertionError("the bus did not die")


def _codes(url: str) -> set[str]:
    return {item["code"] for item in httpx.get(f"{url}/api/v1/destinations", timeout=60, **PLAIN).json()["items"]}
