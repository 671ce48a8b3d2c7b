"""A process's part in a subscription's group: joins, commits, hands over, leaves, and joins again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import errors as kafka
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from bus.async_helpers import first_of
from bus.call_watch import CallWatch
from bus.errors import TransportError
from bus.ports.clock import Clock
from bus.transports.kafka.buffer import Buffer
from bus.transports.kafka.commits import METADATA_BYTES, Commit
from bus.transports.kafka.config import KafkaConfig, milliseconds
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.errors import TROUBLE, describe
from bus.transports.kafka.fetching import ConsumerPolling, SetAside
from bus.transports.kafka.protocol.closing import disconnect, stop_consumer
from bus.transports.kafka.protocol.requests import Member, commit
from bus.transports.kafka.start_offsets import Group, NotStarted, has_start, windows

_log = logging.getLogger(__name__)
_BACKOFF: Final = 0.3
_COMMITS_APART: Final = 0.01
_LEAVE_WITHIN: Final = 3.0
# Each consumer asks for its broker several times in each of these while it is unreachable.
_CLIENT_BACKOFF: Final = 0.5
_NO_BITMAP: Final = 64
_PARTITION_BYTES: Final = 1_048_576
_GONE_ON: Final = (kafka.UnknownMemberIdError, kafka.IllegalGenerationError)
_TROUBLE: Final = (*TROUBLE, TransportError)


class Membership:
    """One aiokafka consumer in the group, and another one whenever that fails."""

    def __init__(
        self,
        group: Group,
        cluster: Cluster,
        buffer: Buffer,
        config: KafkaConfig,
        options: dict[str, Any],
        clock: Clock,
        set_aside: SetAside,
    ) -> None:
        self._group = group
        self._cluster = cluster
        self._buffer = buffer
        self._config = config
        self._options = options
        self._clock = clock
        self._set_aside = set_aside
        self._call_watch = CallWatch(f"the consumer of group {group.name}")
        self._consumer: Any = None
        self._member: Member | None = None
        self._assignor: Any = None
        self._part: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._committing = asyncio.Lock()
        self._hurried = asyncio.Event()
        self._metadata_bytes = METADATA_BYTES
        self._trouble = ""

    async def run(self) -> None:
        """Take part until cancelled; then hand over and leave, within a deadline."""
        while True:
            self._leaving.clear()
            self._part = asyncio.create_task(self._take_part())
            try:
                await asyncio.wait({self._part})
            finally:
                self.restart()
                await asyncio.wait({self._part})
            self._explain(self._part)
            await self._clock.sleep(_BACKOFF)

    def restart(self) -> None:
        """Leave and join again, after a change of the topic or of the group's commits."""
        if self._part is not None and not self._leaving.is_set():  # to leave must not be interrupted
            self._part.cancel()

    def hurry(self) -> None:
        """Commit finished records at once; records that finish meanwhile share the next commit."""
        self._hurried.set()

    async def commit_for_ever(self) -> None:
        """Commit finished records at intervals, until cancelled."""
        while True:
            await first_of(self._clock.sleep(self._config.commit_interval), self._hurried.wait())
            self._hurried.clear()
            async with self._committing:
                await self._commit(self._buffer.commits())
            await self._clock.sleep(_COMMITS_APART)

    async def prove(self) -> bool:
        """Commit all that has finished now; whether the group took it, so that the partitions are still ours."""
        async with self._committing:
            self._buffer.unconfirmed(self._buffer.partitions)
            return await self._commit(self._buffer.commits())

    async def _take_part(self) -> None:
        while not await has_start(self._cluster, self._group):
            await self._clock.sleep(self._config.refresh)
        consumer = self._make()
        try:
            self._cluster.introduce(consumer._client)  # noqa: SLF001
            await self._call(consumer, consumer.start(), within=self._config.request_timeout, kind="starting")
            self._consumer = consumer
            consumer.subscribe([self._group.topic], listener=_Listener(self))
            await ConsumerPolling(consumer, self._buffer, self._config, self._set_aside, self._call_watch).run()
        finally:
            self._leaving.set()
            within = 3 * (self._config.request_timeout + _LEAVE_WITHIN)
            # In a task of its own: in one that was cancelled, Python 3.11.2 takes a deadline for another cancellation.
            await self._call(consumer, self._leave(consumer), within=within, kind="leaving")

    async def _call(self, consumer: Any, work: Coroutine[Any, Any, None], *, within: float, kind: str) -> None:
        cut = partial(disconnect, consumer._client)  # noqa: SLF001
        await self._call_watch.call(work, within=within, client=consumer, cut=cut, kind=kind)

    def _make(self) -> Any:
        config = self._config
        # An answer to a request to join takes as long as the slowest of the others to hand over.
        self._assignor = _sticky_assignor()
        patience = config.rebalance_timeout + config.request_timeout
        options = self._options | {"request_timeout_ms": milliseconds(patience)}
        return AIOKafkaConsumer(
            **options,
            group_id=self._group.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if config.read_committed else "read_uncommitted",
            partition_assignment_strategy=(self._assignor,),
            session_timeout_ms=milliseconds(config.session_timeout),
            heartbeat_interval_ms=milliseconds(config.heartbeat_interval),
            rebalance_timeout_ms=milliseconds(config.rebalance_timeout),
            max_poll_interval_ms=milliseconds(config.max_poll_interval),
            max_partition_fetch_bytes=_PARTITION_BYTES,
            fetch_max_bytes=config.buffer_bytes,
            consumer_timeout_ms=1000,
            retry_backoff_ms=milliseconds(_CLIENT_BACKOFF),
            metadata_max_age_ms=30_000,
        )

    async def _leave(self, consumer: Any) -> None:
        """Commit finished records, and leave the group."""
        await self._stop_starting()
        self._buffer.withhold(list(self._buffer.partitions))
        await self._last_commit()
        self._drop()
        self._consumer = None
        await stop_consumer(consumer, _LEAVE_WITHIN)

    def _explain(self, part: asyncio.Task[None]) -> None:
        """Say why it has to join again."""
        if part.cancelled():
            return
        error = part.exception()
        if isinstance(error, _TROUBLE):
            text = str(describe(error))
            level = logging.DEBUG if text == self._trouble else logging.INFO
            _log.log(level, "kafka: group %s is joined again: %s", self._group.name, text)
            self._trouble = text
        elif error is not None:
            _log.error("kafka: group %s is joined again", self._group.name, exc_info=error)

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with partitions, as soon as it is known where."""
        if self._consumer is None:
            return
        self._trouble = ""
        self._consumer.pause(*partitions)
        coordinator = self._consumer._coordinator  # noqa: SLF001 - aiokafka has no public way to get the member id
        self._member = Member(coordinator.generation, coordinator.member_id)
        self._assignor.on_generation_assignment(self._member.generation)
        numbers = sorted(partition.partition for partition in partitions)
        self._starting = asyncio.create_task(self._start(self._consumer, self._member, numbers))

    async def revoked(self) -> None:
        """Hand over: wait for records that were handed out, within the drain time-out, and commit them."""
        await self._stop_starting()
        partitions = list(self._buffer.partitions)
        self._buffer.withhold(partitions)
        if partitions and await self._last_commit():
            await self._drain()
            await self._last_commit()
        self._drop()

    async def _drain(self) -> None:
        await first_of(self._buffer.drained(), self._leaving.wait(), within=self._config.drain_timeout)

    async def _start(self, consumer: Any, member: Member, partitions: list[int]) -> None:
        while True:
            try:
                async with asyncio.timeout(self._config.ensure_timeout):
                    await self._try_to_start(consumer, member, partitions)
            except NotStarted:
                self.restart()
            except (*_GONE_ON, kafka.RebalanceInProgressError, kafka.IllegalStateError):
                pass  # they were taken away again
            except _TROUBLE as error:
                _log.debug("kafka: group %s: not started yet: %s", self._group.name, describe(error))
                await self._clock.sleep(_BACKOFF)
                continue
            return

    async def _try_to_start(self, consumer: Any, member: Member, partitions: list[int]) -> None:
        found = await windows(self._cluster, self._group, partitions, self._config.window)
        if not found:
            return
        await self._send(member, {number: window.ownership() for number, window in found.items()})
        for number, window in found.items():
            self._buffer.open(number, window)
            consumer.seek(TopicPartition(self._group.topic, number), window.next)
        consumer.resume(*(TopicPartition(self._group.topic, number) for number in found))

    async def _stop_starting(self) -> None:
        task, self._starting = self._starting, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _last_commit(self) -> bool:
        """Commit all there is; whether Kafka took it."""
        async with self._committing:
            return await self._commit(self._buffer.last_commits())

    async def _commit(self, commits: dict[int, Commit]) -> bool:
        """Commit, and take note of it; what could not be committed will be again. Whether Kafka took it."""
        if not commits or self._member is None:
            return False
        try:
            async with asyncio.timeout(self._config.request_timeout):
                await self._send(self._member, commits)
        except _GONE_ON:
            self._drop()
            return False
        except kafka.OffsetMetadataTooLargeError:
            _log.warning("kafka: the broker's offset.metadata.max.bytes is below 4096; a takeover repeats more")
            self._metadata_bytes = _NO_BITMAP
        except _TROUBLE as error:
            _log.debug("kafka: group %s: not committed: %s", self._group.name, describe(error))
        else:
            self._buffer.confirm(commits)
            return True
        self._buffer.unconfirmed(commits.keys())
        return False

    async def _send(self, member: Member, commits: dict[int, Commit]) -> None:
        group = self._group
        await commit(self._cluster, group.name, group.topic, commits, member, limit=self._metadata_bytes)

    def _drop(self) -> None:
        """Have no part in the partitions any more: the group gives them to others."""
        self._member = None
        self._buffer.drop()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Receives aiokafka's calls when partitions are assigned and revoked."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:  # noqa: ARG002 - it is all
        await self._membership.revoked()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._membership.assigned(assigned)


def _sticky_assignor() -> Any:
    """Return a sticky assignor for one consumer.

    The client library's own keeps what a consumer had on the class, where all consumers of a process overwrite it;
    a class for each keeps them apart. Nor does the library ever pass it the generation, by which it settles who had a
    partition last: ``on_generation_assignment`` has to be called after each rebalance.
    """
    return type("SubscriptionAssignor", (StickyPartitionAssignor,), {})
