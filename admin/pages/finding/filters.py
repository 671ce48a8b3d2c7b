"""The filters of a search as a URL has them: relative times stay relative, so that a link means the same tomorrow."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import urlencode

from admin.pages.parts.selections import NAMES
from admin.pages.viewer import Viewer
from bus.domain.durations import parse_duration
from bus.domain.times import format_time
from bus.localized_text import N_

_TITLES: Final = {"last": N_("Time")}
CONDITIONS: Final = tuple(name for name in NAMES if name not in ("from", "to"))
RANGES: Final = {"15m": "15 min", "1h": "1 h", "1d": "1 d", "7d": "7 d"}
_TIMES: Final = ("from", "to")
_PATH: Final = "/admin/find"


class Filters(NamedTuple):
    """The conditions of a search by the API's names; ``last`` is the length of a time range that ends ``now`` (ms)."""

    values: Mapping[str, str]
    last: str = ""
    cursor: str = ""
    now: int = 0

    @property
    def is_any(self) -> bool:
        """Whether there is any condition."""
        return bool(self.values or self.last)

    def get(self, name: str) -> str:
        """Return a condition's value; empty for none."""
        return self.values.get(name, "")

    def asked(self) -> dict[str, str]:
        """Return the query for the API, with ``last`` as times.

        Raises
        ------
        ValueError
            ``last`` is not a duration.
        """
        if not self.last:
            return dict(self.values)
        since = self.now - parse_duration(self.last)
        return {**self.values, "from": format_time(since)}

    def href(self, **changes: str) -> str:
        """Return the URL of the first page of this search with changes; an empty value removes a condition."""
        return f"{_PATH}?{query_of(self.query(**changes))}".rstrip("?")

    def query(self, **changes: str) -> dict[str, str]:
        """Return the query of the URL, without the cursor."""
        wanted = {**self.values, "last": self.last, **changes, **_also_emptied(changes)}
        return {name: value for name, value in wanted.items() if value}


def _also_emptied(changes: Mapping[str, str]) -> dict[str, str]:
    """Return what else a change empties: ``last`` the other times, and no ``body_path`` its ``body_value``."""
    gone = dict.fromkeys(_TIMES, "") if changes.get("last") else {}
    if changes.get("body_path") == "":
        gone["body_value"] = ""
    return gone


def query_of(values: Mapping[str, str]) -> str:
    """Return values as the query of a URL."""
    return urlencode({name: value for name, value in values.items() if value})


def read(viewer: Viewer) -> Filters:
    """Return the filters of a page's URL; invalid values are left to the API to refuse."""
    given = {name: value.strip() for name, value in viewer.query.items() if value.strip()}
    values = {name: given[name] for name in CONDITIONS if name in given}
    last = given.get("last", "")
    own: dict[str, str] = {name: _moment(given[name], viewer) for name in _TIMES if name in given}
    if not last and not own:
        last = given.get("kept", "")
    return Filters(values if last else {**values, **own}, last, given.get("cursor", ""), viewer.now())


def is_plain(viewer: Viewer, filters: Filters) -> bool:
    """Whether a page's URL is in its normal form: no empty values, times with a zone."""
    return dict(viewer.query) == {**filters.query(), **({"cursor": filters.cursor} if filters.cursor else {})}


def local(viewer: Viewer, time: str) -> str:
    """Return a time for a field of a form, in the viewer's zone; any other text stays as it is."""
    moment = _parsed(time)
    if moment is None or moment.tzinfo is None:
        return time
    shown = moment.astimezone(viewer.zone).replace(tzinfo=None)
    return shown.isoformat(timespec="milliseconds" if shown.microsecond else "seconds")


def _moment(text: str, viewer: Viewer) -> str:
    """Return a time of a form, which is in the viewer's zone, with its zone."""
    moment = _parsed(text)
    if moment is None or moment.tzinfo is not None:
        return text
    try:
        return format_time(int(moment.replace(tzinfo=viewer.zone).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return text


def _parsed(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError:
        return None


def title_of(viewer: Viewer, name: str) -> str:
    """Return the label of a condition."""
    return viewer.t(NAMES[name] if name in NAMES else _TITLES[name])
