"""The kinds of subscribers: how each behaves, what its subscription says, and what is expected of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bus.security.signatures import new_secret
from tests.acceptance.combinations.oracle import Expected

SLOTS: Final = 4
_SECRET: Final = new_secret()


class Kind(NamedTuple):
    """A kind of subscriber; ``behaviour`` is as of `tests.harness.behaviour`."""

    behaviour: str = ""
    fields: Mapping[str, Any] = {}
    expected: Expected = Expected(bound=SLOTS)


def _late(**fields: Any) -> Expected:
    """Expect that messages arrive one after the other, and each not at once."""
    return Expected(**{"bound": SLOTS, **fields}, is_prompt=False)


KINDS: Final[Mapping[str, Kind]] = {
    "fast": Kind(),
    "slow": Kind("delay:0.05"),
    "healed": Kind("fail:1", {}, _late()),
    # Requests that hang have no end that it sees.
    "hung": Kind("hang", {"timeout_seconds": 1}, _late(bound=None)),
    # Retries come so late that its breaker opens before any.
    "first_fails": Kind("first:1", {"retry": ["2s"]}, _late(retry_wait=2.0)),
    "refusing": Kind(
        "fail:0.95,status:422", {"dead_on": [422], "on_failure": "park"}, _late(final=frozenset({"dead", "parked"}))
    ),
    "batch": Kind("", {"batch": 10}),
    "filter": Kind("", {"filter": "!ends_with(biz_id, '-left-out')"}, Expected(bound=SLOTS, skips="-left-out")),
    "rate": Kind("", {"rate": 20}),
    "single": Kind("", {"max_concurrency": 1}, Expected(bound=1)),
    "secret": Kind(f"secret:{_SECRET}", {"secret": _SECRET}, Expected(bound=SLOTS, is_signed=True)),
    "resumed": Kind("", {"paused": True}, _late()),
}
