"""The features that meet, which of them exclude each other, and rows that cover their combinations."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from covertable import make, sorters

FACTORS: Final[dict[str, list[str]]] = {
    "entry": ["sdk", "async", "agent", "post", "ndjson", "cloudevents", "cli"],
    "identity": ["none", "id", "repeated_id", "key", "repeated_key", "event"],
    "payload": ["json", "text", "binary", "empty", "large", "bom", "utf16"],
    # Stock NSQ keeps no order.
    "destination": ["direct", "direct_keys", "kafka", "kafka_keys", "rabbitmq", "rabbitmq_keys", "nsq"],
    "subscription": [
        "fast",
        "slow",
        "healed",
        "hung",
        "first_fails",
        "refusing",
        "batch",
        "filter",
        "rate",
        "single",
        "secret",
        "resumed",
    ],
    "processes": ["one", "two", "apart"],
    "fault": ["none", "kill", "restart", "store", "disk"],
    "act": ["none", "resend", "discard", "pause", "configuration"],
}


class Row(NamedTuple):
    """One value of each factor; its number names its destination."""

    number: int
    entry: str
    identity: str
    payload: str
    destination: str
    subscription: str
    processes: str
    fault: str
    act: str

    @property
    def code(self) -> str:
        """The destination's code."""
        return f"row-{self.number}"

    @property
    def transport(self) -> str:
        """The destination's transport."""
        return self.destination.removesuffix("_keys")

    @property
    def keeps_order(self) -> bool:
        """Whether the destination keeps the order of each key."""
        return self.destination.endswith("_keys")

    def __str__(self) -> str:
        return f"row {self.number}: " + ", ".join(self[1:])


class Group(NamedTuple):
    """Rows that share a bus, and the fault that it suffers."""

    processes: str
    fault: str
    rows: Sequence[Row]


def _both(left: str, in_left: Sequence[str], right: str, in_right: Sequence[str]) -> Mapping[str, Any]:
    """Forbid each of the left values beside each of the right ones."""
    sides = [
        {"operator": "in", "left": name, "values": list(values)}
        for name, values in ((left, in_left), (right, in_right))
    ]
    return {"operator": "not", "condition": {"operator": "and", "conditions": sides}}


_CONSTRAINTS: Final = [
    # The id of an event is an identity, and only a request with headers has it.
    _both("identity", ["event"], "entry", ["sdk", "async", "post", "ndjson", "cli"]),
    _both("identity", ["none", "id", "repeated_id"], "entry", ["cloudevents"]),
    # An order of keys takes no batches.
    _both("subscription", ["batch"], "destination", ["direct_keys", "kafka_keys", "rabbitmq_keys"]),
]


def rows(strength: int, seed: int) -> list[Row]:
    """Return rows in which each possible combination of so many values occurs."""
    found = make(FACTORS, strength=strength, sorter=sorters.hash, salt=str(seed), constraints=_CONSTRAINTS)
    return [Row(number, **row) for number, row in enumerate(found)]


def groups(all_rows: Sequence[Row], most: int, seed: int) -> list[Group]:
    """Return the rows in groups of at most so many, in an order that the seed gives."""
    by_bus: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in all_rows:
        by_bus[row.processes, row.fault].append(row)
    found = [
        Group(*bus, same[start : start + most]) for bus, same in by_bus.items() for start in range(0, len(same), most)
    ]
    random.Random(seed).shuffle(found)
    return found
