"""Which records of a direct queue wait for a subscription that the configuration on the same disk lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bus.ports.spool import ConsumerStats
from bus.registry import SUBSCRIPTIONS
from bus.stores.snapshot import read_kept

_DIRECT: Final = "direct"


class Foreign:
    """Compares a queue with the configuration that is kept beside it; without one nothing is foreign."""

    def __init__(self, directory: Path) -> None:
        kept = read_kept(directory.parent, SUBSCRIPTIONS) if directory.name == _DIRECT else None
        self._known = None if kept is None else {document.key for document in kept}

    def has(self, found: ConsumerStats) -> bool:
        """Whether these records wait for a subscription that the configuration lacks."""
        return self._known is not None and f"{found.lane}/{found.consumer}" not in self._known
