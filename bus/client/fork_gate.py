"""Delays a fork until no thread is inside SQLite or an import: the child would inherit their locks, held."""

from __future__ import annotations

import os
from threading import Condition
from typing import Final

LONGEST_WAIT: Final = 5.0
"""Seconds that a fork waits at most: a thread that forks while it holds the gate would wait for itself."""


class ForkGate:
    """A context manager that any number of threads may hold, but none during a fork. Not reentrant."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self._forking = False

    def __enter__(self) -> None:
        with self._changed:
            while self._forking:
                self._changed.wait()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            if self._forking:
                self._changed.notify_all()

    def before_fork(self) -> None:
        """Let no thread in, and wait until all threads are out."""
        with self._changed:
            self._forking = True
            self._changed.wait_for(lambda: self._inside == 0, LONGEST_WAIT)

    def after_in_parent(self) -> None:
        """Let threads in again."""
        with self._changed:
            self._forking = False
            self._changed.notify_all()

    def after_in_child(self) -> None:
        """Reset the gate: the parent's other threads do not exist in the child."""
        self._changed = Condition()
        self._inside = 0
        self._forking = False


GATE: Final = ForkGate()
os.register_at_fork(before=GATE.before_fork, after_in_parent=GATE.after_in_parent, after_in_child=GATE.after_in_child)
