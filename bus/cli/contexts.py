"""Contexts: named buses of a person, each with its address and key, in a file that only this person can read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bus.error_texts import error_text
from bus.errors import ConfigurationError
from bus.files import write_whole
from bus.network.names import is_http_url
from bus.suggestions import did_you_mean

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Context(msgspec.Struct, frozen=True, omit_defaults=True):
    """A bus; ``api_key`` is empty for one that needs none."""

    server: str
    api_key: str = ""


class Contexts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The contents of the file; ``current`` is the name of the context in use, empty for none."""

    current: str = ""
    contexts: Mapping[str, Context] = {}

    def named(self, name: str) -> Context:
        """Return a context.

        Raises
        ------
        ConfigurationError
            There is no context of this name.
        """
        if name not in self.contexts:
            hint = did_you_mean(name, self.contexts) or "list them with: bus context list"
            raise ConfigurationError(f"there is no context {name!r}", hint=hint)
        return self.contexts[name]


def chosen_context(name: str) -> Context | None:
    """Return the context of this name, for an empty one the context in use; None if no context is in use.

    Raises
    ------
    ConfigurationError
        There is no context of this name, or the file cannot be read.
    """
    known = read_contexts()
    wanted = name or known.current
    return known.named(wanted) if wanted else None


def key_for(server: str, name: str) -> str:
    """Return the key of the context of this name, for an empty one of the context in use; empty for another server.

    A file that this person may not read counts as empty. Raises like ``chosen_context``.
    """
    try:
        known = _contents()
    except PermissionError:
        return ""
    wanted = name or known.current
    if not wanted or (context := known.named(wanted)).server != server.rstrip("/"):
        return ""
    return context.api_key


def read_contexts() -> Contexts:
    """Return what the file contains, nothing if there is no file.

    Raises
    ------
    ConfigurationError
        The file is damaged, or cannot be read.
    """
    try:
        return _contents()
    except OSError as error:
        raise ConfigurationError(f"cannot read the contexts: {error_text(error)}") from error


def _contents() -> Contexts:
    path = contexts_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is damaged", hint="remove it and set the contexts again") from error


def write_contexts(contexts: Contexts) -> None:
    """Replace the file, durably and readable by its owner only; raises ``OSError`` if the disk refuses it."""
    write_whole(contexts_file(), msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n")


def contexts_file() -> Path:
    """Return the path of the file, by the XDG base directory specification."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    root = Path(folder) if folder.startswith("/") else Path(os.environ.get("HOME", "/"), ".config")
    return root / "pier" / "contexts.json"


def check_context(name: str, server: str) -> None:
    """Raise ``ConfigurationError`` unless a context may have this name and this address."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is not a name of a context", hint="1 to 64 of A-Z a-z 0-9 . _ -")
    if not is_http_url(server):
        raise ConfigurationError(f"--server {server!r} is not an http or https address", hint="http://127.0.0.1:8700")
    if "@" in urlsplit(server).netloc:
        raise ConfigurationError("--server has a user name or a password", hint="give the key with --api-key")
