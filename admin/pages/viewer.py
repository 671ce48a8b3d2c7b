"""The viewer of a page, with language, time zone, and light or dark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import Request

from admin.pages.api_error import ApiError
from admin.pages.calls import Api
from admin.pages.words import LANGUAGES, Words, words_of
from bus.domain.delivery.reasons import reason_of
from bus.domain.times import DAY, format_time, parse_time
from bus.errors import AccessDenied
from bus.localized_text import AnyText, LocalizedText
from bus.security.principals import Principal

LANGUAGE: Final = "bus_language"
THEME: Final = "bus_theme"
ZONE: Final = "bus_zone"
COLUMNS: Final = "bus_columns"
_MINUTE: Final = 60
_THEMES: Final = {"light": False, "dark": True}


class Viewer:
    """One person at one page.

    Attributes
    ----------
    api
        The admin API, asked as this person.
    now
        The time of the bus, in milliseconds since the epoch.
    t
        Says a text in the person's language.
    dark
        None leaves it to the person's system.
    base
        The URL of the bus, as they reach it.
    columns
        The names of the columns that they want to see of a search, with points between them; empty for the usual ones.
    place, query
        What the page's path and query name.
    """

    def __init__(self, request: Request, principal: Principal, api: Api, now: Callable[[], int]) -> None:
        self.principal = principal
        self.api = api
        self.now = now
        self.language = language_of(request)
        self.t: Words = words_of(self.language)
        self.zone = _zone(request.cookies.get(ZONE, ""))
        self.dark: bool | None = _THEMES.get(request.cookies.get(THEME, ""))
        self.columns: str = request.cookies.get(COLUMNS, "")
        self.base = str(request.base_url).rstrip("/")
        self.path: str = request.url.path
        self.place: dict[str, str] = {}
        self.query: dict[str, str] = dict(request.query_params)

    @property
    def is_open(self) -> bool:
        """Whether the bus has no keys yet, so that every user has all rights."""
        return self.principal.kind == "open"

    def may(self, action: str, destination: str | None = None) -> bool:
        """Whether the person may do an action to a destination; without one, to any destination at all."""
        if destination is None:
            return self.principal.may_somewhere(action)
        return self.principal.may(action, destination)

    def require(self, action: str, destination: str | None = None) -> None:
        """Raise ``ApiError`` where the person may not do an action, before they fill in its form in vain."""
        try:
            if destination is None:
                self.principal.require_somewhere(action)
            else:
                self.principal.require(action, destination)
        except AccessDenied as error:
            raise ApiError(error.status, error.said, error.hint_said) from error

    def say(self, said: AnyText) -> str:
        """Return a ``LocalizedText`` in the person's language; a plain text as it is."""
        return self._say(said.template, said.values) if isinstance(said, LocalizedText) else said

    def reason(self, text: str, *, by: str = "") -> str:
        """Return a reason of a delivery or an item, in the person's language if the bus gave it."""
        return self.say(reason_of(text, by=by))

    def _say(self, template: str, values: Mapping[str, int | AnyText]) -> str:
        return self.t(template, **{name: self._value(name, value) for name, value in values.items()})

    def _value(self, name: str, value: int | AnyText) -> int | str:
        if isinstance(value, int):
            return value
        return self.time(value) if name == "time" and isinstance(value, str) else self.say(value)

    def time(self, text: str | None) -> str:
        """Return a time of the API in the person's zone, to the second; an empty text for none."""
        return self._local(text).strftime("%Y-%m-%d %H:%M:%S") if text else ""

    def near(self, text: str | None) -> str:
        """Return a time of today as the time of day, another one with its day, in the shortest form that is clear."""
        if not text:
            return ""
        moment, now = self._local(text), datetime.fromtimestamp(self.now() / 1000, self.zone)
        if moment.date() == now.date():
            return moment.strftime("%H:%M:%S")
        return moment.strftime("%m-%d %H:%M:%S" if moment.year == now.year else "%Y-%m-%d %H:%M")

    def clock(self, text: str | None) -> str:
        """Return the time of day with milliseconds, for events that are close together."""
        return self._local(text).strftime("%H:%M:%S.%f")[:-3] if text else ""

    def utc(self, text: str | None) -> str:
        """Return a time of the API in UTC, to be shown on hover."""
        return text.replace("T", " ").replace("Z", " UTC") if text else ""

    def periods(self, since: str, until: str, step: int) -> list[tuple[str, str]]:
        """Return the start of each period of a span (seconds long): as in the API, and in the viewer's zone."""
        start, end = parse_time(since), parse_time(until)
        form = "%H:%M:%S" if step < _MINUTE else "%H:%M" if end - start <= DAY else "%m-%d %H:%M"
        starts = map(format_time, range(start, end, step * 1000))
        return [(at, self._local(at).strftime(form)) for at in starts]

    def wall_seconds(self, text: str) -> int:
        """Return the viewer's local time at a time of the API, in seconds since 1970-01-01 00:00 local time."""
        shown = self._local(text)
        return round(shown.timestamp()) + round((shown.utcoffset() or timedelta()).total_seconds())

    def _local(self, text: str | None) -> datetime:
        return datetime.fromtimestamp(parse_time(text or "") / 1000, self.zone)


def language_of(request: Request) -> str:
    """Return the chosen language, or else the first available one that the browser accepts."""
    chosen = request.cookies.get(LANGUAGE, "")
    asked = [part.split(";")[0].strip()[:2].lower() for part in request.headers.get("accept-language", "").split(",")]
    return next((code for code in (chosen, *asked) if code in LANGUAGES), "en")


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
