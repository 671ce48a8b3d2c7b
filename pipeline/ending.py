"""The end of a command that runs until somebody ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bus.errors import BusError


@contextmanager
def ended_by_signals() -> Iterator[threading.Event]:
    """Give an event that SIGINT and SIGTERM set, for the ``with`` block to end by itself.

    Who signals a whole group, as a service manager or a terminal does, ends Spark's own process at the same time; what
    Spark says of that is no failure once the event is set.
    """
    asked = threading.Event()
    before = {
        number: signal.signal(number, lambda _number, _frame: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield asked
    except (BusError, PySparkException, Py4JError, OSError):
        if not asked.is_set():
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
