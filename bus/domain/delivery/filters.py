"""A subscription's filter: a JMESPath expression over a message."""

from __future__ import annotations

from typing import Any

import jmespath
import msgspec
from jmespath.exceptions import JMESPathTypeError

from bus.domain.message import Message
from bus.sentences import sentence


class Filter:
    """Decides whether a subscription wants a message.

    Raises
    ------
    ValueError
        The expression does not compile.
    """

    def __init__(self, expression: str) -> None:
        try:
            self._compiled = jmespath.compile(expression)
        except (ValueError, RecursionError) as error:
            raise ValueError(sentence("the filter does not compile: {error}", error=str(error))) from error

    def wants(self, message: Message) -> bool:
        """Whether the expression is true (JMESPath's truth: not null, false, or empty).

        Raises
        ------
        ValueError
            The expression fails on this message; the caller delivers it and counts.
        """
        try:
            return _is_true(self._compiled.search(_view(message)))
        except Exception as error:  # whatever an expression does to a message, the message is delivered
            raise ValueError(f"the filter fails on message {message.id}: {_why(error)}") from error


def _why(error: Exception) -> str:
    """Say why without the value, which JMESPath's own text quotes: this goes into the log."""
    if isinstance(error, JMESPathTypeError):
        return f"{error.function_name}() does not take a value of type {error.actual_type}"
    return type(error).__name__


def _is_true(found: Any) -> bool:
    # Not one ``in`` for all: 0 equals False, and is true in JMESPath.
    return found is not None and found is not False and found not in ("", [], {})


def _view(message: Message) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(message.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    return {
        "body": body,
        "headers": message.headers,
        "biz_id": message.biz_id,
        "key": message.key,
        "source": message.source,
    }
