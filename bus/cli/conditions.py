"""The state of subscriptions: queue, oldest message and last error, from the calls of one list."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from bus.cli.api import Api, message_path
from bus.domain.times import DAY, format_time
from bus.errors import ReceiverRefused, ReceiverUnavailable

COLUMNS: Final = ("state", "queued", "oldest_queued", "retrying", "last_error")
_MOST: Final = 1000
_MOST_CONDITIONS: Final = 5000
_MOST_EXAMPLES: Final = 50
_STATES: Final = {"breaker_open": "unreachable", "held_by_rate": "rate limited", "healthy": "active", "quiet": "idle"}
Condition = dict[str, Any]


def conditions(
    api: Api, destination: str | None = None, subscription: str | None = None
) -> dict[tuple[str, str], Condition]:
    """Return the conditions of subscriptions by destination and name, as the API has them.

    ``last_error`` is the error of the newest message of the last day that is not delivered yet; None if there is none.
    What the bus cannot say now is missing, and a line on standard error says so.
    """
    asked = {"destination": destination}
    since = format_time(time.time_ns() // 1_000_000 - DAY)
    failing = asked | {"subscription": subscription, "from": since, "limit": _MOST}
    try:
        found = api.call("GET", "/api/v1/conditions", query=asked | {"limit": _MOST_CONDITIONS})["items"]
        groups = api.call("GET", "/api/v1/failures", query=failing)["items"]
        errors = _errors(api, groups)
    except ReceiverUnavailable as error:
        sys.stderr.write(f"states and errors are not known now: {error}\n")
        return {}
    return {_key(one): one | {"last_error": errors.get(_key(one))} for one in found}


def condition_fields(condition: Condition | None) -> dict[str, Any]:
    """Return a condition as people read it, all of it empty for None."""
    if condition is None:
        return dict.fromkeys(COLUMNS)
    state = _STATES.get(condition["state"], condition["state"])
    return {
        "state": f"{state}: {condition['why']}" if condition["why"] else state,
        "queued": condition["waiting"],
        "oldest_queued": condition["oldest"],
        "retrying": condition["retrying"],
        "last_error": condition["last_error"],
    }


def _errors(api: Api, groups: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Return by subscription the error of its newest message, for the first ones in full, then without numbers."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for group in sorted(groups, key=_last_seen, reverse=True):
        newest.setdefault(_key(group), group)
    return {
        key: _example(api, group) if place < _MOST_EXAMPLES else group["signature"]
        for place, (key, group) in enumerate(newest.items())
    }


def _example(api: Api, group: dict[str, Any]) -> str:
    """Return the error of the message that stands for a group; its signature if the message does not exist any more."""
    try:
        deliveries = api.call("GET", message_path(group["sample"]))["deliveries"]
    except ReceiverRefused:
        deliveries = []
    found = (one["reason"] for one in deliveries if one["subscription"] == group["subscription"])
    return next(found, None) or str(group["signature"])


def _key(found: dict[str, Any]) -> tuple[str, str]:
    return found["destination"], found["subscription"]


def _last_seen(group: dict[str, Any]) -> str:
    return str(group["last_seen"])
