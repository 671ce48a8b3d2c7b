"""The chains of strictly ordered destinations as the coordinator has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from bus.domain.ordering.chain import Chain
from bus.domain.ordering.document import COLLECTION, decode_chain, encode_chain
from bus.domain.ordering.effects import KnownChain
from bus.errors import Conflict, StoreUnavailable
from bus.localized_text import localized
from bus.ports.store import DocumentStore

_PATIENCE: Final = 3.0
_TRIES: Final = 20
_PAUSE: Final = 0.05


class ChainDocuments:
    """Reads chains, and changes them one compare-and-set at a time, beside the processes that work on them."""

    def __init__(self, coordinator: DocumentStore) -> None:
        self._coordinator = coordinator

    async def read(self, code: str) -> KnownChain:
        """Return a chain; one that does not exist yet has version 0.

        Raises
        ------
        StoreUnavailable
            The coordinator does not answer within 3 s.
        Conflict
            Another version of the bus wrote it.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                found = await self._coordinator.get(COLLECTION, code)
        except TimeoutError as error:
            raise StoreUnavailable(
                localized("the coordinator does not answer within {seconds} s", seconds=f"{_PATIENCE:g}"),
                hint=localized("see: {command}", command="bus doctor"),
            ) from error
        if found is None:
            return KnownChain(Chain(), 0)
        try:
            return KnownChain(decode_chain(found.value), found.version)
        except msgspec.DecodeError as error:
            raise Conflict(
                localized("another version of the bus wrote the chain of {code}; nothing was changed", code=repr(code)),
                hint=localized("ask a process of that version"),
            ) from error

    async def change(self, code: str, rule: Callable[[Chain], Chain]) -> Chain:
        """Apply a rule to the chain and write it, again while others write first; return the written chain.

        Raises
        ------
        StoreUnavailable
            The coordinator did not answer: whether it was written shows when it is read.
        Conflict
            As ``read`` does, or others wrote first again and again. What the rule raises is raised as it is.
        """
        for _ in range(_TRIES):
            known = await self.read(code)
            wanted = rule(known.chain)
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._coordinator.put(COLLECTION, code, encode_chain(wanted), version=known.version)
            except Conflict:
                await asyncio.sleep(_PAUSE)
            except TimeoutError as error:
                raise StoreUnavailable(
                    localized("it is unknown whether the coordinator has changed the chain of {code}", code=repr(code)),
                    hint=localized("see: {command}", command=f"bus ordering show {code}"),
                ) from error
            else:
                return wanted
        raise Conflict(
            localized("others changed the chain of {code} again and again; nothing was changed", code=repr(code)),
            hint=localized("try again in a moment"),
        )
