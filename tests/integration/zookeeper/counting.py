"""A counter in a document, over every failure: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from bus.coordinators.zookeeper import ZookeeperDocuments
from bus.errors import Conflict, StoreUnavailable
from bus.ports.store import Document
from tests.harness.waiting import until

Answer = TypeVar("Answer")
LONG: Final = 60.0  # seconds that no wait of a test may come to


async def insist(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Call again until there is an answer."""
    async with asyncio.timeout(LONG):
        while True:
            try:
                return await call()
            except StoreUnavailable:
                await asyncio.sleep(0.05)


class Counting:
    """Counts in a document, each time by compare-and-set with the version that it knows, over every failure."""

    def __init__(self, documents: ZookeeperDocuments, key: str) -> None:
        self.acknowledged = 0
        self.refused = 0
        self.over = False
        self._documents = documents
        self._key = key

    async def run(self) -> None:
        version = 0
        while not self.over:
            version = await self._counted(version)

    async def check(self, documents: ZookeeperDocuments) -> None:
        """Hold that the document has each change that was acknowledged."""
        found = await documents.get("c", self._key)
        assert found is not None
        assert found.version >= self.acknowledged
        assert found.value == b"%d" % found.version

    async def _counted(self, version: int) -> int:
        value = b"%d" % (version + 1)
        try:
            written = await self._documents.put("c", self._key, value, version=version)
        except StoreUnavailable:
            self.refused += 1
            return await self._found(version)
        except Conflict:  # its own change came late, after it had looked
            return await self._found(version)
        assert written == version + 1
        self.acknowledged = written
        return written

    async def _found(self, version: int) -> int:
        """Read what became of a change without an answer: it was made as it was meant, or not at all."""
        found = await insist(lambda: self._documents.get("c", self._key)) or Document(self._key, 0, b"0")
        assert found.version in {version, version + 1}
        assert found.value == b"%d" % found.version
        return found.version


async def all_go_on(counting: Sequence[Counting], by: int = 5) -> None:
    """Wait until each has had so many more changes acknowledged."""
    enough = [each.acknowledged + by for each in counting]
    await until(
        lambda: all(each.acknowledged >= least for each, least in zip(counting, enough, strict=True)),
        what="changes that are acknowledged",
    )


async def all_are_refused(counting: Sequence[Counting], harm: Callable[[], None]) -> None:
    """Do harm, and wait until each was told that there is no answer."""
    before = [each.refused for each in counting]
    await asyncio.to_thread(harm)
    await until(
        lambda: all(each.refused > count for each, count in zip(counting, before, strict=True)),
        what="a refusal of each",
    )
