"""The error of a failed job, and a failure of Spark as one line."""

from __future__ import annotations

import re
from typing import Final

from bus.errors import BusError

_CALL: Final = re.compile(r"An error occurred while calling [^\n]*?\.?\n: ")
_TASK: Final = re.compile(r".*most recent failure: Lost task .*? \(TID \d+\) \(.*?\): ")
_CLASS: Final = re.compile(r"\A(?:[a-z]\w*\.)+[A-Z][\w$]*: ")
_TRACE: Final = "Traceback (most recent call last):"


class JobFailed(BusError):
    """A job ended before its work was done; what it committed stays."""


def line_of(error: Exception) -> str:
    """Return the first meaningful line: for a failed task its cause, for a failure in Python the exception.

    Raises
    ------
    Py4JError, OSError
        The text must be read from the Java process, which has ended.
    """
    text = _CALL.sub("", str(error), count=1)
    if _TRACE in text:
        text = "\n".join(line for line in text.partition(_TRACE)[2].splitlines() if line[:1].strip())
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    return _CLASS.sub("", _TASK.sub("", lines[0].strip()), count=1).rstrip(".")
