"""Keeps the transport up: detects within a moment that the cluster is down or back, and restores what it lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from bus.async_helpers import first_of
from bus.errors import TransportError, TransportUnavailable
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.transports.kafka.config import KafkaConfig
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.errors import TROUBLE, describe, translated
from bus.transports.kafka.lag import Lags
from bus.transports.kafka.protocol.metadata import layouts
from bus.transports.kafka.publisher import Publisher
from bus.transports.kafka.topology import EnsuredDestination, Topology

_log = logging.getLogger(__name__)
_RETRY: Final = 0.3
_REFUSED_RETRY: Final = 5.0


class Supervision:
    """Keeps the cluster's connections, topics and figures up (``KafkaTransport.run``)."""

    def __init__(
        self,
        cluster: Cluster,
        publisher: Publisher,
        topology: Topology,
        lags: Lags,
        config: KafkaConfig,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._publisher = publisher
        self._topology = topology
        self._lags = lags
        self._config = config
        self._clock = clock
        self._answers = False
        self._trouble: TransportError = TransportUnavailable(localized("kafka: not connected yet"))
        self._wake = asyncio.Event()
        self._news = asyncio.Event()
        self._making: dict[str, asyncio.Task[None]] = {}
        self._refused_until: dict[str, float] = {}

    @property
    def answers(self) -> bool:
        """Whether the cluster answered when it was last asked."""
        return self._answers

    @property
    def trouble(self) -> AnyText:
        """Why it does not answer; empty when it does."""
        return "" if self._answers else self._trouble.said

    async def run(self) -> None:
        """Run until cancelled; never raises for the network."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat_for_ever(group))
            group.create_task(self._count_for_ever())

    def look(self) -> None:
        """Look now rather than at the next beat."""
        self._wake.set()

    async def answering(self, within: float) -> None:
        """Wait until the cluster answers.

        Raises
        ------
        TransportUnavailable, TransportRefused
            It was tried meanwhile in vain, or the time is up; says why.
        """
        self._wake.set()
        try:
            async with asyncio.timeout(within):
                while not self._answers:
                    self._news.clear()
                    await self._news.wait()
                    if not self._answers:
                        raise self._trouble
        except TimeoutError:
            raise self._trouble from None

    async def _beat_for_ever(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._wake.clear()
            try:
                await self._beat(group)
            except TransportError as error:
                await self._away(error)
            self._news.set()
            await self._pause(self._config.refresh if self._answers else _RETRY)

    async def _beat(self, group: asyncio.TaskGroup) -> None:
        if not self._cluster.is_open:
            await self._cluster.open()
        with translated(localized("asking for topics")):
            self._topology.see(await layouts(self._cluster, [ensured.name for ensured in self._topology]))
        if self._publisher.wants_renewal:
            if not self._publisher.is_up:
                self._topology.doubt()
            await self._publisher.renew()
        if not self._answers:
            _log.info("kafka: cluster %s answers", self._config.cluster)
            self._answers = True
        for ensured in self._topology:
            self._make(group, ensured)

    async def _away(self, error: TransportError) -> None:
        if self._answers or str(error) != str(self._trouble):
            _log.warning("%s; what is accepted meanwhile is not lost", error)
        self._answers = False
        self._trouble = error
        self._topology.doubt()
        self._publisher.lose()
        await self._cluster.close()

    async def _pause(self, seconds: float) -> None:
        """Wait, or return at once when a check is requested."""
        await first_of(self._clock.sleep(seconds), self._wake.wait())

    def _make(self, group: asyncio.TaskGroup, ensured: EnsuredDestination) -> None:
        """Have a destination made that is not, unless that is under way or it was refused a moment ago."""
        code = ensured.destination.code
        if ensured.is_made or code in self._making or ensured.lock.locked():
            return
        if self._clock.monotonic() < self._refused_until.get(code, 0.0):
            return
        task = group.create_task(self._try_to_make(ensured))
        self._making[code] = task
        task.add_done_callback(lambda _: self._making.pop(code, None))

    async def _try_to_make(self, ensured: EnsuredDestination) -> None:
        code, trouble = ensured.destination.code, ensured.trouble
        try:
            await self._topology.make(ensured)
        except TransportError as error:
            if str(error) != str(trouble):
                _log.warning("%s; nothing is published there meanwhile", error)
            if not error.retriable:
                self._refused_until[code] = self._clock.monotonic() + _REFUSED_RETRY

    async def _count_for_ever(self) -> None:
        while True:
            if self._answers:
                await self._attempt(self._lags.refresh())
            await self._clock.sleep(self._config.refresh)

    async def _attempt(self, refreshing: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(self._config.ensure_timeout):
                await refreshing
        except (*TROUBLE, TransportError) as error:
            _log.debug("kafka: no new figures: %s", describe(error))
            self._wake.set()
