"""Findings of the pipeline as documents: apart by kind, skipped where another version wrote them."""

from __future__ import annotations

import pytest

from bus.cluster.finding_documents import FINDINGS, NORMS, PROOF, FindingDocuments
from bus.domain.health.findings import Deviation, Deviations, Findings, Metric, Proof, Shortfall
from bus.errors import Conflict
from bus.ports.store import Document
from bus.testing.store import MemoryStore

OUT = Deviation(destination="orders", subscription="", metric=Metric.VOLUME, since=5, value=1.0, norm=9.5, low=6.5)
TOLD = Deviations(until=5, told_at=7, by="ops", count=1, items=(OUT,))
SHORT = Shortfall(destination="orders", subscription="shop", missing=2, contradicted=0, since=5, until=6)
PROVEN = Proof(checked=6, told_at=7, by="ops", missing=2, items=(SHORT,))


async def test_what_was_told_last_is_found() -> None:
    documents = FindingDocuments(MemoryStore())
    assert await documents.found() == Findings()
    await documents.put_norms(TOLD)
    assert await documents.put_proof(PROVEN) == PROVEN
    assert await documents.found() == Findings(TOLD, PROVEN)
    await documents.put_norms(Deviations(told_at=9))
    assert await documents.put_proof(Proof(told_at=9)) == Proof(told_at=9)
    assert await documents.found() == Findings(Deviations(told_at=9), Proof(told_at=9))


async def test_a_proof_of_a_range_keeps_what_was_found_elsewhere() -> None:
    documents = FindingDocuments(MemoryStore())
    await documents.put_proof(PROVEN)
    kept = await documents.put_proof(Proof(since=10, told_at=9))
    assert (kept.items, kept.missing) == ((SHORT,), 2)
    assert (await documents.found()).proof == kept


@pytest.mark.parametrize("value", [b"rubbish", b'{"until": "noon"}', b'{"items": [{}]}', b"\xff"])
async def test_what_another_version_wrote_is_as_if_it_was_not(value: bytes) -> None:
    store = MemoryStore()
    for key in (NORMS, PROOF):
        await store.put(FINDINGS, key, value)
    documents = FindingDocuments(store)
    assert await documents.found() == Findings()
    assert await documents.put_proof(PROVEN) == PROVEN


async def test_fields_of_a_later_version_are_left_out() -> None:
    store = MemoryStore()
    await store.put(FINDINGS, NORMS, b'{"told_at": 7, "count": 0, "items": [], "mood": "good"}')
    assert (await FindingDocuments(store).found()).norms == Deviations(told_at=7)


async def test_of_two_proofs_at_once_one_is_refused() -> None:
    class Crossed(MemoryStore):
        async def get(self, collection: str, key: str) -> Document | None:
            found = await super().get(collection, key)
            await self.put(collection, key, b"{}")
            return found

    with pytest.raises(Conflict):
        await FindingDocuments(Crossed()).put_proof(PROVEN)
