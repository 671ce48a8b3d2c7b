"""The end of a command that runs until it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bus.errors import BusError

_OF_SPARK: Final = (PySparkException, Py4JError, ConnectionError)


@contextmanager
def ended_by_signals() -> Iterator[threading.Event]:
    """Give an event that SIGINT and SIGTERM set, for the ``with`` block to end by itself.

    A signal to the whole process group, as of a service manager or a terminal, ends Spark's own process as well, so
    errors of Spark are no failure once the event is set. Errors of the pipeline itself, such as lines that were left
    out, still are.
    """
    asked = threading.Event()
    before = {
        number: signal.signal(number, lambda _number, _frame: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield asked
    except (BusError, *_OF_SPARK) as error:
        if not (asked.is_set() and isinstance(error.__cause__ if isinstance(error, BusError) else error, _OF_SPARK)):
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
