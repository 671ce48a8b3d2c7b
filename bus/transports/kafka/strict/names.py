"""Names of the topics and writers of strictly ordered destinations, apart from all others on a cluster."""

from __future__ import annotations

from typing import Final

_MARK: Final = "-strict."
_WRITERS: Final = "pier/"


def strict_prefix(prefix: str) -> str:
    """Return the prefix of their topics: that of no other topic of the bus, where each ``-`` of a code is doubled."""
    return prefix + _MARK


def writer_of(topic: str) -> str:
    """Return the transactional id that all writers to a topic share, so that a new one shuts out those before it."""
    return _WRITERS + topic
