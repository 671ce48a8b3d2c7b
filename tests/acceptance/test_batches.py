"""A subscriber that takes many messages in a POST, over a real bus."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.kills import KillRun, Plan
from tests.harness.records import Call
from tests.harness.subscribers import SubscriberProcess

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BEHAVIOURS = {"lines": "", "array": "", "some": "fail_each:0.2,seed:5,"}
COUNT = 240
BATCH = 50
KILLED = ("/whole", "/some=fail_each:0.1", "/flaky=fail_each:0.03,fail:0.05,cut:0.03")
SMALL = Plan(messages=1_000, rate=600, kills=2, seed=20261125, max_concurrency=4, batch=BATCH)
FULL = Plan(messages=20_000, rate=600, kills=20, seed=7, max_concurrency=4, batch=BATCH, drain_within=180)


def body_of(number: int) -> bytes:
    """Make a body that is JSON with spaces and long numbers, or, of every third, no JSON."""
    return b"\x00\xff%d" % number if number % 3 == 0 else b'{"seq":%d, "n": 1.10, "big": 12345678901234567890}' % number


def line_of(code: str, number: int) -> bytes:
    body = body_of(number)
    if number % 3 == 0:
        return json.dumps({"destination": code, "body_base64": base64.b64encode(body).decode()}).encode()
    return b'{"destination":"%s","biz_id":"%d","body":%b}' % (code.encode(), number, body)


@pytest.fixture
def subscriber(tmp_path: Path):
    paths = [f"/{name}={behaviour}secret:{SECRET}" for name, behaviour in BEHAVIOURS.items()]
    with SubscriberProcess(tmp_path, *paths) as process:
        yield process


def test_what_waits_goes_together_and_only_what_is_listed_as_failed_comes_again(
    shared_bus: BusProcess, subscriber: SubscriberProcess, code: str
) -> None:
    admin = shared_bus.admin
    admin.destination(code)
    for name in BEHAVIOURS:
        fields = {"batch": BATCH, "batch_format": "json" if name == "array" else "ndjson", "max_concurrency": 2}
        fields |= {"secret": SECRET, "retry": ["200ms"], "paused": True}
        admin.subscription(code, name, subscriber.url(f"/{name}"), **fields)
    lines = b"\n".join(line_of(code, number) for number in range(COUNT))
    answer = admin.call("POST", "/v1/messages", content=lines, headers={"content-type": "application/x-ndjson"})
    ids = [result["id"] for result in answer.raise_for_status().json()["results"]]
    for name in BEHAVIOURS:
        admin.pause(code, name, paused=False)
    assert admin.wait_drained(code, ids, within=30) == {"delivered": COUNT}
    calls = _by_path(subscriber.calls())
    for name in BEHAVIOURS:
        _check_all_came(calls[f"/{name}"], ids)
    for name in ("lines", "array"):
        assert len({call.batch for call in calls[f"/{name}"]}) < COUNT / 10
        assert len(calls[f"/{name}"]) == COUNT
    failed = [call for call in calls["/some"] if not call.status]
    assert len(failed) > COUNT / 10
    _check_trace(shared_bus, failed[0])


def _by_path(calls: list[Call]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        found[call.path].append(call)
    return found


def _check_all_came(calls: list[Call], ids: list[str]) -> None:
    """Each message came as it was sent, signed, and was taken once; what was listed came again, and nothing else."""
    assert sorted(call.id for call in calls if call.status == 200) == sorted(ids)
    assert all(call.signature for call in calls)
    hashes = {one: hashlib.sha256(body_of(number)).hexdigest() for number, one in enumerate(ids)}
    assert all(call.sha256 == hashes[call.id] for call in calls)
    attempts: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        attempts[call.id].append(call)
    for of_one in attempts.values():
        assert [call.attempt for call in of_one] == list(range(1, len(of_one) + 1))
        assert [call.status for call in of_one] == [*[0] * (len(of_one) - 1), 200]


def _check_trace(bus: BusProcess, failed: Call) -> None:
    deliveries = {one["subscription"]: one for one in bus.admin.trace(failed.id)["deliveries"]}
    attempts = deliveries["some"]["attempts"]
    assert deliveries["some"]["status"] == "delivered"
    assert (attempts[0]["status_code"], attempts[0]["error"]) == (200, "the subscriber listed it as failed")
    assert attempts[0]["batch"]["id"] == failed.batch
    assert failed.id in attempts[0]["response"]
    assert attempts[-1]["error"] is None
    path = f"/api/v1/messages/{failed.id}/deliveries/some/attempts/1"
    sent = bus.admin.call("GET", path).raise_for_status().json()["request"]["headers"]
    headers = {header["name"]: header["value"] for header in sent}
    assert (headers["webhook-id"], headers["content-type"]) == (failed.batch, "application/x-ndjson")


def prove(folder: Path, plan: Plan) -> None:
    """Run the plan, and fail on any broken promise."""
    run = KillRun(folder, plan, paths=KILLED)
    found = run.run()
    assert found.passed, found.complaints
    assert found.attempts == plan.messages
    calls = run.subscriber.calls()
    assert all("batch-" in call.batch for call in calls)
    assert any(not call.status for call in calls)


def test_nothing_is_lost_when_the_bus_is_killed_amid_batches(tmp_path: Path) -> None:
    prove(tmp_path, SMALL)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_nothing_is_lost_over_twenty_kills_amid_batches(tmp_path: Path) -> None:
    prove(tmp_path, FULL)
