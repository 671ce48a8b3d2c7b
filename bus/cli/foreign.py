"""Which lanes of a direct queue belong to nobody that the configuration on the same disk has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bus.ports.spool import ConsumerStats
from bus.registry import SUBSCRIPTIONS
from bus.stores.snapshot import read_kept

_DIRECT: Final = "direct"


class Foreign:
    """Tells by the configuration that is kept beside a queue; without one nothing is foreign."""

    def __init__(self, directory: Path) -> None:
        kept = read_kept(directory.parent, SUBSCRIPTIONS) if directory.name == _DIRECT else None
        self._known = None if kept is None else {document.key for document in kept}

    def has(self, found: ConsumerStats) -> bool:
        """Whether what waits here waits for a subscription that is not there."""
        return self._known is not None and f"{found.lane}/{found.consumer}" not in self._known
