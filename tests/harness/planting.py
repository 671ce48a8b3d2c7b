"""Planting kinds of losses: the files of events, the stores and the archive from which a proof is made."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bus.domain.delivery.delivery import Compensation
from bus.domain.destination import Destination
from bus.domain.subscription import PAUSED_BY_PERSON, Subscription
from bus.domain.tracing.events import TraceEvent
from bus.ports.store import Store
from bus.registry import DESTINATIONS, SUBSCRIPTIONS
from bus.testing.writes import row
from tests.harness.lives import LIVES, Step, delivered, made
from tests.harness.planted_losses import ALL, Kind, More, Way
from tests.harness.trace_lines import Event, block, ledger, told

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
_LOST: Final = 2
_ARCHIVED_DAYS: Final = 14
_AGE: Final = {False: 3 * HOUR, True: 9 * DAY}


class Planted(NamedTuple):
    """A kind with the ids of the messages from which something is taken, and the code of their destination."""

    kind: Kind
    code: str
    ids: list[str]


class Planting:
    """All kinds side by side.

    Attributes
    ----------
    lines, heard_until
        What is told, by the emitter: its blocks, and when (ms) they arrived.
    kept, archived
        Writes into the store, and into the one that was archived.
    forgotten
        What the compensator lost of its work.
    """

    def __init__(self, now: int, kinds: Sequence[Kind]) -> None:
        self.now = now
        self.lines: defaultdict[str, list[str]] = defaultdict(list)
        self.heard_until: dict[str, int] = {}
        self.kept: list[Step] = []
        self.archived: list[Step] = []
        self.forgotten: list[Compensation] = []
        self._common: list[Event] = []
        self.planted = [self._plant(kind, f"kind-{number}") for number, kind in enumerate(kinds)]
        self._tell("common", [[], self._common], first_at=now - 10 * DAY)

    def _plant(self, kind: Kind, code: str) -> Planted:
        start = (self.now - _AGE[More.OLD in kind.more]) // MINUTE * MINUTE
        days = {"retention_days": _ARCHIVED_DAYS} if More.ARCHIVED in kind.more else {}
        messages = [made(code, start + 10 * place, **days) for place in range(_LOST + (More.ALONE not in kind.more))]
        lives = [LIVES[kind.life](message) for message in messages]
        lost, whole = lives[:_LOST], [step for life in lives[_LOST:] for step in life]
        if not {More.AT_REST, More.ALONE} & kind.more:
            whole += delivered(made(code, start + HOUR, **days))
        (self.archived if More.ARCHIVED in kind.more else self.kept).extend(
            [*whole, *(step for life in lost for step in life if not _has(kind.rows, step))]
        )
        if More.NO_DUE_WORK in kind.more:
            self.forgotten += [row(of, name, generation=1) for of in messages[:_LOST] for name in ("", "shop")]
        gone = [_plain(step.event) for life in lost for step in life if step.event and _has(kind.events, step)]
        left = [step for life in lost for step in life if not _has(kind.events, step)]
        self._tell_of(kind, code, [_plain(step.event) for step in [*whole, *left] if step.event], gone)
        return Planted(kind, code, [of.id for of in messages[:_LOST]])

    def _tell_of(self, kind: Kind, code: str, left: list[Event], gone: list[Event]) -> None:
        ways = {
            Way.SILENTLY: lambda: self._common.extend(left),
            Way.GAP: lambda: self._tell(code, [left, None, []]),
            Way.KILLED: lambda: self._tell(code, [left], until=self.now - 2 * HOUR),
            Way.ENDED: lambda: self._tell(code, [[*left, *gone], []], until=self.now - 2 * HOUR, last=True),
            Way.DROPPED: lambda: self._tell(code, [left, []], lost=len(gone)),
            Way.LEDGER_KEPT: lambda: self._tell_torn(code, left, ledger([*left, *gone])),
            Way.LEDGER_LOST: lambda: self._tell_torn(code, [*left, *gone], ledger(left)),
            Way.ANOTHER_HOUR: lambda: self._tell_torn(code, [*left, *gone], [*ledger(left), *_early(ledger(gone))]),
            Way.ANOTHER_EMITTER: lambda: self._tell_apart(code, left, gone),
            Way.REPEATED: lambda: self._tell_twice(code, [*left, *gone]),
        }
        ways[kind.way]()

    def _tell(
        self,
        emitter: str,
        parts: Iterable[list[Event] | None],
        *,
        first_at: int = 0,
        until: int = 0,
        lost: int = 0,
        last: bool = False,
    ) -> None:
        """Have an emitter tell of events in blocks; one of None is lost, and before the last ``lost`` events were.

        It is heard from ``first_at`` ``until`` a time (ms), both the present one unless given, and then maybe ends.
        """
        self.heard_until[emitter] = until or self.now
        for seq, events in enumerate(parts, start=1):
            if events is None:
                continue
            at = first_at if first_at and seq == 1 else until or self.now
            more = {"lost": lost, "last": last} if seq > 1 else {}
            self.lines[emitter].append(told(events, emitter=emitter, seq=seq, at=at, **_ORIGIN, **more))

    def _tell_torn(self, emitter: str, events: list[Event], rows: list[dict[str, Any]]) -> None:
        self.lines[emitter].append(block(events, emitter=emitter, at=self.now, ledger=rows, **_ORIGIN))

    def _tell_apart(self, code: str, left: list[Event], gone: list[Event]) -> None:
        self._common.extend(left)
        self._tell(code, [gone])

    def _tell_twice(self, code: str, events: list[Event]) -> None:
        self._tell(code, [events])
        self.lines[code] *= 2

    def write_events(self, folder: Path) -> None:
        """Write a file of blocks for all emitters that were heard until the same time."""
        folder.mkdir()
        texts: defaultdict[int, str] = defaultdict(str)
        for emitter, lines in self.lines.items():
            texts[self.heard_until.get(emitter, self.now)] += "".join(lines)
        for at, text in texts.items():
            file = folder / f"{at}.jsonl"
            file.write_text(text)
            os.utime(file, (at / 1000, at / 1000))

    async def fill(self, store: Store, steps: Iterable[Step]) -> None:
        """Write the configuration and what is left of steps into a store, and close it."""
        for kind, code, _ in self.planted:
            destination = Destination(code=code, retention_days=1 if More.EXPIRED in kind.more else 30)
            await store.put(DESTINATIONS, code, msgspec.json.encode(destination))
            for name in ("mail", "shop"):
                reason = PAUSED_BY_PERSON if More.PAUSED in kind.more else ""
                made_of = Subscription(
                    destination=code, name=name, url="http://subscriber/hook", paused=bool(reason), paused_reason=reason
                )
                await store.put(SUBSCRIPTIONS, f"{code}/{name}", msgspec.json.encode(made_of))
        given = list(steps)
        await store.write([step.write for step in given if step.write is not None])
        await store.compensate([step.due for step in given if step.due is not None])
        await store.finish(self.forgotten)
        await store.close()


_ORIGIN: Final = {"role": "receiver+dispatcher", "node": "host-1"}


def _has(steps: tuple[str, ...], step: Step) -> bool:
    return steps == ALL or step.name in steps


def _plain(event: TraceEvent) -> Event:
    found: Event = msgspec.to_builtins(event)
    return found


def _early(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "minute": row["minute"] - HOUR} for row in rows]
