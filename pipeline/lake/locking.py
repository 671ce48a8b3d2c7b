"""The lock under which one process alone rolls up into a lake."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from bus.errors import ConfigurationError

_LOCK: Final = "_stream.lock"


@contextmanager
def alone(root: str) -> Iterator[None]:
    """Ensure that no other process of this machine rolls up into a lake, for the ``with`` block; others are not seen.

    Raises
    ------
    ConfigurationError
        Another one does.
    """
    parts = urlsplit(root)
    if parts.scheme not in ("", "file"):
        yield
        return
    folder = Path(unquote(parts.path) if parts.scheme else root)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"another process rolls up into the lake {root}", hint="end that one, or give this one another lake"
            ) from error
        yield
