"""Input of commands: a file or standard input, its content type, and a check of JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from bus.domain.json_bodies import is_json, read_json
from bus.errors import ConfigurationError, InvalidMessage

JSON: Final = "application/json"
STANDARD_INPUT: Final = "-"
_MALFORMED: Final = re.compile(r"(?:JSON is malformed: )?(.*?)(?: \(byte (\d+)\))?")


class Fault(NamedTuple):
    """Where a text is not JSON, from 1, and why."""

    line: int
    column: int
    reason: str


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for ``-``; at a terminal, a line on standard error says that it is read.

    Raises
    ------
    ConfigurationError
        It cannot be read.
    """
    if file == STANDARD_INPUT:
        if sys.stdin.isatty():
            sys.stderr.write("reading standard input; end it with Ctrl-D\n")
            sys.stderr.flush()
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as stream:
            yield stream
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}", hint="use - for standard input") from error


def guess_type(body: bytes) -> str:
    """Return the content type of a body: JSON, text or bytes."""
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


def check_body(body: bytes, content_type: str) -> None:
    """Raise ``InvalidMessage`` if the content type says that a body is JSON and it is not."""
    fault = json_fault(body) if is_json(content_type) else None
    if fault is not None:
        raise InvalidMessage(
            f"the body is not JSON: line {fault.line}, column {fault.column}: {fault.reason}; nothing was sent",
            hint=f"correct it, or give another --content-type than {content_type}",
        )


def json_fault(body: bytes) -> Fault | None:
    """Return the first fault of a body that must be JSON, None if it has none."""
    try:
        read_json(body)
    except ValueError as error:
        offset, reason = _fault(body, error.__cause__)
        before = body[:offset].decode(errors="replace")
        return Fault(before.count("\n") + 1, len(before) - before.rfind("\n"), reason)
    return None


def _fault(body: bytes, error: BaseException | None) -> tuple[int, str]:
    """Return the offset of a fault in bytes, and the reason."""
    try:
        body.decode()
    except UnicodeDecodeError as undecodable:
        return undecodable.start, "not UTF-8"
    if isinstance(error, RecursionError):
        return 0, "nested too deeply"
    found = _MALFORMED.fullmatch(str(error))
    if found is None or found[2] is None:
        return len(body), "the text ends too early"
    return int(found[2]), found[1]
