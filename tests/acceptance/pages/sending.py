"""Messages that tests of pages look at: really sent, and seen in the store."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.harness.bus_process import BusProcess
from tests.harness.waiting import wait_until

WITHIN = 30.0


def send(bus: BusProcess, code: str, body: object, **fields: object) -> str:
    """Send one message with any fields, Unicode too, and return its id."""
    return send_all(bus, code, [body], **fields)[0]


def send_all(bus: BusProcess, code: str, bodies: Iterable[object], **fields: object) -> list[str]:
    """Send messages that differ in their bodies, and return their ids."""
    lines = [json.dumps({"destination": code, "body": body, **fields}) for body in bodies]
    answer = bus.admin.call(
        "POST", "/v1/messages", content="\n".join(lines), headers={"content-type": "application/x-ndjson"}
    ).raise_for_status()
    results: list[dict[str, Any]] = answer.json()["results"]
    assert {result["status"] for result in results} == {"accepted"}, results
    return [str(result["id"]) for result in results]


def settled(bus: BusProcess, message_id: str, status: str) -> dict[str, Any]:
    """Wait until a message has a status, and return its trace."""

    def found() -> dict[str, Any] | None:
        answer = bus.admin.call("GET", f"/api/v1/messages/{message_id}")
        return answer.json() if answer.is_success and answer.json()["status"] == status else None

    return wait_until(found, within=WITHIN, what=f"{message_id} is {status}")


def attempted(bus: BusProcess, message_id: str, subscription: str, times: int) -> None:
    """Wait until a delivery has been attempted so often."""

    def reached() -> bool:
        answer = bus.admin.call("GET", f"/api/v1/messages/{message_id}")
        deliveries = answer.json()["deliveries"] if answer.is_success else []
        return any(one["subscription"] == subscription and one["attempts_made"] >= times for one in deliveries)

    wait_until(reached, within=WITHIN, what=f"{message_id} is attempted {times} times")
