"""A running bus is asked everything that its OpenAPI document has, by its schema and against it.

Nothing fails inside, nothing is answered that is not documented, and nobody is let in without what is declared.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.admin import Admin
from tests.harness.api_fuzz import Key, fuzz
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.http import PLAIN
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

OPERATIONS = 71
# How long each role asks, and how many operations are done at least. Of those that need no session and no OpenID
# Connect provider some are refused whenever an admin asks them.
ROLES = {"admin": (1_200, OPERATIONS - 4 - 4), "operator": (300, 20), "viewer": (300, 20), "producer": (300, 1)}
OWN = r"GET |(PUT|DELETE) /api/v1/views/|(POST|DELETE) /api/v1/session$"
# An ndjson request is answered with 200 and one result per line; every line of a viewer is rejected.
MAY = {"viewer": re.compile(rf"{OWN}|POST /v1/messages$"), "producer": re.compile(rf"{OWN}|POST /v1/")}
# Keys and jobs that the requests may end.
USED_UP = 20


class World:
    """A bus with something of everything, which is made again for as long as it is asked."""

    def __init__(self, folder: Path, bus: BusProcess, subscriber: SubscriberProcess, key: Key) -> None:
        self.folder = folder
        self.bus = bus
        self.subscriber = subscriber
        self.key = key
        self.admin = bus.admin
        self.admin.authorize(key.secret)

    def key_of(self, role: str) -> Key:
        """Make a key; the admin's is the one that furnishes, too."""
        if role == "admin":
            return self.key
        made = self.call("POST", "/keys", json={"role": role}).json()
        return Key(made["id"], made["key"])

    def furnish(self) -> None:
        """Make what the requests remove; one that comes in between may refuse it, and the next time makes it."""
        self.call("PUT", "/destinations/orders", json={})
        self.call("PUT", "/destinations/empty", json={})
        self.call("PUT", "/destinations/cards", json={"mask": ["body.number", "headers.x-secret"]})
        for code in ("orders", "cards"):
            subscriptions = f"/destinations/{code}/subscriptions"
            broken = {"url": self.subscriber.url("/broken"), "retry": ["1s"], "retry_max_attempts": 2}
            self.call("PUT", f"{subscriptions}/billing", json={"url": self.subscriber.url("/ok")})
            self.call("PUT", f"{subscriptions}/broken", json=broken)
        self.call("PUT", "/rates", json={})
        self.call("PUT", "/views/morning", json={"page": "messages"})
        self.call("POST", "/users", json={"name": "ann", "role": "viewer"})

    def send(self) -> httpx.Response:
        """Send a message to each destination, and return the first answer."""
        answers = [self.admin.send(code, b'{"number": 1}', bus_biz_id="b1") for code in ("orders", "cards")]
        return answers[0]

    def known(self) -> dict[str, list[str]]:
        """Return values of parameters for which something is there."""
        sent = self.send().json()["id"]
        attempts = [f"/messages/{sent}/deliveries/{name}/attempts/1" for name in ("billing", "broken")]
        wait_until(
            lambda: all(self.call("GET", attempt).status_code == 200 for attempt in attempts),
            within=30,
            what="both subscriptions were tried",
        )
        whole, slow = {"filter": {"destination": "orders"}}, {"filter": {"destination": "cards"}, "rate": 0.01}
        jobs = [self.call("POST", "/resends", json=body).json()["id"] for body in (whole, *[slow] * USED_UP)]
        keys = [self.call("POST", "/keys", json={"role": "viewer"}).json()["id"] for _ in range(USED_UP)]
        owner = self.call("GET", "/processes").json()["items"][0]["owner"]
        codes, names = ["orders", "cards"], ["billing", "broken"]
        return {
            "path.code": [*codes, "empty"],
            "path.destination": codes,
            "path.name": [*names, "morning"],
            "path.subscription": names,
            "path.message_id": [sent],
            "path.attempt": ["1"],
            "path.job_id": jobs,
            "path.user": ["ann"],
            "path.key_id": keys,
            "path.owner": [owner],
            "path.migration_id": ["orders-1"],
            "path.incident_id": ["i1"],
            "path.silence_id": ["s1"],
            "path.steering": ["pause"],
            "query.destination": codes,
            "query.subscription": names,
            "query.resource": ["destinations/orders", "destinations/orders/subscriptions/billing"],
            "query.from": ["2026-01-01T00:00:00Z"],
            "query.to": ["2036-01-01T00:00:00Z"],
            "body.url": [self.subscriber.url("/ok")],
            "body.until": ["2026-01-31T12:00:00Z"],
            "body.checked": ["2026-01-31T12:00:00Z"],
        }

    def call(self, verb: str, path: str, **options: Any) -> httpx.Response:
        """Call the admin API."""
        return self.admin.call(verb, f"/api/v1{path}", **options)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Make again what is removed meanwhile."""
        stopping = threading.Event()
        admin = Admin(self.bus.url)
        admin.authorize(self.key.secret)
        keeper = World(self.folder, self.bus, self.subscriber, self.key)
        keeper.admin = admin

        def keep() -> None:
            while not stopping.wait(1):
                keeper.furnish()
                keeper.send()

        thread = threading.Thread(target=keep)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
            admin.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = run_bus("key", "create", "--role", "admin", "--data", tmp_path / "data", "--json")
    assert made.returncode == 0, made.stderr
    secret = json.loads(made.stdout)["key"]
    subscriber = SubscriberProcess(tmp_path, "/broken=fail:1")
    with subscriber, BusProcess(tmp_path / "data") as bus:
        key = Key(secret.split("_")[1], secret)
        found = World(tmp_path, bus, subscriber, key)
        found.furnish()
        yield found


@pytest.mark.proof
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("role", ROLES)
def test_nothing_is_answered_that_is_not_documented(world: World, role: str) -> None:
    """tests/unit/admin/test_admin_schema.py asks an application without a server, briefly, in every run."""
    known, seed = world.known(), time.time_ns() % 1_000_000
    seconds, done = ROLES[role]
    with world.kept():
        fuzzed = fuzz(world.folder, world.bus.url, world.key_of(role), known, seconds=seconds, seed=seed)
    report, counts = fuzzed.report, {label: sum(counts.values()) for label, counts in fuzzed.answered.items()}
    figures = {
        "proof": f"API fuzzing by a key of role {role}",
        "seed": seed,
        "seconds": round(report["running_time"]),
        "requests": sum(counts.values()),
        "operations": len(counts),
        "fewest": min(counts.values()),
        "never_done": sorted(set(counts) - fuzzed.done),
        "failures": len(report["failures"]),
    }
    print(json.dumps(figures))
    assert not report["failures"], fuzzed.log[-30_000:]
    assert not report["errors"], fuzzed.log[-30_000:]
    assert report["operations"]["tested"] == report["operations"]["total"] == len(counts) >= OPERATIONS
    assert world.bus.child.running
    assert "Traceback" not in world.bus.child.log.read_text()
    assert len(fuzzed.done) >= done
    if role in MAY:
        assert [label for label in fuzzed.done if not MAY[role].match(label)] == []


def test_nobody_is_let_in_without_what_is_declared(world: World) -> None:
    values = {place.partition(".")[2]: words[0] for place, words in world.known().items()}
    document = world.admin.call("GET", "/openapi.json").json()
    password = world.call("POST", "/users", json={"name": "eve", "role": "admin"}).json()["password"]
    with httpx.Client(base_url=world.bus.url, timeout=30, **PLAIN) as eve:
        begun = eve.post("/api/v1/session", json={"name": "eve", "password": password})
        assert begun.status_code == 201, begun.text
        cookies = "; ".join(f"{name}={value}" for name, value in eve.cookies.items())
    without_proof = {"cookie": cookies, "origin": world.bus.url}
    asked = 0
    with httpx.Client(base_url=world.bus.url, timeout=30, **PLAIN) as anybody:
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                refused = {401: ({}, {"authorization": "Bearer wrong"}, {"cookie": "bus_session=wrong"})}
                if any("csrf" in way for way in operation["security"]):
                    refused[403] = (without_proof, without_proof | {"x-csrf-token": "wrong"})
                for status, ways in refused.items() if operation["security"] else ():
                    for headers in ways:
                        answer = anybody.request(method, path.format_map(values), headers=headers)
                        assert answer.status_code == status, (method, path, headers, answer.text)
                        asked += 1
    assert asked > 3 * (OPERATIONS - 4)
