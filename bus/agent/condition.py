"""The health of an agent: connection to the receiver, disk, and spool."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Metric, generate_latest

from bus.agent.options import AgentOptions
from bus.client import Bus
from bus.client.sending.sender import rejected
from bus.client.spooling.lanes import OUT, REJECTED
from bus.error_texts import error_text, peer_name
from bus.errors import SpoolError
from bus.ports.spool import SpoolStats
from bus.telemetry import metrics

_FRESH: Final = 1.0
"""Seconds for which a look is told again: however many ask, they cost little."""
_CONNECT: Final = 1.0
_SPOOL: Final = "agent"
_SENDING: Final = "send"
# What an agent tells, of all that processes of a bus do.
_TOLD: Final = ("bus_agent_", "bus_build_info", "bus_degraded", "bus_spool_", "process_")


class Condition:
    """Looks at an agent, at most once a second; for one loop."""

    def __init__(self, bus: Bus, options: AgentOptions) -> None:
        self._bus = bus
        self._options = options
        self._looking = asyncio.Lock()
        self._troubles: dict[str, str] = {}
        self._fresh_until = float("-inf")

    async def health(self) -> dict[str, Any]:
        """Return a line for each part: its name, whether it is well, and what is wrong."""
        async with self._looking:
            troubles = await self._looked()
        checks = [{"name": name, "ok": not trouble, "detail": trouble} for name, trouble in troubles.items()]
        return {"status": "degraded" if any(troubles.values()) else "ok", "checks": checks}

    async def metrics(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        async with self._looking:  # the gauges are the process's: another scrape would take them away meanwhile
            return await asyncio.to_thread(self._text, await self._looked())

    async def _looked(self) -> dict[str, str]:
        now = asyncio.get_running_loop().time()
        if now >= self._fresh_until:
            disk, refused = await asyncio.to_thread(self._disk)
            self._troubles = {"receiver": await self._receiver(), "spool": disk, "rejected": refused}
            self._fresh_until = now + _FRESH
        return self._troubles

    async def _receiver(self) -> str:
        """Return what is wrong with the receiver: what sending to it has met, else whether it takes a connection."""
        outbox = self._bus.present()
        if outbox is not None and outbox.trouble:
            return outbox.trouble
        parts = urlsplit(self._options.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(_CONNECT):
                _, writer = await asyncio.open_connection(parts.hostname, port)
                writer.close()
        except (OSError, TimeoutError) as error:
            why = error_text(error, peer_name(parts.hostname or "", port))
            return f"receiver unavailable: {why}; messages wait on disk"
        return ""

    def _disk(self) -> tuple[str, str]:
        """Return what is wrong with the disk, and what is kept for a person; reads files."""
        try:
            stats = self._stats()
        except SpoolError as error:
            return str(error), ""
        disk = "it refuses messages, which go straight to the receiver" if self._bus.straight.refused else ""
        if not disk and stats.damaged:
            disk = f"{stats.damaged} damaged records were set aside"
        count = rejected(stats)
        refused = f"messages that the receiver refused for good, and are kept: {count}; see bus spool show"
        return disk, refused if count else ""

    def _stats(self) -> SpoolStats:
        outbox = self._bus.present()
        return SpoolStats(0, 0, 0, 0, []) if outbox is None else outbox.stats()

    def _text(self, troubles: dict[str, str]) -> bytes:
        for gauge in metrics.SAMPLED:
            gauge.clear()
        for name, trouble in troubles.items():
            metrics.DEGRADED.labels(name).set(bool(trouble))
        try:
            self._fill(self._stats())
        except SpoolError:
            metrics.DEGRADED.labels("spool").set(1)
        return generate_latest(_AgentMetrics())

    def _fill(self, stats: SpoolStats) -> None:
        metrics.SPOOL_BYTES.labels(_SPOOL).set(stats.bytes)
        metrics.SPOOL_LIMIT.labels(_SPOOL).set(stats.limit)
        metrics.SPOOL_DAMAGED.labels(_SPOOL).set(stats.damaged)
        now = self._bus.now()
        for consumer, lanes in ((_SENDING, OUT), (REJECTED, REJECTED)):
            found = [one for one in stats.consumers if one.lane.startswith(lanes)]
            oldest = min((one.oldest for one in found if one.records and one.oldest is not None), default=now)
            metrics.SPOOL_RECORDS.labels(_SPOOL, consumer).set(sum(one.records for one in found))
            metrics.SPOOL_OLDEST.labels(_SPOOL, consumer).set(max(0, now - oldest) / 1000)


class _AgentMetrics(CollectorRegistry):
    """The metrics of an agent."""

    def collect(self) -> Iterator[Metric]:
        """Yield them."""
        return (metric for metric in metrics.REGISTRY.collect() if metric.name.startswith(_TOLD))
