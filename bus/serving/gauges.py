"""The gauges that are set when somebody asks: spools, brokers, what is degraded."""

from __future__ import annotations

from functools import partial

from bus.bootstrap import Context
from bus.ports.spool import Spool
from bus.ports.transport import Transport
from bus.telemetry import metrics


def watch_spools(context: Context) -> None:
    """Have the spools of a process measured, and their trouble named."""
    for name, spool in context.spools.items():
        context.meters.append(partial(_measure_spool, context, name, spool))
        context.conditions[f"spool {name}"] = partial(_spool_trouble, spool)


def sample(context: Context) -> None:
    """Set all gauges of a process anew."""
    for gauge in metrics.SAMPLED:
        gauge.clear()
    for meter in context.meters:
        meter()
    for transport in context.roads.transports:
        _measure_broker(transport)
    for check in context.health()["checks"]:
        metrics.DEGRADED.labels(check["name"]).set(not check["ok"])
        if check["name"] == "store":
            metrics.STORE_UP.set(check["ok"])


def _measure_spool(context: Context, name: str, spool: Spool) -> None:
    stats = spool.stats()
    metrics.SPOOL_BYTES.labels(name).set(stats.bytes)
    metrics.SPOOL_DAMAGED.labels(name).set(stats.damaged)
    waiting: dict[str, tuple[int, int | None]] = {}
    for found in stats.consumers:
        label = f"{found.lane}/{found.consumer}" if name == "direct" else found.consumer
        count, oldest = waiting.get(label, (0, None))
        times = [time for time in (oldest, found.oldest) if time is not None]
        waiting[label] = (count + found.records, min(times, default=None))
        if name == "direct":
            metrics.BACKLOG.labels(found.lane, found.consumer, "direct", "").set(found.records)
    now = context.clock.now()
    for label, (count, oldest) in waiting.items():
        metrics.SPOOL_RECORDS.labels(name, label).set(count)
        metrics.SPOOL_OLDEST.labels(name, label).set((now - oldest) / 1000 if oldest is not None else 0)


def _measure_broker(transport: Transport) -> None:
    clusters = transport.conditions()
    for cluster, trouble in clusters.items():
        metrics.BROKER_UP.labels(cluster).set(not trouble)
    if clusters:
        for (code, name), lag in (transport.lags() or {}).items():
            metrics.BACKLOG.labels(code, name, transport.name, "").set(lag.records)


def _spool_trouble(spool: Spool) -> str:
    stats = spool.stats()
    if stats.bytes >= stats.limit:
        return "full: new messages are refused, nothing stored is lost"
    if stats.damaged:
        return f"{stats.damaged} damaged records were set aside"
    return ""
