"""Input of commands: a file or standard input, and its content type."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from bus.errors import ConfigurationError

JSON: Final = "application/json"
STANDARD_INPUT: Final = "-"


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """Give a file to read, standard input for ``-``.

    Raises
    ------
    ConfigurationError
        It cannot be read.
    """
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as stream:
            yield stream
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}", hint="use - for standard input") from error


def guess_type(body: bytes) -> str:
    """Return the type of a body by what it can be read as."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    else:
        return JSON
    try:
        body.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain; charset=utf-8"
