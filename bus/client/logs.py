"""A handler of the standard library's loggers: each record is a message."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator
from os import PathLike
from typing import Any, Final

import msgspec

from bus.client.network.http import EVENTS_THREAD, STRAIGHT_THREAD, THREAD
from bus.client.spooling.line import content_of
from bus.client.sync import Bus
from bus.domain.times import format_time
from bus.errors import InvalidMessage

_CLOSE: Final = 2.0
_SPOOL_LIMIT: Final = 256 << 20
_LONGEST_MESSAGE: Final = 32_768
_LONGEST_TRACEBACK: Final = 65_536
_LONGEST_EXTRA: Final = 4_096
_MOST_EXTRA: Final = 50
_GREATEST: Final = 2**63 - 1
_CUT: Final = "..."
_SDK: Final = "bus"
_SDK_THREADS: Final = (THREAD, EVENTS_THREAD, STRAIGHT_THREAD)
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_tracebacks: Final = logging.Formatter()


class _ReentryGuard(threading.local):
    """Whether this thread is storing a record; records logged meanwhile are not sent."""

    now = False


_INSIDE: Final = _ReentryGuard()


class BusHandler(logging.Handler):
    """Sends the records of a logger to a destination, as JSON: time, level, logger, message, place, extra fields.

    A logging call returns once the record is on disk, and does not wait for the network; threads share an fsync. It
    raises nothing: a record that the disk does not accept is lost and counted in ``lost``, and the first of a series is
    reported on standard error, as `logging` does. The SDK's own records are not sent. For an event loop, or where an
    fsync takes too long, put a `logging.handlers.QueueHandler` before it. Long texts are cut.

    Parameters
    ----------
    destination
        Its code.
    url, api_key, spool, source, spool_limit
        As `Bus` has them, for a bus of its own that is closed with the handler.
    bus
        One that the application has, instead of these; it stays open.
    level
        The lowest that is sent.

    Raises
    ------
    ConfigurationError
        A value is impossible.
    """

    def __init__(
        self,
        destination: str,
        url: str = "http://127.0.0.1:8700",
        api_key: str | None = None,
        spool: str | PathLike[str] = "./spool",
        source: str = "",
        *,
        spool_limit: int = _SPOOL_LIMIT,
        bus: Bus | None = None,
        level: int | str = logging.NOTSET,
    ) -> None:
        super().__init__(level)
        self.lost = 0
        self._destination = destination
        self._own = None if bus else Bus(url, api_key, spool, source, spool_limit=spool_limit, events=False)
        self._bus = bus or self._own
        self._failing = False

    def handle(self, record: logging.LogRecord) -> bool:
        """Send a record that the filters let through; not under the handler's lock, so that threads share an fsync."""
        found: Any = self.filter(record)
        if isinstance(found, logging.LogRecord):  # Python 3.12: a filter may put another in its place
            record = found
        if found:
            self.emit(record)
        return bool(found)

    def emit(self, record: logging.LogRecord) -> None:
        """Store a record; it is on disk when this returns, or counted as lost."""
        if self._bus is None or _INSIDE.now or _is_of_sdk(record):
            return
        _INSIDE.now = True
        try:
            self._bus.store([self._bus.prepare(self._destination, self._message(record))])
        except Exception:  # noqa: BLE001 - an application does not fail for its log
            self.lost += 1
            if not self._failing:
                self._failing = True
                self.handleError(record)
        else:
            self._failing = False
        finally:
            _INSIDE.now = False

    def close(self) -> None:
        """Send queued records for at most 2 seconds; the rest stays on disk, for the next process."""
        own, self._own, self._bus = self._own, None, None
        if own is not None:
            own.close(_CLOSE)
        super().close()

    def _message(self, record: logging.LogRecord) -> dict[str, Any]:
        found = {
            "time": format_time(int(record.created * 1000)),
            "level": record.levelname,
            "logger": record.name,
            "message": _cut(record.getMessage() if self.formatter is None else self.format(record), _LONGEST_MESSAGE),
            "file": _cut(record.pathname, _LONGEST_EXTRA),
            "line": record.lineno,
            "function": record.funcName,
            "process": record.process,
            "thread": record.threadName,
        }
        if record.exc_info or record.exc_text:
            text = record.exc_text or _tracebacks.formatException(record.exc_info)  # type: ignore[arg-type]
            found["exception"] = _tail(text, _LONGEST_TRACEBACK)
        if record.stack_info:
            found["stack"] = _tail(record.stack_info, _LONGEST_TRACEBACK)
        if extra := dict(_extra(record)):
            found["extra"] = extra
        return found


def _is_of_sdk(record: logging.LogRecord) -> bool:
    """Whether a record comes from the SDK or its libraries: sending it would cause the next one."""
    return record.name == _SDK or record.name.startswith(f"{_SDK}.") or record.threadName in _SDK_THREADS


def _extra(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    names = [name for name in vars(record) if name not in _USUAL and not name.startswith("_")]
    for name in names[:_MOST_EXTRA]:
        yield _cut(name, _LONGEST_EXTRA), _plain(vars(record)[name])


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold, of a bounded length."""
    if value is None or (isinstance(value, int) and abs(value) <= _GREATEST):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, (dict, list, tuple)):
        try:
            body = content_of(value, None).body
        except InvalidMessage:
            return _cut(repr(value), _LONGEST_EXTRA)
        return msgspec.Raw(body) if len(body) <= _LONGEST_EXTRA else _cut(body.decode(), _LONGEST_EXTRA)
    return _cut(str(value), _LONGEST_EXTRA)


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, as UTF-8 has it."""
    found = text if len(text) <= most else text[:most] + _CUT
    return found.encode(errors="replace").decode()


def _tail(text: str, most: int) -> str:
    """Return the end of a traceback, where the error is."""
    found = text if len(text) <= most else _CUT + text[-most:]
    return found.encode(errors="replace").decode()
