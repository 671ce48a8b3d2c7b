"""Slots that the processes of one port share: each one in use is a lock on a byte of a file (docs/adr/0040).

The kernel gives a lock to one process at most. A process that finds no free slot holds a lock as a sign of that, on a
byte of another file, and the process that releases a slot wakes it.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Final, NamedTuple

import msgspec

from bus.ports.clock import Clock

# The kernel looks through all locks of a file, so that thousands of hung subscribers would slow down the others.
_FILES: Final = 8
_SPAN: Final = 14
"""Bits of an offset: a subscription has as many bytes in each file, one for a slot or for a process that waits."""
_FLOCK: Final = struct.Struct("hhqqi")
_LOOK_AGAIN: Final = 0.5
"""Seconds until a process checks by itself: the holder of the slot may have died."""
_TURN: Final = 0.002
"""Seconds between two checks for a process that waits; one that is seen at both gets the next slot."""
_YIELD: Final = 0.001
"""Seconds for which a process leaves a slot to the one that it woke."""
_READ_AT_ONCE: Final = 64
_LONGEST: Final = 1024


class _Wakeup(msgspec.Struct, frozen=True, array_like=True):
    """Message of one process to another: a slot is free, or how many messages of the rate it has sent."""

    name: str
    spent: int = 0


_wakeups: Final = msgspec.msgpack.Decoder(_Wakeup)


class SlotFiles:
    """The files whose bytes are locked, in memory."""

    def __init__(self) -> None:
        self._files = [os.memfd_create(f"slots-{number}") for number in range(_FILES + 1)]

    def open(self) -> list[int]:
        """Open them for one process; the last is for the slots that it waits for.

        A lock lasts until all copies of its descriptor are closed: the holder of the copies of a process that died
        decides how long its requests count as in flight.

        Raises
        ------
        OSError
            The system opens no more files now.
        """
        with ExitStack() as opened:
            found: list[int] = []
            for file in self._files:
                found.append(os.open(f"/proc/self/fd/{file}", os.O_RDWR | os.O_CLOEXEC))
                opened.callback(os.close, found[-1])
            opened.pop_all()
        return found

    def close(self) -> None:
        """Close them; those that were opened for processes stay."""
        for file in self._files:
            os.close(file)


class SharedSlots:
    """The pool (``SlotPool``) of one of the processes.

    Parameters
    ----------
    files
        Those opened for this process, see ``SlotFiles``.
    number
        Which of them this one is.
    wakeups
        By number, the socket that wakes each process; it reads from its own.

    Attributes
    ----------
    defer
        Calls a function once this turn of the loop is over; from ``start`` on.
    """

    def __init__(self, files: Sequence[int], number: int, wakeups: Sequence[socket.socket], clock: Clock) -> None:
        self.clock = clock
        self.number = number
        self.count = len(wakeups)
        self._wakeups = wakeups
        self.defer: Callable[[Callable[[], None]], object] = _at_once
        self._joined: dict[str, SubscriptionSlots] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        *self._files, self._waiting = files

    def join(self, name: str, freed: Callable[[], None], spent: Callable[[int], None]) -> SubscriptionSlots:
        """Return the slots of a subscription, for the only worker that this process has for it."""
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        file, first = self._files[digest[0] % len(self._files)], int.from_bytes(digest[2:]) << _SPAN
        slots, waiting = _Range(file, first), _Range(self._waiting, first)
        found = self._joined[name] = SubscriptionSlots(self, name, slots, waiting, freed, spent)
        return found

    def left(self, slots: SubscriptionSlots) -> None:
        """Wake these no more."""
        if self._joined.get(slots.name) is slots:
            del self._joined[slots.name]

    def part(self, share: int) -> int:
        """Return how many of ``share`` slots count as this process's, so that the parts of all add up to it."""
        return share // self.count + (self.number < share % self.count)

    def wake(self, number: int, name: str, spent: int = 0) -> None:
        """Wake another process."""
        # One that reads so slowly that its buffer is full looks by itself.
        with suppress(OSError):
            self._wakeups[number].send(msgspec.msgpack.encode(_Wakeup(name, spent)))

    def start(self) -> None:
        """Listen to the other processes, until ``close``."""
        self._loop = asyncio.get_running_loop()
        self.defer = self._loop.call_soon
        self._loop.add_reader(self._wakeups[self.number], self.read)

    def close(self) -> None:
        """Close the files, and listen no more."""
        self._stop_reading()
        for file in (*self._files, self._waiting):
            os.close(file)

    def read(self) -> None:
        """Process the messages of the other processes."""
        for _ in range(_READ_AT_ONCE):
            try:
                said = self._wakeups[self.number].recv(_LONGEST)
            except BlockingIOError:
                return
            if not said:
                self._stop_reading()  # the supervisor has ended, and this process ends with it
                return
            wakeup = _wakeups.decode(said)
            if (slots := self._joined.get(wakeup.name)) is not None:
                slots.woken(wakeup.spent)

    def _stop_reading(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._wakeups[self.number])


class SubscriptionSlots:
    """The slots of one subscription (``Slots``) that this process holds."""

    def __init__(
        self,
        pool: SharedSlots,
        name: str,
        slots: _Range,
        waiting: _Range,
        freed: Callable[[], None],
        spent: Callable[[int], None],
    ) -> None:
        self.name = name
        self.is_waiting = False
        self._pool = pool
        self._slots = slots
        self._waiting = waiting
        self._freed = freed
        self._spent = spent
        # In the order in which they were taken, so that one beyond a smaller limit goes back before any of the new.
        self._held: OrderedDict[int, None] = OrderedDict()
        # Given back in this turn of the loop, and locked until its end.
        self._spare: list[int] = []
        self._next = 0
        self._look_at = 0.0
        self._turn_at = 0.0
        self._has_seen_other = self._is_other_due = False

    def take(self, limit: int) -> float:
        """Take one of the first ``limit`` slots; see ``Slots``."""
        now = self._pool.clock.monotonic()
        if self._spare and self._is_turn_over(now):
            self._look_at = now + _YIELD
        elif self._spare and self._spare[-1] < limit:
            self._held[self._spare.pop()] = None
            return 0.0
        if now < self._look_at:
            return self._look_at - now
        # Who gives one back looks for a waiting process after that: it finds this one, or this one finds the slot.
        if self._found(limit) or (self._waits() and self._found(limit)):
            self._stop_waiting()
            return 0.0
        self._look_at = now + _LOOK_AGAIN
        return _LOOK_AGAIN

    def give_back(self) -> None:
        """Give back a slot whose request has ended; see ``Slots``."""
        slot, _ = self._held.popitem(last=False)
        self._spare.append(slot)
        if len(self._spare) == 1:
            self._pool.defer(self._free_spare)

    def exceeds(self, limit: int) -> bool:
        """Whether a held slot is not one of the first ``limit``."""
        return any(slot >= limit for slot in (*self._held, *self._spare))

    def spend(self, count: int) -> None:
        """Report to the other processes that so many messages of the rate went out."""
        for number in range(self._pool.count):
            if number != self._pool.number:
                self._pool.wake(number, self.name, count)

    def woken(self, spent: int) -> None:
        """Process a message of another process."""
        if spent:
            self._spent(spent)
            return
        self._look_at = 0.0
        self._stop_waiting()
        self._freed()

    def close(self) -> None:
        """Wait for no slot any more; see ``Slots``."""
        self._pool.left(self)
        self._stop_waiting()

    def _free_spare(self) -> None:
        """Unlock slots that were given back and not taken again; waiting processes are woken, and go first."""
        if not self._spare:
            return
        self._look_at = 0.0
        for slot in self._spare:
            self._slots.unlock(slot)
            self._next = slot
            if self._wake_other():
                self._look_at = self._pool.clock.monotonic() + _YIELD
        self._spare.clear()
        self._has_seen_other = self._is_other_due = False

    def _is_turn_over(self, now: float) -> bool:
        """Whether another process has waited for some time, so that what is given back is for that one."""
        if now >= self._turn_at:
            is_waiting = self._other() is not None
            self._is_other_due = is_waiting and self._has_seen_other
            self._has_seen_other, self._turn_at = is_waiting, now + _TURN
        return self._is_other_due

    def _found(self, limit: int) -> bool:
        """Lock a free slot, beginning with the one that was given back last."""
        begin = self._next if self._next < limit else 0
        for first, end in ((begin, limit), (0, begin)):
            slot = first
            while slot < end:
                if slot in self._held or slot in self._spare:
                    slot += 1
                elif self._slots.lock(slot):
                    self._held[slot] = None
                    self._next = slot + 1
                    return True
                else:
                    slot = self._slots.taken_until(slot)
        return False

    def _waits(self) -> bool:
        self.is_waiting = self.is_waiting or self._waiting.lock(self._pool.number)
        return self.is_waiting

    def _stop_waiting(self) -> None:
        if self.is_waiting:
            self._waiting.unlock(self._pool.number)
            self.is_waiting = False

    def _wake_other(self) -> bool:
        """Wake the next process after this one that waits; whether there is one."""
        other = self._other()
        if other is not None:
            later = self._other(self._pool.number + 1)
            self._pool.wake(other if later is None else later, self.name)
        return other is not None

    def _other(self, first: int = 0) -> int | None:
        """Return a process that waits, of those from a number on."""
        return self._waiting.first_taken(first, self._pool.count)


class _Range(NamedTuple):
    """The bytes of one subscription in a file; a byte that another process has locked is taken."""

    file: int
    first: int

    def lock(self, byte: int) -> bool:
        """Lock a byte; False when it is taken."""
        try:
            fcntl.fcntl(self.file, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, self.first + byte, 1))
        except (BlockingIOError, PermissionError):  # each of them means that it is taken
            return False
        return True

    def unlock(self, byte: int) -> None:
        """Unlock a byte."""
        fcntl.fcntl(self.file, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, self.first + byte, 1))

    def first_taken(self, byte: int, end: int) -> int | None:
        """Return a byte of these that is taken."""
        found = _conflict(self.file, self.first + byte, end - byte) if byte < end else None
        return found[0] - self.first if found is not None else None

    def taken_until(self, byte: int) -> int:
        """Return where the bytes end that another process has locked together with this one."""
        found = _conflict(self.file, self.first + byte, 1)
        return found[0] + found[1] - self.first if found is not None else byte + 1


def _at_once(do: Callable[[], None]) -> None:
    do()


def _flock(kind: int, start: int, length: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)


def _conflict(file: int, start: int, length: int) -> tuple[int, int] | None:
    """Return where a lock begins that another process has on some of these bytes, and its length."""
    answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, start, length))
    kind, _, first, found, _ = _FLOCK.unpack(answer[: _FLOCK.size])
    return None if kind == fcntl.F_UNLCK else (first, found)
