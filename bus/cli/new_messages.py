"""New messages of a destination, found by repeated searches."""

from __future__ import annotations

from typing import Any, Final

from bus.cli.api import Api
from bus.domain.times import MINUTE, format_time, parse_time

_PAGE: Final = 100
_MOST_PAGES: Final = 5
_LATE: Final = MINUTE
_REMEMBERED: Final = 20_000


class NewMessages:
    """Finds the messages of a destination since a time (ms), each once.

    A message that was in the spool of its producer for over a minute is not found: the search is for recent ones.
    """

    def __init__(self, api: Api, code: str, since: int) -> None:
        self._api = api
        self._code = code
        self._since = self._latest = since
        self._seen: dict[str, None] = {}

    def new(self) -> tuple[list[dict[str, Any]], bool]:
        """Return the new messages, oldest first, and whether there were more than one call returns.

        Raises
        ------
        ReceiverError
            The bus is unreachable, or refuses the call; the next call finds the messages that arrived meanwhile.
        """
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        since = format_time(max(self._since, self._latest - _LATE))
        for _ in range(_MOST_PAGES):
            query = {"destination": self._code, "from": since, "limit": _PAGE, "cursor": cursor}
            page = self._api.call("GET", "/api/v1/messages", query=query)
            fresh = [one for one in page["items"] if one["id"] not in self._seen]
            found += fresh
            cursor = page["next"]
            if cursor is None or not fresh:
                break
        self._remember(found)
        return found[::-1], cursor is not None and bool(fresh)

    def _remember(self, found: list[dict[str, Any]]) -> None:
        self._seen |= dict.fromkeys(one["id"] for one in found)
        for old in list(self._seen)[: max(0, len(self._seen) - _REMEMBERED)]:
            del self._seen[old]
        times = [parse_time(one["received_at"]) for one in found if one["received_at"]]
        self._latest = max([self._latest, *times])
