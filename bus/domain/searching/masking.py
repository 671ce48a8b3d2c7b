"""Masking rules: the parts of a destination's messages that are shown only to users who may see everything.

A rule is a path: ``body`` (all of it), ``body.card.number``, ``body.items[*].email``, ``body.*.token`` (any field),
``body["card.number"]`` (a field of any name), ``headers`` (all), or ``headers.authorization`` in any case of letters.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from bus.localized_text import localized

MASK: Final = "***"
MOST_RULES: Final = 100
LONGEST_RULE: Final = 256
MOST_STEPS: Final = 32
LARGEST: Final = 4 * 2**20
"""Bytes of a body above which it is withheld rather than masked."""
_ANY: Final = None
_MASKED: Final = f'"{MASK}"'
_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]"*\s]+)|\.(?P<any>\*)|(?P<items>\[\*\])|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]"""
)
_HEADER: Final = re.compile(r"headers(?:\.(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+))?")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
# Numbers stay texts: what a value is does not matter here, and text of thousands of digits is no reason to refuse.
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_Steps = tuple[str | None, ...]


class Unmaskable(ValueError):
    """The body cannot be masked, so users who may not see all of it see nothing; the message gives the reason."""


class MaskRules(msgspec.Struct, frozen=True):
    """The rules of one destination, ready to be applied.

    Attributes
    ----------
    body
        Paths into the body as steps, None for any field.
    headers
        Names of headers in lower case; ``*`` for all.
    """

    body: tuple[_Steps, ...] = ()
    headers: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether there is any rule."""
        return bool(self.body or self.headers)

    def mask_body(self, body: bytes) -> bytes:
        """Return a JSON body with ``"***"`` for every value that a rule names; all else stays byte for byte.

        A step into a list goes into each of its items. A value that stands where a rule expects an object is masked,
        null aside; of fields that occur twice each is. Takes up to a second for 4 MB: not on the event loop.

        Raises
        ------
        Unmaskable
            There are rules, and the body is not JSON in UTF-8, or too big or too deep.
        """
        if not self.body or not body:
            return body
        if () in self.body:
            return _MASKED.encode()
        if len(body) > LARGEST:
            raise Unmaskable(localized("a body of over {limit} bytes is not masked but withheld", limit=LARGEST))
        try:
            text = body.decode("utf-8")
            return "".join(_Masker(text).document(self.body)).encode("utf-8")
        except RecursionError as error:
            raise Unmaskable(localized("the body is nested too deeply to be masked, and withheld")) from error
        except ValueError as error:
            raise Unmaskable(
                localized("the body is not JSON in UTF-8: it cannot be masked, and is withheld")
            ) from error

    def mask_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return headers with ``***`` for the values that a rule names."""
        return {name: MASK if self.hides_header(name) else value for name, value in headers.items()}

    def hides_header(self, name: str) -> bool:
        """Whether a rule names this header."""
        return "*" in self.headers or name.lower() in self.headers


def check_rules(rules: Iterable[str]) -> tuple[str, ...]:
    """Return the rules without repetitions; raises ``ValueError`` saying which is wrong and how to write it."""
    found = tuple(dict.fromkeys(rules))
    if len(found) > MOST_RULES:
        raise ValueError(localized("a destination has at most {most} masking rules", most=MOST_RULES))
    masking(found)
    return found


@lru_cache(maxsize=1024)
def masking(rules: tuple[str, ...]) -> MaskRules:
    """Return rules ready to be applied; raises ``ValueError`` for one that is wrong."""
    headers = [name for rule in rules if (name := _header(rule)) is not None]
    body = [_steps(rule) for rule in rules if _header(rule) is None]
    return MaskRules(tuple(dict.fromkeys(body)), frozenset(headers))


def _header(rule: str) -> str | None:
    found = _HEADER.fullmatch(rule[:LONGEST_RULE])
    return (found["name"] or "*").lower() if found else None


def _steps(rule: str) -> _Steps:
    if len(rule) > LONGEST_RULE:
        raise ValueError(
            localized("the rule {rule}... has over {most} characters", rule=repr(rule[:40]), most=LONGEST_RULE)
        )
    if not rule.startswith("body"):
        raise _wrong(rule)
    place, steps = len("body"), 0
    names: list[str | None] = []
    while place < len(rule):
        found = _STEP.match(rule, place)
        if found is None:
            raise _wrong(rule)
        place, steps = found.end(), steps + 1
        # A step into a list is taken by itself wherever there is one.
        if found["items"] is None:
            names.append(_ANY if found["any"] else _name(rule, found))
    if steps > MOST_STEPS:
        raise ValueError(localized("the rule {rule} has over {most} steps", rule=repr(rule), most=MOST_STEPS))
    return tuple(names)


def _name(rule: str, found: re.Match[str]) -> str:
    if found["quoted"] is None:
        return _same(found["name"])
    try:
        return _same(json.loads(found["quoted"]))
    except ValueError as error:
        raise _wrong(rule) from error


def _wrong(rule: str) -> ValueError:
    return ValueError(
        localized(
            "{rule} is not a masking rule: write body, body.card.number, body.items[*].email, body.*.token, "
            'body["any name"], headers or headers.NAME',
            rule=repr(rule),
        )
    )


def _same(name: str) -> str:
    """Return the composed form (NFC) of a name, so that names that look the same are equal."""
    return unicodedata.normalize("NFC", name)


class _Masker:
    """Yields a JSON text in pieces with values masked; goes into values only where the path of a rule leads."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._copied = 0
        self._end = 0

    def document(self, paths: tuple[_Steps, ...]) -> Iterator[str]:
        yield from self._value(self._skip(0), paths)
        if self._skip(self._end) != len(self._text):
            raise ValueError("there is more after the value")
        yield self._text[self._copied :]

    def _value(self, start: int, paths: tuple[_Steps, ...]) -> Iterator[str]:
        """Go through the value that starts here; ``_end`` is then where it ended."""
        first = self._text[start : start + 1]
        if not paths:
            self._pass(start)
        elif () in paths:
            yield from self._mask(start)
        elif first == "{":
            yield from self._object(start, paths)
        elif first == "[":
            yield from self._list(start, paths)
        elif self._pass(start) is not None:
            yield from self._cut(start)

    def _object(self, start: int, paths: tuple[_Steps, ...]) -> Iterator[str]:
        place = self._skip(start + 1)
        if self._text[place : place + 1] == "}":
            self._end = place + 1
            return
        while True:
            if self._text[place : place + 1] != '"':
                raise ValueError("a field has no name")
            name = _same(str(self._pass(place)))
            place = self._expect(":", self._end)
            inner = tuple(path[1:] for path in paths if path[0] is _ANY or path[0] == name)
            yield from self._value(place, inner)
            place = self._skip(self._end)
            if self._text[place : place + 1] == "}":
                self._end = place + 1
                return
            place = self._expect(",", place)

    def _list(self, start: int, paths: tuple[_Steps, ...]) -> Iterator[str]:
        place = self._skip(start + 1)
        if self._text[place : place + 1] == "]":
            self._end = place + 1
            return
        while True:
            yield from self._value(place, paths)
            place = self._skip(self._end)
            if self._text[place : place + 1] == "]":
                self._end = place + 1
                return
            place = self._expect(",", place)

    def _mask(self, start: int) -> Iterator[str]:
        self._pass(start)
        yield from self._cut(start)

    def _cut(self, start: int) -> Iterator[str]:
        """Yield the text before the value that was passed last, and the mask in its place."""
        yield self._text[self._copied : start]
        yield _MASKED
        self._copied = self._end

    def _pass(self, start: int) -> object:
        found, self._end = _DECODER.raw_decode(self._text, start)
        return found

    def _skip(self, place: int) -> int:
        found = _SPACE.match(self._text, place)
        return found.end() if found else place

    def _expect(self, mark: str, place: int) -> int:
        place = self._skip(place)
        if self._text[place : place + 1] != mark:
            raise ValueError(f"{mark} is missing")
        return self._skip(place + 1)
