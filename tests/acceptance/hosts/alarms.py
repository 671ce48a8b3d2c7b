"""Alarms during a run: incidents opened and closed, and figures in their texts."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from tests.acceptance.hosts.faults import Fault
from tests.acceptance.hosts.world import World

_EVERY: Final = 2.0
# With the rules' times in this world: 5 s to be noticed, 4 s of hold, and the interval of the watch.
_RAISED_WITHIN: Final = 20.0
# The store, which incidents are read from, may be unavailable for the longest fault.
_POLLED_WITHIN: Final = 90.0
# Negative times, and times that are older than the run.
_NONSENSE: Final = re.compile(r"-\d+ ?m?s\b|\b[1-9]\d*d\b|\bnan\b|\binf\b", re.IGNORECASE)


class Incident(NamedTuple):
    """One incident: when it was opened and closed, in seconds since the epoch, and all that it said."""

    cause: str
    opened: float
    closed: float
    texts: frozenset[str]


class AlarmWatch:
    """Asks for incidents until it is stopped."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._found: dict[str, Incident] = {}
        self._open: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def incidents(self) -> list[Incident]:
        """All that were seen, in the order of their begin."""
        return sorted(self._found.values(), key=lambda one: one.opened)

    @property
    def open(self) -> list[Incident]:
        """Those that were open at the last look."""
        return [self._found[one] for one in sorted(self._open)]

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._over.wait(_EVERY):
            answer = self._world.ask("/api/v1/alarms")
            if answer is not None:
                self._note(answer["items"])

    def _note(self, items: Sequence[dict[str, Any]]) -> None:
        now = time.time()
        for item in items:
            known = self._found.get(item["id"])
            if known is None or item["id"] in self._open:
                opened = known.opened if known is not None else _time(item["opened_at"], now)
                texts = {alarm["what"] for alarm in item["alarms"]} | (known.texts if known is not None else set())
                self._found[item["id"]] = Incident(
                    item["cause"], opened, _time(item["closed_at"], now), frozenset(texts)
                )
        self._open = {item["id"] for item in items if item["state"] != "closed"}


def _time(text: str | None, now: float) -> float:
    """Return a time that was said just now; a clock that was moved says others."""
    said = datetime.fromisoformat(text).timestamp() if text else now
    return said if abs(said - now) < _POLLED_WITHIN else now


def complaints(watch: AlarmWatch, faults: Sequence[tuple[Fault, float]], *, over: bool) -> list[str]:
    """Return what is false or missing in what the bus said.

    Parameters
    ----------
    faults
        Each with the time at which its schedule began.
    over
        Whether there was time for all incidents to end.
    """
    found = [f"alarm still open: {one.cause}: {sorted(one.texts)[:2]}" for one in watch.open if over]
    found += [
        f"nonsense in an alarm: {text}" for one in watch.incidents for text in one.texts if _NONSENSE.search(text)
    ]
    for fault, at in faults:
        if fault.end - fault.begin > _RAISED_WITHIN and not _is_named(watch.incidents, fault, at):
            found.append(f"no alarm names {fault}")
    return found


def _is_named(incidents: Sequence[Incident], fault: Fault, at: float) -> bool:
    if fault.is_of_node and fault.kind in ("kill", "stop"):
        words = (fault.place,)
    elif not fault.is_of_node and fault.kind in ("kill", "stop") and not fault.place.startswith("sdk"):
        words = ("store", "mongodb") if fault.place == "store" else ("broker", "rabbitmq", "kafka", fault.place)
    else:
        return True
    during = [
        one for one in incidents if one.opened < at + fault.end + _RAISED_WITHIN and one.closed > at + fault.begin
    ]
    said = " ".join(text for one in during for text in (one.cause, *one.texts)).lower()
    return any(word in said for word in words)
