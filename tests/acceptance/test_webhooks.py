"""Real input: 329 GitHub webhooks through the SDK to a fast, a slow and a failing subscriber."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from bus import Bus
from tests.harness.bus_process import BusProcess
from tests.harness.records import Call
from tests.harness.subscribers import SubscriberProcess
from tests.servers import need
from tests.servers.payloads import Payload, read

DESTINATION = "github"
RETRY = ["200ms", "500ms"]
SECRETS = {
    "fast": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "slow": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
    "failing": "whsec_plJ3nmyCDGBKInavdOK15jsl0h3j0bS7",
}
BEHAVIOURS = {"fast": "", "slow": "delay:0.2,", "failing": "fail:0.3,seed:11,"}
MAX_CONCURRENCY = 16


@pytest.fixture
def payloads() -> list[Payload]:
    return read(need("payloads"))


def send(bus: BusProcess, payloads: list[Payload], spool: Path) -> dict[str, Payload]:
    """Send everything through the SDK; return the payloads by message id."""
    with Bus(bus.url, spool=str(spool), source="github") as sdk:
        sent = {
            sdk.send(DESTINATION, payload.body, biz_id=payload.event, content_type="application/json"): payload
            for payload in payloads
        }
        sdk.flush(timeout=30)
    return sent


def test_every_webhook_reaches_every_subscriber(bus: BusProcess, payloads: list[Payload], tmp_path: Path) -> None:
    assert len(payloads) == 329
    assert len({payload.event for payload in payloads}) == 58
    paths = [f"/{name}={BEHAVIOURS[name]}secret:{secret}" for name, secret in SECRETS.items()]
    with SubscriberProcess(tmp_path, *paths) as subscriber:
        bus.admin.destination(DESTINATION)
        for name, secret in SECRETS.items():
            fields = {"secret": secret, "retry": RETRY, "max_concurrency": MAX_CONCURRENCY}
            bus.admin.subscription(DESTINATION, name, subscriber.url(f"/{name}"), **fields)
        sent = send(bus, payloads, tmp_path / "spool")
        assert len(sent) == len(payloads)
        statuses = bus.admin.wait_drained(DESTINATION, sent, within=60)
        calls = subscriber.calls()
    assert statuses == {"delivered": len(payloads)}
    by_delivery = _by_delivery(calls)
    _check_arrivals(sent, calls)
    for message_id, payload in sent.items():
        _check_trace(bus.admin.trace(message_id), message_id, payload, by_delivery)
    for message_id in list(sent)[::20]:
        assert bus.admin.body(message_id) == sent[message_id].body


def _by_delivery(calls: list[Call]) -> dict[tuple[str, str], list[Call]]:
    found: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: call.attempt):
        found[call.path.removeprefix("/"), call.id].append(call)
    return found


def _check_arrivals(sent: dict[str, Payload], calls: list[Call]) -> None:
    """Each subscriber got each message with 2xx exactly once, byte for byte, signed, within its permits."""
    hashes = {message_id: hashlib.sha256(payload.body).hexdigest() for message_id, payload in sent.items()}
    for name in SECRETS:
        own = [call for call in calls if call.path == f"/{name}"]
        assert sorted(call.id for call in own if call.status == 200) == sorted(sent), name
        assert all(call.sha256 == hashes[call.id] for call in own), name
        assert all(call.signature for call in own), name
        assert all(call.destination == DESTINATION and call.biz_id == sent[call.id].event for call in own), name
        assert all(call.content_type == "application/json" for call in own), name
        assert max(call.in_flight for call in own) <= MAX_CONCURRENCY, name
    failures = [call for call in calls if call.status != 200]
    assert {call.path for call in failures} == {"/failing"}


def _check_trace(
    trace: dict[str, Any], message_id: str, payload: Payload, calls: dict[tuple[str, str], list[Call]]
) -> None:
    """The trace has every attempt that the subscriber saw, with its times, and the final state."""
    message = trace | trace.get("message", {})
    assert message["id"] == message_id
    assert message["destination"] == DESTINATION
    assert message["biz_id"] == payload.event
    assert message["source"] == "github"
    assert message["sent_at"] <= message["received_at"]
    assert {delivery["subscription"] for delivery in trace["deliveries"]} == set(SECRETS)
    for delivery in trace["deliveries"]:
        seen = calls[delivery["subscription"], message_id]
        assert delivery["status"] == "delivered"
        assert delivery["url"].endswith(f"/{delivery['subscription']}")
        attempts = delivery["attempts"]
        assert [attempt["status_code"] for attempt in attempts] == [call.status for call in seen]
        assert [attempt["n"] for attempt in attempts] == list(range(1, len(seen) + 1))
        for attempt in attempts:
            assert attempt["by"]
            assert attempt["node"]
            assert attempt["started_at"] >= message["received_at"]
            assert attempt["duration_ms"] > 0
            assert attempt["phases"]
