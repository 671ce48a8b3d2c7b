"""The span of a `send`, where the application uses OpenTelemetry; nothing is imported for it, or done without."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any, Final

from bus.client.options import PreparedMessage

_log = logging.getLogger("bus.client")
_API: Final = "opentelemetry.trace"
_PARENT: Final = "traceparent"
_LONGEST_NAME: Final = 128


class SendSpan:
    """The span of one `send`, if there is one."""

    __slots__ = ("_span",)

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def prepared(self, prepared: PreparedMessage) -> None:
        """Note the message in the span."""
        if self._span is not None and self._span.is_recording():
            self._span.set_attribute("messaging.message.id", prepared.id)
            self._span.set_attribute("messaging.message.body.size", prepared.bytes)


_UNTRACED: Final = SendSpan()


@contextmanager
def sending(destination: str, headers: Mapping[str, str] | None) -> Iterator[SendSpan]:
    """Have a block run in a span ``send CODE``, below the application's current one.

    It is the message's parent, and has failed when the block raises. Without OpenTelemetry's API in the process, or
    with a trace context among the headers, there is none.
    """
    api = sys.modules.get(_API)
    if api is None or (headers and any(str(name).lower() == _PARENT for name in headers)):
        yield _UNTRACED
        return
    span = _started(api, destination)
    if span is None:
        yield _UNTRACED
        return
    with api.use_span(span, end_on_exit=True):
        yield SendSpan(span)


def _started(api: ModuleType, destination: str) -> Any:
    """Return a new span, None when the application's OpenTelemetry makes none: a message never fails for it."""
    code = str(destination)[:_LONGEST_NAME]
    try:
        return _tracer(api, api.get_tracer_provider()).start_span(
            f"send {code}",
            kind=api.SpanKind.PRODUCER,
            attributes={
                "messaging.system": "pier",
                "messaging.operation.name": "send",
                "messaging.operation.type": "send",
                "messaging.destination.name": code,
            },
        )
    except Exception:  # noqa: BLE001 - whatever it is that the application has set up
        _log.warning("no span could be started; the message is sent without", exc_info=True)
        return None


@lru_cache(4)
def _tracer(api: ModuleType, provider: Any) -> Any:
    return api.get_tracer("pier-bus", tracer_provider=provider)
