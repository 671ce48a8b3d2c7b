"""The deliveries of a subscription that may start: of each key one at a time, in the order of arrival.

What a key has in memory may be followed by rows in the store; what comes while it has some goes behind them, so that a
key that is held up for days takes neither memory nor the window of a transport.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeVar

NEVER: Final = math.inf


class PlacedDelivery(Protocol):
    """A delivery with its place in the order of its key."""

    @property
    def place(self) -> int:
        """Place in the order; a later delivery has a greater one."""
        ...

    @property
    def is_stored(self) -> bool:
        """Whether the store has a row of it as it is now, so that memory may forget it."""
        ...

    def bare(self) -> Self:
        """Return it without the data for its POST; it is read again for that."""
        ...


Item = TypeVar("Item", bound=PlacedDelivery)


class WantedRows(NamedTuple):
    """A key whose rows behind a place are to be read."""

    key: str
    after: int


class BlockedKey(NamedTuple, Generic[Item]):
    """A blocked key, and the delivery that blocks it."""

    key: str
    by: Item


class _Key(Generic[Item]):
    """One key.

    ``waiting`` is in memory, in order, without what is out. While ``held_by`` is set, its first may not go out before
    ``until``; ``is_due`` once that has come, until it is out. ``has_rows`` says that the store has rows behind
    ``after``, and all that comes is ``to_store``.
    """

    __slots__ = ("after", "has_rows", "held_by", "is_due", "is_out", "to_store", "until", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Item] = []
        self.is_out = False
        self.held_by: Item | None = None
        self.until = 0.0
        self.is_due = False
        self.has_rows = False
        self.after = 0
        self.to_store: list[Item] = []


class KeyOrder(Generic[Item]):
    """The order of one subscription's deliveries.

    Deliveries that a method returns are out from then on, until `passed`, `held_up` or `put_back` is called for them.
    Times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._keys: dict[str, _Key[Item]] = {}
        self._held: dict[str, None] = {}
        # Those of them that are in memory with what waits behind them.
        self._near: dict[str, None] = {}
        self._due: list[tuple[float, str]] = []
        self._wanted: dict[str, None] = {}
        self._storing: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def has_rows(self, key: str) -> bool:
        """Whether the store has more of a key than memory."""
        found = self._keys.get(key)
        return found is not None and found.has_rows

    def flows(self, key: str) -> bool:
        """Whether a new delivery of a key would go out as soon as those before it are done."""
        found = self._keys.get(key)
        return found is None or not (found.has_rows or found.held_by is not None)

    def take(self, key: str, item: Item) -> list[Item]:
        """Add a new delivery; return it if it may go out."""
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = _Key()
        if found.has_rows:
            found.to_store.append(item)
            self._storing[key] = None
            return []
        found.waiting.append(item)
        return self._next(key, found)

    def restore(self, key: str) -> None:
        """Register rows that the store already has of a key."""
        found = self._keys.setdefault(key, _Key())
        found.has_rows = True
        self._wanted[key] = None

    def passed(self, key: str) -> list[Item]:
        """Continue behind the finished delivery, or the one a person decided about; return those that may go out."""
        found = self._keys[key]
        found.is_out = False
        self._let_go(key, found)
        return self._next(key, found)

    def held_up(self, key: str, item: Item, until: float) -> None:
        """Keep the delivery that was out in its place, and those behind it waiting."""
        found = self._keys[key]
        found.is_out = False
        found.waiting.insert(0, item)
        self._hold(key, found, item, until)

    def skip(self, key: str) -> list[Item]:
        """Leave out the delivery that blocks a key; return those that may go out."""
        self._leave(key, self._keys[key])
        return self.passed(key)

    def resume(self, key: str, item: Item) -> list[Item]:
        """Replace the delivery that blocks a key by another form of it; return it, as it may go out."""
        found = self._keys[key]
        self._leave(key, found)
        self._let_go(key, found)
        found.is_out = True
        return [item]

    def due(self, now: float) -> list[tuple[str, list[Item]]]:
        """Return the deliveries that may go out, of each key that is not blocked any longer."""
        ready: list[tuple[str, list[Item]]] = []
        while self._due and self._due[0][0] <= now:
            until, key = heapq.heappop(self._due)
            found = self._keys.get(key)
            if found is not None and found.held_by is not None and found.until == until:
                self._let_go(key, found)
                found.is_due = True
                ready.append((key, self._next(key, found)))
        return ready

    @property
    def next_due(self) -> float:
        """Time of the next result of `due`; `NEVER` for none."""
        return self._due[0][0] if self._due else NEVER

    def held(self, limit: int) -> list[BlockedKey[Item]]:
        """Return keys that are held up, those that were returned longest ago first."""
        chosen = list(itertools.islice(self._held, limit))
        for key in chosen:
            del self._held[key]
            self._held[key] = None
        return [BlockedKey(key, by) for key in chosen if (by := self._keys[key].held_by) is not None]

    def is_held_by(self, key: str, item: Item) -> bool:
        """Whether a key is blocked by this delivery."""
        found = self._keys.get(key)
        return found is not None and found.held_by is item

    def is_in_memory(self, key: str) -> bool:
        """Whether the delivery that blocks a key is in memory; else only its row can go out."""
        return key in self._near

    def read_again(self, key: str) -> list[Item]:
        """Continue with the rows of a blocked key, as a person has decided about the first of them."""
        found = self._keys[key]
        self._let_go(key, found)
        return self._next(key, found)

    @property
    def needs_store(self) -> bool:
        """Whether anything is to be stored or read."""
        return bool(self._storing or self._wanted)

    @property
    def is_wanting(self) -> bool:
        """Whether any key continues only when its rows are read."""
        return bool(self._wanted)

    def want(self, key: str) -> None:
        """Request that the rows of a key are read again, since that failed."""
        self._wanted[key] = None

    def relieve(self, after: float) -> list[Item]:
        """Move keys that are blocked until after a time to the store; return deliveries that are there already."""
        far = [key for key in self._near if self._keys[key].until > after]
        return [item for key in far for item in self._move_out(key, self._keys[key])]

    def to_store(self, limit: int) -> list[tuple[str, Item]]:
        """Return the deliveries to write as rows, of each key in order; they stay until they are `stored`."""
        chosen: list[tuple[str, Item]] = []
        for key in self._storing:
            for item in self._keys[key].to_store:
                if len(chosen) == limit:
                    return chosen
                chosen.append((key, item))
        return chosen

    def stored(self, items: Sequence[tuple[str, Item]]) -> list[Item]:
        """Forget deliveries that have a row now; return those that were still waiting for that."""
        done: list[Item] = []
        for key, item in items:
            found = self._keys.get(key)
            if found is not None and found.to_store and found.to_store[0] is item:
                done.append(found.to_store.pop(0))
                if found.held_by is item:
                    found.held_by = item.bare()
                if not found.to_store:
                    self._storing.pop(key, None)
        return done

    def next_wanted(self) -> WantedRows | None:
        """Return the next key that needs rows and has nothing that is to be stored before they are read."""
        for key in self._wanted:
            found = self._keys[key]
            if not found.to_store:
                del self._wanted[key]
                return WantedRows(key, found.after)
        return None

    def loaded(self, key: str, items: Sequence[Item], until: float, *, is_all: bool) -> list[Item]:
        """Take the next rows of a key; return what may go out.

        Parameters
        ----------
        until
            Before when the first must not go out, unless it has waited for that here already.
        is_all
            Whether the store has none behind them, of those that were to be stored before they were read.
        """
        found = self._keys[key]
        found.waiting.extend(items)
        if items:
            found.after = items[-1].place
        if is_all:
            found.has_rows = False
            found.waiting.extend(found.to_store)
            found.to_store.clear()
            self._storing.pop(key, None)
        if found.waiting and until > 0 and not found.is_due:
            self._hold(key, found, found.waiting[0], until)
            return []
        return self._next(key, found)

    def in_memory(self) -> list[Item]:
        """Return all that waits in memory, of each key in order."""
        return [item for found in self._keys.values() for item in (*found.waiting, *found.to_store)]

    def _next(self, key: str, found: _Key[Item]) -> list[Item]:
        if found.is_out or found.held_by is not None:
            return []
        if found.waiting:
            found.is_out, found.is_due = True, False
            return [found.waiting.pop(0)]
        if found.has_rows:
            self._wanted[key] = None
        else:
            del self._keys[key]
        return []

    def _hold(self, key: str, found: _Key[Item], item: Item, until: float) -> None:
        found.held_by, found.until = item, until
        self._held[key] = self._near[key] = None
        if until < NEVER:
            heapq.heappush(self._due, (until, key))

    def _let_go(self, key: str, found: _Key[Item]) -> None:
        found.held_by = None
        self._held.pop(key, None)
        self._near.pop(key, None)

    def _leave(self, key: str, found: _Key[Item]) -> None:
        """Remove the delivery that blocks a key from the queue in which it waits."""
        if found.held_by is None:
            return
        for queue in (found.waiting, found.to_store):
            if queue and queue[0] is found.held_by:
                del queue[0]
        if not found.to_store:
            self._storing.pop(key, None)
        found.after = max(found.after, found.held_by.place)

    def _move_out(self, key: str, found: _Key[Item]) -> list[Item]:
        """Move all that waits to the store, and return it; behind rows that the store has, in the same order."""
        forgotten = [item for item in found.waiting if item.is_stored]
        found.to_store[:0] = [item for item in found.waiting if not item.is_stored]
        # A delivery resent while it was out waits behind younger ones, and is read again before them.
        found.after = min(item.place for item in found.waiting) - 1
        found.waiting.clear()
        found.has_rows = True
        if found.held_by is not None and found.held_by.is_stored:
            found.held_by = found.held_by.bare()
        del self._near[key]
        if found.to_store:
            self._storing[key] = None
        return forgotten
