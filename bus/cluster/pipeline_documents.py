"""Documents of a long-running pipeline: its reported status, the requests of people, and its last proof."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from bus.domain.pipelines import Pipeline, PipelineReport, ProofReport, RunRequest
from bus.ports.store import Document, DocumentStore

PIPELINE: Final = "pipeline"
WISHES: Final = "pipeline_wishes"
STATE: Final = "state"
PROOF: Final = "proof"
Kept = TypeVar("Kept", PipelineReport, ProofReport, RunRequest)


class PipelineDocuments:
    """The last reports of a pipeline; one in the format of another version counts as missing.

    All methods raise ``StoreUnavailable`` while the store is unreachable.
    """

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents

    async def told(self) -> PipelineReport | None:
        """Return the last status of a pipeline; None when none ever reported."""
        return _decoded(await self._documents.get(PIPELINE, STATE), PipelineReport)

    async def wishes(self) -> list[RunRequest]:
        """Return the requests that no pipeline has taken yet, the oldest first."""
        found = [_decoded(each, RunRequest) for each in await self._documents.list(WISHES)]
        return sorted((wish for wish in found if wish is not None), key=lambda wish: wish.at)

    async def proof(self) -> ProofReport | None:
        """Return the last proof."""
        return _decoded(await self._documents.get(PIPELINE, PROOF), ProofReport)

    async def tell(self, pipeline: Pipeline, now: int, by: str) -> list[RunRequest]:
        """Write the status of a pipeline; durable when it returns. Return the open requests of people."""
        await self._documents.put(
            PIPELINE, STATE, msgspec.json.encode(PipelineReport(at=now, by=by, pipeline=pipeline))
        )
        left = []
        for wish in await self.wishes():
            if pipeline.took(wish):
                await self._documents.delete(WISHES, wish.job)
            else:
                left.append(wish)
        return left

    async def wish(self, wish: RunRequest) -> None:
        """Request a run of a job, unless it is requested already; durable when it returns."""
        if _decoded(await self._documents.get(WISHES, wish.job), RunRequest) is None:
            await self._documents.put(WISHES, wish.job, msgspec.json.encode(wish))

    async def put_proof(self, report: ProofReport) -> None:
        """Write the last proof; durable when it returns."""
        await self._documents.put(PIPELINE, PROOF, msgspec.json.encode(report))


def _decoded(document: Document | None, kind: type[Kept]) -> Kept | None:
    if document is None:
        return None
    try:
        return msgspec.json.decode(document.value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
