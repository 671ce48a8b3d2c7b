"""A subscription's filter: a JMESPath expression over a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathTypeError

from bus.domain.json_bodies import is_json, read_json
from bus.domain.message import Message
from bus.error_texts import kind_text
from bus.localized_text import localized

_ALL: Final = "*"


class Filter:
    """Decides whether a subscription takes a message. Names of headers are the same in upper and lower case.

    Raises
    ------
    ValueError
        The expression does not compile.
    """

    def __init__(self, expression: str) -> None:
        try:
            self._compiled = jmespath.compile(expression)
        except (ValueError, RecursionError) as error:
            raise ValueError(localized("the filter does not compile: {error}", error=str(error))) from error
        self._names = set(_names(self._compiled.parsed))
        self._reads_body = not self._names.isdisjoint(("body", _ALL))

    def wants(self, message: Message) -> bool:
        """Whether the expression is true (JMESPath's truth: not null, false, or empty).

        Raises
        ------
        ValueError
            The expression fails on this message, or looks at its body, which says that it is JSON and cannot be read.
            The caller delivers it and counts.
        """
        try:
            return _is_true(self._compiled.search(self._view(message)))
        except Exception as error:  # whatever an expression does to a message, the message is delivered
            raise ValueError(f"the filter fails on message {message.id}: {_why(error)}") from error

    def _view(self, message: Message) -> dict[str, Any]:
        return {
            "body": self._body(message),
            "headers": self._headers(message.headers),
            "biz_id": message.biz_id,
            "key": message.key,
            "source": message.source,
        }

    def _body(self, message: Message) -> Any:
        try:
            return read_json(message.body)
        except ValueError as error:
            if self._reads_body and is_json(message.content_type):
                raise _Unreadable from error
            return None

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return headers under their names as the expression writes them; those that it does not, in lower case."""
        written = {name.lower(): name for name in self._names}
        return {written.get(name.lower(), name.lower()): value for name, value in headers.items()}


class _Unreadable(Exception):
    """A body says that it is JSON and cannot be read."""


def _names(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields that a parsed expression names, and ``_ALL`` if it may read all of a message's."""
    if node["type"] in ("current", "value_projection"):
        yield _ALL
    if node["type"] in ("field", "key_val_pair"):
        yield node["value"]
    for child in node["children"]:
        if isinstance(child, dict):  # a slice has numbers
            yield from _names(child)


def _why(error: Exception) -> str:
    """Return the reason without the value, which JMESPath's own text quotes: this goes into the log."""
    if isinstance(error, _Unreadable):
        return "its body is no JSON, as its content type says"
    if isinstance(error, JMESPathTypeError):
        return f"{error.function_name}() does not take a value of type {error.actual_type}"
    return kind_text(error)


def _is_true(found: Any) -> bool:
    # Not one ``in`` for all: 0 equals False, and is true in JMESPath.
    return found is not None and found is not False and found not in ("", [], {})
