"""Renewal of a lease that another producer may take over: this producer's signs of life."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from bus.client.network.http import Answer
from bus.errors import BusError

_log = logging.getLogger("bus.client")
_SHARE: Final = 3
"""Signs of life within the time after which the lease may be taken over."""

_LOST: Final = 409


class Renewal:
    """Requests a lease again at intervals, in a thread of its own: messages may wait longer than the lease lasts.

    Parameters
    ----------
    ask
        Asks once.
    close
        Called when the thread ends.
    has_ended
        Whether the lease is released, or its messages are left to another process.
    """

    def __init__(
        self,
        ask: Callable[[], Answer],
        close: Callable[[], None],
        has_ended: Callable[[], bool],
        takeover_after: float,
    ) -> None:
        self._ask = ask
        self._close = close
        self._has_ended = has_ended
        self._every = takeover_after / _SHARE
        self._over = Event()
        Thread(target=self._run, name="bus-lease", daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._over.set()

    def _run(self) -> None:
        try:
            while not (self._over.wait(self._every) or self._has_ended()):
                try:
                    answer = self._ask()
                except BusError as error:
                    _log.info("the lease is not renewed now: %s", error)
                    continue
                if answer.status == _LOST:
                    _log.warning("the lease is lost: %s", answer.reason)
                    return
                if not answer.is_done:
                    _log.info("the lease is not renewed now: %s", answer.reason)
        finally:
            self._close()
