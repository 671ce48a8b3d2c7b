"""Conditions of a search that are more than a comparison: the valid texts of each, and its matches."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from bus.domain.headers import is_header_name
from bus.domain.identity import ids_of_trace, parse_id
from bus.localized_text import localized

LONGEST_PATH: Final = 512
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")
_STEP: Final = re.compile(
    r"""\[(?P<place>\d{1,9})\]|(?P<dot>\.?)(?:(?P<name>[\w$@:-]+)|(?P<quoted>"(?:[^"\\]|\\.)*"))"""
)
_WHOLE: Final = (ord("{"), ord("["))
_NUMBER: Final = re.compile(r"[0-9]{1,20}")
_QUOTE: Final = ord('"')
_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array: Final = msgspec.json.Decoder(list[msgspec.Raw])
_string: Final = msgspec.json.Decoder(str)


class StatusClass(enum.StrEnum):
    """Class of a subscriber's answer to an attempt, by the first digit; ``none`` when there was no answer."""

    SUCCESS = "2xx"
    REDIRECT = "3xx"
    REFUSAL = "4xx"
    FAILURE = "5xx"
    NONE = "none"


_CLASSES: Final = {2: StatusClass.SUCCESS, 3: StatusClass.REDIRECT, 4: StatusClass.REFUSAL, 5: StatusClass.FAILURE}


def class_of(status_code: int | None) -> StatusClass | None:
    """Return the class of an answer; None for a status outside of HTTP."""
    return StatusClass.NONE if status_code is None else _CLASSES.get(status_code // 100)


class Ref(NamedTuple):
    """An id entered by a person, in each of its possible meanings; empty where it cannot be one."""

    text: str
    message_id: str
    trace_id: str


@lru_cache(maxsize=256)
def parse_ref(text: str) -> Ref:
    """Return the possible meanings of an id; a whole ``traceparent`` means its trace id."""
    try:
        message_id = parse_id(text)
    except ValueError:
        message_id = ""
    lower = text.lower()
    return Ref(text, message_id, lower if _TRACE_ID.fullmatch(lower) else trace_id_of(lower))


def ids_traced_as(text: str) -> tuple[str, str] | None:
    """Return the first and the last id whose trace id on a broker a decimal number is; None for other texts."""
    return ids_of_trace(int(text)) if _NUMBER.fullmatch(text) else None


def trace_id_of(traceparent: str) -> str:
    """Return the trace id of a W3C trace context, empty when it has none."""
    found = _TRACEPARENT.fullmatch(traceparent)
    return found[1] if found else ""


@lru_cache(maxsize=256)
def parse_header(text: str) -> tuple[str, str | None]:
    """Return the name in lower case and the value of ``NAME: VALUE``; None without a value.

    Raises
    ------
    ValueError
        The name is not one of a header.
    """
    name, _, value = text.partition(":")
    name = name.strip()
    if not is_header_name(name):
        raise ValueError(localized("{text} is not NAME or NAME: VALUE of a header", text=repr(text[:80])))
    return name.lower(), value.strip() or None


def has_header(headers: Mapping[str, str], condition: str) -> bool:
    """Whether a message's own headers have what ``parse_header`` can read."""
    name, value = parse_header(condition)
    return any(other.lower() == name and value in (None, found.strip()) for other, found in headers.items())


@lru_cache(maxsize=256)
def parse_path(text: str) -> tuple[str | int, ...]:
    """Return the steps of a path: names of objects, and places in arrays from 0.

    Names stand with dots between them, places as ``[0]``. A name of other characters than letters, digits and ``_$@:-``
    is written as JSON writes it, in double quotes.

    Raises
    ------
    ValueError
        The text is not such a path.
    """
    steps: list[str | int] = []
    at = 0
    while at < len(text) <= LONGEST_PATH and (found := _STEP.match(text, at)) is not None:
        if found["place"] is not None:
            steps.append(int(found["place"]))
        elif bool(found["dot"]) is bool(steps):
            steps.append(found["name"] or _unquoted(found["quoted"]))
        else:
            break
        at = found.end()
    if not text or at < len(text):
        raise ValueError(
            localized(
                "{text} is not a path such as order.lines[0].sku; a name of other characters than "
                "letters, digits and _$@:- stands in double quotes",
                text=repr(text[:80]),
            )
        )
    return tuple(steps)


def has_value(body: bytes, path: str, value: str | None) -> bool:
    """Whether a JSON body has the path, and there the value, if one is given.

    A string is compared decoded; a number, true, false and null as they are spelt in the body. An object or an array
    equals no value. A body that is not JSON has no path.
    """
    found = _value_at(body, parse_path(path))
    if found is None or value is None:
        return found is not None
    if found[0] == _QUOTE:
        try:
            return _string.decode(found) == value
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
    return found[0] not in _WHOLE and found == value.encode("utf-8", "surrogatepass")


def has_text(body: bytes, text: str) -> bool:
    """Whether a body has a text, in UTF-8 or as JSON may write it."""
    return any(form in body for form in forms_of(text))


@lru_cache(maxsize=256)
def forms_of(text: str) -> tuple[bytes, ...]:
    """Return how a text may stand in a body: in UTF-8, and with the escapes of JSON where that differs."""
    plain = text.encode("utf-8", "surrogatepass")
    escaped = json.dumps(text)[1:-1].encode()
    return (plain,) if escaped == plain else (plain, escaped)


def _value_at(body: bytes, path: tuple[str | int, ...]) -> bytes | None:
    """Return the JSON text at a path; each level is decoded, and its siblings are only skipped."""
    found: bytes | msgspec.Raw | None = body
    for step in path:
        try:
            if isinstance(step, str):
                found = _object.decode(found).get(step)  # type: ignore[arg-type]
            else:
                elements = _array.decode(found)  # type: ignore[arg-type]
                found = elements[step] if step < len(elements) else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if found is None:
            return None
    return bytes(found).strip() if found is not None else None


def _unquoted(name: str) -> str:
    try:
        return _string.decode(name)
    except msgspec.DecodeError as error:
        raise ValueError(localized("{name} is not a name as JSON writes it", name=name[:80])) from error
