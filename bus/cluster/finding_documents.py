"""Stored findings of the pipeline, shared by the process that receives them and the one that monitors the bus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from bus.domain.health.findings import Deviations, Findings, Proof
from bus.ports.store import Document, DocumentStore

FINDINGS: Final = "findings"
NORMS: Final = "norms"
PROOF: Final = "proof"
Found = TypeVar("Found", Deviations, Proof)


class FindingDocuments:
    """The last reported findings, a document for each kind; one in the format of another version counts as missing.

    All methods raise ``StoreUnavailable`` while the store is unreachable.
    """

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents

    async def found(self) -> Findings:
        """Return all of it."""
        known = {one.key: one for one in await self._documents.list(FINDINGS)}
        return Findings(_decoded(known, NORMS, Deviations()), _decoded(known, PROOF, Proof()))

    async def put_norms(self, told: Deviations) -> None:
        """Write the deviations from norms, in place of the earlier ones; durable when it returns."""
        await self._documents.put(FINDINGS, NORMS, msgspec.json.encode(told))

    async def put_proof(self, told: Proof) -> Proof:
        """Write the findings of a proof, with those of earlier proofs outside its range, and return them.

        Durable when it returns.

        Raises
        ------
        Conflict
            Another proof was reported meanwhile; nothing was written.
        """
        present = await self._documents.get(FINDINGS, PROOF)
        known = {PROOF: present} if present is not None else {}
        whole = told.after(_decoded(known, PROOF, Proof()))
        version = present.version if present is not None else 0
        await self._documents.put(FINDINGS, PROOF, msgspec.json.encode(whole), version=version)
        return whole


def _decoded(documents: Mapping[str, Document], key: str, nothing: Found) -> Found:
    if key not in documents:
        return nothing
    try:
        return msgspec.json.decode(documents[key].value, type=type(nothing))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return nothing
