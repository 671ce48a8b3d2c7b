"""``bus up`` with three groups of brokers in its memory: ``python -m tests.harness.grouped_bus FILE up ...``.

FILE has a JSON object: how many copies of each group are up, three where it says nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from bus.bootstrap import opening
from bus.cli import main
from bus.testing.broker_group import MemoryGroup
from bus.transports.chains.chains import Groups

NAMES = ("g1", "g2", "g3")
_EVERY = 0.05
_ALL = 3


class ToldGroup(MemoryGroup):
    """A group that fails and comes back as a file says."""

    def __init__(self, name: str, told: Path) -> None:
        super().__init__(name)
        self._told = told

    async def run(self) -> None:
        """Follow the file."""
        while True:
            copies = json.loads(self._told.read_text("utf-8")).get(self.name, _ALL) if self._told.exists() else _ALL
            if copies != self.copies:
                self.set_copies(copies)
            await asyncio.sleep(_EVERY)


def open_told(told: Path) -> Groups:
    """Return the groups, as those of Kafka."""
    return {"kafka": {name: ToldGroup(name, told) for name in NAMES}}


if __name__ == "__main__":
    opening.open_groups = lambda *_: open_told(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
