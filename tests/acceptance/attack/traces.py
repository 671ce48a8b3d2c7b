"""Traces beside the record of the subscriber."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from tests.harness.admin import Admin
from tests.harness.records import Call

Answers = Counter[int]


def false_traces(admin: Admin, destination: str, calls: Iterable[Call]) -> list[str]:
    """Return a line for each delivery of which the trace tells what did not happen, or not what did.

    A delivery is ``delivered`` when the subscriber answered 2xx, and no answer is told that was not given. An answer
    that was given and is not told may have been lost with the bus.
    """
    given: defaultdict[tuple[str, str], Answers] = defaultdict(Counter)
    for call in calls:
        given[call.id, call.path.strip("/")][call.status] += 1
    found = []
    for message in admin.messages(destination=destination):
        for delivery in admin.trace(message["id"])["deliveries"]:
            lie = lie_of(delivery, given[message["id"], delivery["subscription"]])
            if lie:
                found.append(f"{message['id']} for {delivery['subscription']}: {lie}")
    return found


def lie_of(delivery: dict[str, Any], given: Answers) -> str:
    """Return what is false in a trace's delivery, empty for nothing; ``given`` are the subscriber's answers to it."""
    told = Answers(attempt["status_code"] for attempt in delivery["attempts"] if attempt["status_code"])
    is_done = any(200 <= status < 300 for status in given)
    if (delivery["status"] == "delivered") != is_done:
        return f"{delivery['status']}, and the answers were {dict(given)}"
    return f"tells of {dict(told - given)}, which was not answered" if told - given else ""
