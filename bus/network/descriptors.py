"""The number of connections a process may have by its limit of open files, and closings for lack of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from bus.localized_text import AnyText, localized

_log = logging.getLogger(__name__)
_OTHERS: Final = 128  # files, and connections to brokers, stores and other processes
_FEWEST: Final = 16
_TOLD_FOR: Final = 60.0


class Descriptors:
    """The share of a limit of open files that connections of producers and people have, and that of subscribers'.

    Neither takes those of the other: requests that hang at subscribers never keep a producer out.

    Parameters
    ----------
    limit
        Files that the process may have open.
    monotonic
        Seconds that never go back.

    Attributes
    ----------
    most
        Connections that may be open in each of both directions.
    """

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self.most = max(_FEWEST, (limit - _OTHERS) // 2)
        self._limit = limit
        self._monotonic = monotonic
        self._told_at = self._closed_at = float("-inf")

    @property
    def trouble(self) -> AnyText:
        """What is wrong; empty if no connection was closed for another one within a minute."""
        if self._monotonic() - self._closed_at > _TOLD_FOR:
            return ""
        return localized(
            "idle and hanging connections are closed for new ones, since the limit of open files is {limit}: raise it "
            "(ulimit -n, LimitNOFILE)",
            limit=self._limit,
        )

    def closed(self) -> None:
        """Note that a connection was closed for another one; said in the log once a minute."""
        self._closed_at = self._monotonic()
        if self._closed_at - self._told_at > _TOLD_FOR:
            self._told_at = self._closed_at
            _log.warning("%s", self.trouble)
