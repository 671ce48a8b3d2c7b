"""The state of subscriptions: queue, oldest message and last error, from two calls of the API."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from bus.cli.api import Api
from bus.domain.times import DAY, format_time
from bus.errors import ReceiverRefused, ReceiverUnavailable

COLUMNS: Final = ("state", "queued", "oldest_queued", "retrying", "last_error")
_MOST: Final = 1000
_MOST_CONDITIONS: Final = 5000
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
    found = _items(api, "/api/v1/conditions", asked | {"limit": _MOST_CONDITIONS}, "states are")
    if not found:
        return {}
    errors = _errors(_items(api, "/api/v1/failures", failing, "last errors are"))
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


def _items(api: Api, path: str, query: dict[str, Any], what: str) -> list[dict[str, Any]]:
    """Return the items of a call; none, with a line on standard error, if the bus does not have them now."""
    try:
        return list(api.call("GET", path, query=query)["items"])
    except (ReceiverUnavailable, ReceiverRefused) as error:
        sys.stderr.write(f"{what} not known now: {error}\n")
        return []


def _errors(groups: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Return by subscription the error of its newest message; without its numbers if the bus has no example."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for group in sorted(groups, key=_last_seen, reverse=True):
        newest.setdefault(_key(group), group)
    return {key: group.get("example") or group["signature"] for key, group in newest.items()}


def _key(found: dict[str, Any]) -> tuple[str, str]:
    return found["destination"], found["subscription"]


def _last_seen(group: dict[str, Any]) -> str:
    return str(group["last_seen"])
