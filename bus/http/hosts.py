"""Whom a request names as its host."""

from __future__ import annotations

from typing import Final

_LOOPBACK: Final = frozenset({b"127.0.0.1", b"localhost", b"[::1]"})


def is_loopback(host: bytes | None) -> bool:
    """Whether a Host header names this machine's loopback; where no key is asked for, DNS may name anything."""
    return host is not None and _name(host) in _LOOPBACK


def _name(host: bytes) -> bytes:
    """Return a Host header without its port."""
    name, colon, port = host.rpartition(b":")
    return (name if colon and port.isdigit() else host).lower()
