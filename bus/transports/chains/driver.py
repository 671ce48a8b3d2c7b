"""Does for one chain what its rules want done: asks the coordinator and the groups of brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import msgspec

from bus.domain.ordering.chain import Chain
from bus.domain.ordering.document import COLLECTION, decode_chain, encode_chain
from bus.domain.ordering.effects import Effect, IsDrained, Known, Open, Procedure, Put, Read, Refused, Stand, Write
from bus.errors import Conflict, StoreError, TransportError
from bus.ports.broker_group import AWAY, BrokerGroup, GroupReader, GroupWriter, Standing
from bus.ports.store import DocumentStore

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


class ChainDriver:
    """Runs the procedures of one destination.

    Parameters
    ----------
    subscriptions
        Names those that are configured.
    is_behind
        Whether a group lacks the queue of one of them.

    Attributes
    ----------
    readers
        The readers that are open, by group and subscription.
    """

    def __init__(
        self,
        code: str,
        coordinator: DocumentStore,
        groups: Mapping[str, BrokerGroup],
        subscriptions: Callable[[], Collection[str]],
        is_behind: Callable[[str], bool],
    ) -> None:
        self._code = code
        self._coordinator = coordinator
        self._groups = groups
        self._subscriptions = subscriptions
        self._is_behind = is_behind
        self._writers: dict[str, GroupWriter] = {}
        self.readers: dict[tuple[str, str], GroupReader] = {}

    async def perform(self, procedure: Procedure[_Answer]) -> _Answer:
        """Run a procedure to its end; raises what it raises."""
        answer: Any = None
        try:
            while True:
                try:
                    effect = procedure.send(answer)
                except StopIteration as end:
                    result: _Answer = end.value
                    return result
                answer = await self._do(effect)
        finally:
            procedure.close()

    async def close(self) -> None:
        """Close all writers; readers are their consumers'."""
        for group in list(self._writers):
            await self._writers.pop(group).close()

    async def _do(self, effect: Effect) -> object:
        match effect:
            case Read():
                return await self._read()
            case Put(chain, version):
                return await self._put(chain, version)
            case Stand(group):
                return await self._stand(group)
            case Open(group):
                return await self._open(group)
            case Write():
                return await self._write(effect)
            case IsDrained(group, subscription):
                reader = self.readers.get((group, subscription))
                return reader is not None and await reader.is_drained()

    async def _read(self) -> Known | Refused:
        try:
            found = await self._coordinator.get(COLLECTION, self._code)
        except StoreError as error:
            _log.debug("the chain of %s cannot be read: %s", self._code, error)
            return Refused.UNKNOWN
        if found is None:
            return Known(Chain(), 0)
        try:
            return Known(decode_chain(found.value), found.version)
        except msgspec.DecodeError:
            _log.warning("the chain of %s cannot be read: another version wrote it", self._code)
            return Refused.UNKNOWN

    async def _put(self, chain: Chain, version: int) -> int | Refused:
        try:
            return await self._coordinator.put(COLLECTION, self._code, encode_chain(chain), version=version)
        except Conflict:
            return Refused.CONFLICT
        except StoreError as error:
            _log.debug("nobody knows whether the chain of %s was written: %s", self._code, error)
            return Refused.UNKNOWN

    async def _stand(self, group: str) -> Standing:
        found = self._groups.get(group)
        return await found.standing(self._code, sorted(self._subscriptions())) if found is not None else AWAY

    async def _open(self, group: str) -> bool:
        if (before := self._writers.pop(group, None)) is not None:
            await before.close()
        try:
            self._writers[group] = await self._groups[group].writer(self._code)
        except TransportError as error:
            _log.warning("group %s takes nothing for %s: %s", group, self._code, error)
            return False
        return True

    async def _write(self, effect: Write) -> int:
        writer = self._writers.get(effect.group)
        if writer is None or self._is_behind(effect.group):
            return 0
        return await writer.write([msgspec.structs.replace(one, epoch=effect.epoch) for one in effect.messages])
