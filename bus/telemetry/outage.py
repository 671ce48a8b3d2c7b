"""Something that is away for a while is said once when it goes and once when it is back, not at every try."""

from __future__ import annotations

import logging

from bus.error_texts import error_text


class Outage:
    """The state of one thing that may be away.

    Parameters
    ----------
    log
        Where it is said.
    meanwhile
        What is not done while it lasts, for the log.
    """

    def __init__(self, log: logging.Logger, meanwhile: str) -> None:
        self._log = log
        self._meanwhile = meanwhile
        self._lasts = False

    def goes_on(self, error: Exception) -> None:
        """Note a try that failed."""
        if not self._lasts:
            self._log.warning("%s: %s", self._meanwhile, error_text(error))
        self._lasts = True

    def is_over(self) -> None:
        """Note a try that did not fail."""
        if self._lasts:
            self._log.info("%s no more", self._meanwhile)
        self._lasts = False
