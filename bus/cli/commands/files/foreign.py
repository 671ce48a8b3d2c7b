"""Records of a direct queue for a subscription that is not in the configuration on the same disk."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bus.domain.lanes import STORE, destination_of
from bus.ports.spool import ConsumerStats
from bus.registry import SUBSCRIPTIONS
from bus.spool.section import SEPARATOR
from bus.stores.snapshot import read_kept

_DIRECT: Final = f"direct{SEPARATOR}"


class ForeignQueueCheck:
    """Compares a queue with the configuration beside it; without a configuration nothing is foreign."""

    def __init__(self, directory: Path) -> None:
        kept = read_kept(directory.parent, SUBSCRIPTIONS)
        self._known = None if kept is None else {document.key for document in kept}

    def has(self, found: ConsumerStats) -> bool:
        """Whether these records are for a subscription that is not configured."""
        if self._known is None or not found.lane.startswith(_DIRECT) or found.consumer == STORE:
            return False
        return f"{destination_of(found.lane.removeprefix(_DIRECT))}/{found.consumer}" not in self._known
