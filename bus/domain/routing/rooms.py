"""The clusters by topic for producers and consumers: the configuration of the lookup proxy.

Source of the format: seed 000, and for ``room`` and the ``#P`` of each site the public contract.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from bus.errors import ConfigurationError
from bus.localized_text import AnyText, localized

CONSUMERS: Final = "#C"
PRODUCER: Final = "#P"
DEFAULT: Final = "#D"
_KEYS: Final = frozenset({"room", "topics", "lookupSchema"})
_SIDES: Final = frozenset({CONSUMERS, PRODUCER})
_ADDRESS: Final = re.compile(r"(?:http://)?(\[[0-9A-Fa-f:.]+\]|[^\s/:\[\],]+):([0-9]{1,5})/?")
_TOPIC: Final = re.compile(r"[.a-zA-Z0-9_-]{1,64}(#ephemeral)?")
_MOST_PORT: Final = 65_535
_MOST_CLUSTERS: Final = 64
LARGEST: Final = 2**22
"""Bytes of the largest file that is read."""

Addresses = tuple[str, ...]


class Access(enum.StrEnum):
    """Purpose of a client's lookup, as the fork of NSQ writes it."""

    READ = "r"
    WRITE = "w"


class Route(NamedTuple):
    """The clusters of a topic, by name: which it is produced to, and consumed from in a stable order."""

    produce: tuple[str, ...]
    consume: tuple[str, ...]

    def clusters(self, access: Access) -> tuple[str, ...]:
        """Return the clusters that a client of this kind gets."""
        return self.produce if access is Access.WRITE else self.consume


class Rooms(NamedTuple):
    """A configuration that was checked.

    Attributes
    ----------
    room
        The site of this proxy; empty when it is not configured.
    clusters
        ``HOST:PORT`` of some nsqlookupds of each cluster, in the order of the file.
    rooms
        The cluster that is produced to in each site, as far as a ``#P`` names it.
    topics
        Those that have a route of their own.
    default
        The route of all others; None when they have none.
    """

    room: str
    clusters: Mapping[str, Addresses]
    rooms: Mapping[str, frozenset[str]]
    topics: Mapping[str, Route]
    default: Route | None

    def route(self, topic: str) -> Route | None:
        """Return the route of a topic; None when it has none."""
        return self.topics.get(topic, self.default)


def read_rooms(content: bytes) -> Rooms:
    """Read a configuration.

    Raises
    ------
    ConfigurationError
        It cannot be meant; the text says where, and what is allowed.
    """
    if len(content) > LARGEST:
        raise _wrong("", localized("it has over {limit} bytes", limit=LARGEST))
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong("", localized("it is no JSON: {error}", error=str(error))) from error
    return _Reader(_object(found, "")).rooms()


class _Reader:
    """Reads one file; every error names the place."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        _refuse_others(found, _KEYS, "")
        self._room = _text(found.get("room", ""), "room")
        self._clusters = _clusters(found.get("lookupSchema", {}))
        self._entries = dict(_entries(found.get("topics", [])))
        self._rooms: dict[str, set[str]] = {}

    def rooms(self) -> Rooms:
        """Return the whole configuration."""
        default = self._entry(DEFAULT, None)
        topics = {topic: self._entry(topic, default) for topic in self._entries if topic != DEFAULT}
        complete = {topic: self._complete(topic, route) for topic, route in topics.items() if route is not None}
        if not complete and default is None:
            raise _wrong("topics", localized("no topic has a route; give at least {default}", default=DEFAULT))
        if default is not None:
            default = self._complete(DEFAULT, default)
        rooms = {room: frozenset(names) for room, names in self._rooms.items()}
        return Rooms(self._room, self._clusters, rooms, complete, default)

    def _entry(self, topic: str, default: Route | None) -> Route | None:
        if topic not in self._entries:
            return None
        place, value = f"topics.{topic}", self._entries[topic]
        entry = _object(value, place)
        _refuse_others(entry, _SIDES, place)
        produce = default.produce if default is not None else ()
        consume = default.consume if default is not None else ()
        if PRODUCER in entry:
            produce = (self._producer(entry[PRODUCER], f"{place}.{PRODUCER}"),)
        if CONSUMERS in entry:
            consume = self._consumers(entry[CONSUMERS], f"{place}.{CONSUMERS}")
        return Route(produce, consume)

    def _complete(self, topic: str, route: Route) -> Route:
        missing = PRODUCER if not route.produce else CONSUMERS if not route.consume else ""
        if missing:
            raise _wrong(
                f"topics.{topic}",
                localized("there is no {key}, and {default} has none either", key=missing, default=DEFAULT),
            )
        return route

    def _producer(self, value: object, place: str) -> str:
        if not isinstance(value, dict):
            return self._cluster(value, place)
        by_room = {_text(room, place): self._cluster(name, f"{place}.{room}") for room, name in value.items()}
        for room, name in by_room.items():
            self._rooms.setdefault(room, set()).add(name)
        if self._room not in by_room:
            raise _wrong(
                place,
                localized(
                    "it has no cluster for the site {room} of this proxy; it has: {rooms}",
                    room=repr(self._room),
                    rooms=", ".join(by_room) or "none",
                ),
            )
        return by_room[self._room]

    def _consumers(self, value: object, place: str) -> tuple[str, ...]:
        names = value if isinstance(value, list) else [value]
        found = [self._cluster(name, f"{place}[{number}]") for number, name in enumerate(names)]
        if not found:
            raise _wrong(place, localized("it names no cluster"))
        if len(set(found)) < len(found):
            raise _wrong(place, localized("it names a cluster twice"))
        return tuple(found)

    def _cluster(self, value: object, place: str) -> str:
        """Return the name of a cluster; an address that stands in the place of a name is one of its own."""
        name = _text(value, place)
        if name not in self._clusters:
            if _ADDRESS.fullmatch(name) is None:
                known = ", ".join(self._clusters) or "none"
                raise _wrong(
                    place, localized("{name} is no cluster of lookupSchema, which has: {known}", name=name, known=known)
                )
            self._clusters[name] = _addresses(name, place)
        return name


def _entries(value: object) -> Iterator[tuple[str, object]]:
    """Return the topics of the file, each once."""
    seen: set[str] = set()
    for number, item in enumerate(_list(value, "topics")):
        place = f"topics[{number}]"
        for topic, entry in _object(item, place).items():
            if topic in seen:
                raise _wrong(place, localized("{topic} is there twice", topic=topic))
            if topic != DEFAULT and _TOPIC.fullmatch(topic) is None:
                raise _wrong(place, localized("{topic} is no name of an NSQ topic", topic=repr(topic)))
            seen.add(topic)
            yield topic, entry


def _clusters(value: object) -> dict[str, Addresses]:
    found = _object(value, "lookupSchema")
    if len(found) > _MOST_CLUSTERS:
        raise _wrong("lookupSchema", localized("it has more than {limit} clusters", limit=_MOST_CLUSTERS))
    return {_text(name, "lookupSchema"): _addresses(told, f"lookupSchema.{name}") for name, told in found.items()}


def _addresses(value: object, place: str) -> Addresses:
    """Return ``HOST:PORT`` of each nsqlookupd that a text, or a list of them, names."""
    texts = value if isinstance(value, list) else [part.strip() for part in _text(value, place).split(",")]
    found = [_address(_text(text, place), place) for text in texts]
    if not found:
        raise _wrong(place, localized("it names no nsqlookupd"))
    return tuple(dict.fromkeys(found))


def _address(text: str, place: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[2]) <= _MOST_PORT:
        raise _wrong(place, localized("{text} is not HOST:PORT of an nsqlookupd", text=repr(text)))
    return f"{match[1]}:{int(match[2])}"


def _object(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(place, localized("it is no object"))
    return value


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(place, localized("it is no list"))
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        shown = type(value).__name__ if isinstance(value, list | dict) else repr(value)
        raise _wrong(place, localized("{value} is no text", value=shown))
    return value


def _refuse_others(found: Mapping[str, Any], allowed: frozenset[str], place: str) -> None:
    others = sorted(found.keys() - allowed)
    if others:
        raise _wrong(
            place, localized("{key} is unknown; allowed: {allowed}", key=repr(others[0]), allowed=_written(allowed))
        )


def _written(keys: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(keys))


def _wrong(place: str, why: AnyText) -> ConfigurationError:
    said = localized("the lookup configuration cannot be used: {place}: {why}", place=place or "the file", why=why)
    return ConfigurationError(said, hint=localized("see docs/lookup.md for an example"))
