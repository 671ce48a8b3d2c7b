"""How subscriptions are now: state, queue and last error."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from bus.cli.api import Api
from bus.domain.times import DAY, format_time
from bus.errors import ReceiverUnavailable

COLUMNS: Final = ("state", "queued", "oldest_queued", "retrying", "last_error")
_MOST: Final = 1000
_MOST_CONDITIONS: Final = 5000
_STATES: Final = {"breaker_open": "unreachable", "held_by_rate": "rate limited", "healthy": "active", "quiet": "idle"}
Condition = dict[str, Any]


def conditions(
    api: Api, destination: str | None = None, subscription: str | None = None
) -> dict[tuple[str, str], Condition]:
    """Return the conditions of subscriptions by destination and name, as the API has them.

    ``last_error`` is the group of failures with the newest message, of messages of the last day that are not delivered
    yet; None if there is none. What the bus cannot say now is missing, and a line on standard error says so.
    """
    asked = {"destination": destination}
    since = format_time(time.time_ns() // 1_000_000 - DAY)
    failing = asked | {"subscription": subscription, "from": since, "limit": _MOST}
    try:
        found = api.call("GET", "/api/v1/conditions", query=asked | {"limit": _MOST_CONDITIONS})["items"]
        groups = api.call("GET", "/api/v1/failures", query=failing)["items"]
    except ReceiverUnavailable as error:
        sys.stderr.write(f"states and errors are not known now: {error}\n")
        return {}
    newest = {(one["destination"], one["subscription"]): one for one in sorted(groups, key=_last_seen)}
    keys = [(one["destination"], one["subscription"]) for one in found]
    return {key: one | {"last_error": newest.get(key)} for key, one in zip(keys, found, strict=True)}


def condition_fields(condition: Condition | None) -> dict[str, Any]:
    """Return a condition as people read it, all of it empty for None."""
    if condition is None:
        return dict.fromkeys(COLUMNS)
    error = condition["last_error"]
    state = _STATES.get(condition["state"], condition["state"])
    return {
        "state": f"{state}: {condition['why']}" if condition["why"] else state,
        "queued": condition["waiting"],
        "oldest_queued": condition["oldest"],
        "retrying": condition["retrying"],
        "last_error": error and error["signature"],
    }


def _last_seen(group: dict[str, Any]) -> str:
    return str(group["last_seen"])
