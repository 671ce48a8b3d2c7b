"""Commands in a terminal of so many columns, as a person sees them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from tests.harness.process import ROOT

_ROWS: Final = 24
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Shown(NamedTuple):
    """How a command ended, and what the terminal got, without colours."""

    code: int
    text: str


def in_terminal(argv: Sequence[str], *, env: Mapping[str, str], columns: int = 80, within: float = 60) -> Shown:
    """Run a command in a terminal of its own; raises ``subprocess.TimeoutExpired``."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BUS_", "COLUMNS"))}
    wanted = {**kept, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **env}
    process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=wanted, start_new_session=True)
    os.close(theirs)
    try:
        text = _read(ours)
        code = process.wait(within)
    finally:
        os.close(ours)
        process.kill()
    return Shown(code, _ESCAPES.sub("", text).replace("\r\n", "\n"))


def _read(terminal: int) -> str:
    """Return all that is written until everybody has closed the terminal, which Linux tells as an error."""
    found = bytearray()
    with suppress(OSError):
        while piece := os.read(terminal, 65_536):
            found += piece
    return found.decode("utf-8", "replace")
