"""The process that a test runs in: those of a file in one, and all that need the same costly resource in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

# What takes seconds to start, by what the paths of the tests that need it have in them: each is started once a run.
# What takes longest is first, so that no process is left with it at the end.
_COSTLY: Final = {
    "spark": "tests/integration/pipeline/",
    "combinations": "tests/acceptance/combinations/",
    "pages": "tests/acceptance/pages/",
    "kafka": "kafka",
    "rabbitmq": "rabbitmq",
    "mongodb": "mongodb",
    "nsq": "nsq",
    "zookeeper": "zookeeper",
}
_WITHOUT: Final = "tests/unit/"


class BySharedCost(LoadFileScheduling):
    """Hands on groups whole, and what is in none file by file."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return group_of(file) or file

    def remove_node(self, node: WorkerController) -> str | None:
        """Hand on what a process that ended has left, but for the test that it ended in: that one failed."""
        left = (unit for unit in self.assigned_work[node].values() if not all(unit.values()))
        if (unit := next(left, None)) is None:
            return super().remove_node(node)
        ended_in = next(test for test, is_over in unit.items() if not is_over)
        unit[ended_in] = True
        super().remove_node(node)
        return ended_in


def group_of(path: str) -> str | None:
    """Return the group of a file of tests, None when it needs nothing that is shared."""
    if path.startswith(_WITHOUT):
        return None
    return next((group for group, part in _COSTLY.items() if part in path), None)


def arrange(items: list[pytest.Item]) -> None:
    """Put groups first, in the order above, and mark them with ``server``; the order within one stays."""
    ranks = list(_COSTLY)
    groups = [group_of(item.nodeid.split("::", 1)[0]) for item in items]
    _mark(items, groups)
    placed = zip([len(ranks) if group is None else ranks.index(group) for group in groups], items, strict=True)
    items[:] = [item for _, item in sorted(placed, key=lambda pair: pair[0])]


def _mark(items: Sequence[pytest.Item], groups: Sequence[str | None]) -> None:
    for item, group in zip(items, groups, strict=True):
        if group is not None:
            item.add_marker("server")
