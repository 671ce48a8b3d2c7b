"""Runs the procedures of one chain that its rules demand, on the coordinator and the groups of brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import msgspec

from bus.domain.ordering.chain import Chain
from bus.domain.ordering.document import COLLECTION, decode_chain, encode_chain
from bus.domain.ordering.effects import (
    CheckGroup,
    Effect,
    HasMark,
    IsDrained,
    KnownChain,
    Mark,
    OpenWriter,
    Procedure,
    PutChain,
    ReadChain,
    Refusal,
    WriteMessages,
)
from bus.errors import Conflict, StoreError, TransportError
from bus.localized_text import AnyText, localized
from bus.ports.broker_group import AWAY, BrokerGroup, GroupReader, GroupStatus, GroupWriter
from bus.ports.store import DocumentStore
from bus.telemetry import labels, metrics

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
    lacks_all
        Called with a group that has nothing of the destination any more.

    Attributes
    ----------
    readers
        The readers that are open, by group and subscription.
    standings
        The groups' last answers, by name.
    trouble
        Why the coordinator's last request failed; empty for nothing.
    """

    def __init__(
        self,
        code: str,
        coordinator: DocumentStore,
        groups: Mapping[str, BrokerGroup],
        subscriptions: Callable[[], Collection[str]],
        is_behind: Callable[[str], bool],
        lacks_all: Callable[[str], None],
    ) -> None:
        self._code = code
        self._coordinator = coordinator
        self._groups = groups
        self._subscriptions = subscriptions
        self._is_behind = is_behind
        self._lacks_all = lacks_all
        self._writers: dict[str, GroupWriter] = {}
        self._current = 0
        self.readers: dict[tuple[str, str], GroupReader] = {}
        self.standings: dict[str, GroupStatus] = {}
        self.trouble: AnyText = ""

    async def perform(self, procedure: Procedure[_Answer]) -> _Answer:
        """Run a procedure to its end; raises the procedure's errors."""
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
            case ReadChain():
                return await self._read()
            case PutChain(chain, version):
                return await self._put(chain, version)
            case CheckGroup(group):
                return await self._stand(group)
            case OpenWriter(group):
                return await self._open(group)
            case _:
                return await self._do_on_group(effect)

    async def _do_on_group(self, effect: WriteMessages | IsDrained | Mark | HasMark) -> object:
        match effect:
            case WriteMessages():
                return await self._write(effect)
            case IsDrained(group, subscription):
                reader = self.readers.get((group, subscription))
                return reader is not None and await reader.is_drained()
            case Mark(group, known):
                return await self._mark(group, known)
            case HasMark(group, mark):
                return await self._has_mark(group, mark)

    async def _read(self) -> KnownChain | Refusal:
        try:
            found = await self._coordinator.get(COLLECTION, self._code)
        except StoreError as error:
            _log.debug("the chain of %s cannot be read: %s", self._code, error)
            self.trouble = error.said
            return Refusal.UNKNOWN
        if found is None:
            self.trouble = ""
            return KnownChain(Chain(), 0)
        try:
            chain = decode_chain(found.value)
        except msgspec.DecodeError:
            _log.warning("the chain of %s cannot be read: another version wrote it", self._code)
            self.trouble = localized("another version of the bus wrote it")
            return Refusal.UNKNOWN
        self.trouble = ""
        self._current = max(self._current, _current_epoch(chain))
        return KnownChain(chain, found.version)

    async def _put(self, chain: Chain, version: int) -> int | Refusal:
        try:
            written = await self._coordinator.put(COLLECTION, self._code, encode_chain(chain), version=version)
        except Conflict:
            return Refusal.CONFLICT
        except StoreError as error:
            _log.debug("nobody knows whether the chain of %s was written: %s", self._code, error)
            self.trouble = error.said
            return Refusal.UNKNOWN
        self.trouble = ""
        if _current_epoch(chain) > self._current:
            self._current = _current_epoch(chain)
            metrics.CHAIN_MOVES.labels(*labels.DESTINATIONS.of(self._code)).inc()
        return written

    async def _stand(self, group: str) -> GroupStatus:
        found = self._groups.get(group)
        said = await found.standing(self._code, sorted(self._subscriptions())) if found is not None else AWAY
        self.standings[group] = said
        return said

    async def _open(self, group: str) -> bool:
        if (before := self._writers.pop(group, None)) is not None:
            await before.close()
        try:
            self._writers[group] = await self._groups[group].writer(self._code)
        except TransportError as error:
            _log.warning("group %s takes nothing for %s: %s", group, self._code, error)
            return False
        return True

    async def _mark(self, group: str, known: str) -> str:
        mark = await self._groups[group].mark(self._code, known)
        if not mark:
            _log.warning("group %s: the data of %s could not be marked", group, self._code)
        return mark

    async def _has_mark(self, group: str, mark: str) -> bool | None:
        found = self._groups.get(group)
        has = await found.has_mark(self._code, mark) if found is not None else None
        if has is False:
            _log.error("group %s lost its disks, with its messages of %s", group, self._code)
            self._lacks_all(group)
        return has

    async def _write(self, effect: WriteMessages) -> int:
        writer = self._writers.get(effect.group)
        if writer is None or self._is_behind(effect.group):
            return 0
        return await writer.write([msgspec.structs.replace(one, epoch=effect.epoch) for one in effect.messages])


def _current_epoch(chain: Chain) -> int:
    """Return the epoch of the segment that takes messages; 0 for none."""
    return chain.current.epoch if chain.current is not None else 0
