"""The gauges that are set when somebody asks: spools, brokers, what is degraded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bus.bootstrap import Context, Fill, Introspection, RoleServices
from bus.domain.health.progress import Progress
from bus.domain.health.vitals import CertificateFigures
from bus.domain.lanes import STORE, destination_of
from bus.domain.ordering.chain import Role
from bus.localized_text import AnyText, localized
from bus.ports.spool import ConsumerStats, Spool, SpoolTotals
from bus.ports.transport import HeldMessages, Lag, Publisher
from bus.telemetry import labels, metrics
from bus.transports.router import Lags

# Shown also before anything was there.
_ALWAYS: Final = (("receiver", "publish"), ("receiver", "store"), ("outcomes", "store"))


def spool_offers(context: Context) -> RoleServices:
    """Return the meters and the conditions of a process's spools."""
    spools = context.spools.items()
    return RoleServices(
        meters=(partial(_measure_spools, context),),
        conditions={f"spool {name}": partial(_spool_trouble, spool) for name, spool in spools},
    )


async def measured(context: Context, introspection: Introspection) -> list[Fill]:
    """Take all measurements of a process, and return the functions that set its gauges."""
    offers = introspection.offers
    fills = [meter() for meter in offers.meters]
    fills += [await meter() for meter in offers.async_meters]
    lags = context.router.lags()
    fills += [_measure_broker(publisher, lags.get(name)) for name, publisher in context.router.publishers.items()]
    fills.append(partial(_fill_certificates, offers.certificates(), context.clock.now()))
    fills.append(partial(_fill_held, context.router.held()))
    fills.append(partial(_fill_progress, dict(context.router.progress())))
    fills.append(partial(_fill_roles, context.chains.roles_held()))
    fills.append(partial(_fill_own_roles, context.members.me.roles))
    return [*fills, partial(_fill_health, introspection.health()["checks"])]


def _fill_health(checks: Sequence[Mapping[str, Any]]) -> None:
    for check in checks:
        metrics.DEGRADED.labels(check["name"]).set(not check["ok"])
        if check["name"] == "store":
            metrics.STORE_UP.set(check["ok"])


def _fill_own_roles(roles: Collection[str]) -> None:
    for role in roles:
        metrics.ROLE.labels(role).set(1)


def _fill_certificates(found: Sequence[CertificateFigures], now: int) -> None:
    for one in found:
        metrics.CERTIFICATE_LEFT.labels(one.host).set((one.not_after - now) / 1000)


def _fill_held(found: Mapping[tuple[str, str, str], HeldMessages]) -> None:
    for (code, name, transport), held in found.items():
        for state, count in held._asdict().items():
            metrics.BROKER_HELD.labels(*labels.SUBSCRIPTIONS.of(code, name), transport, state).inc(count)


def _fill_progress(found: Mapping[tuple[str, str], Progress]) -> None:
    for key, progress in found.items():
        metrics.PROGRESS.labels(*labels.SUBSCRIPTIONS.of(*key)).set(progress.verdict.rank)


def _fill_roles(held: Mapping[str, Collection[Role]]) -> None:
    for code, roles in held.items():
        for role in Role:
            metrics.CHAIN_ROLE.labels(*labels.DESTINATIONS.of(code), role.value).set(role in roles)


def _measure_spools(context: Context) -> Fill:
    spools = {name: (spool.totals(), spool.waiting()) for name, spool in context.spools.items()}
    return partial(_fill_spools, spools, context.registry.catalog.subscriptions, context.clock.now())


def _fill_spools(
    spools: Mapping[str, tuple[SpoolTotals, Sequence[ConsumerStats]]],
    subscriptions: Collection[tuple[str, str]],
    now: int,
) -> None:
    queues = [("direct", "/".join(labels.SUBSCRIPTIONS.of(*key))) for key in subscriptions]
    waiting: dict[tuple[str, str], tuple[int, int | None]] = {
        label: (0, None) for label in (*_ALWAYS, *queues) if label[0] in spools
    }
    for name, (totals, consumers) in spools.items():
        metrics.SPOOL_BYTES.labels(name).set(totals.bytes)
        metrics.SPOOL_LIMIT.labels(name).set(totals.limit)
        metrics.SPOOL_DAMAGED.labels(name).set(totals.damaged)
        for found in consumers:
            label = _label(name, found)
            count, oldest = waiting.get(label, (0, None))
            times = [time for time in (oldest, found.oldest) if time is not None]
            waiting[label] = (count + found.records, min(times, default=None))
    for label, (count, oldest) in waiting.items():
        metrics.SPOOL_RECORDS.labels(*label).set(count)
        metrics.SPOOL_OLDEST.labels(*label).set((now - oldest) / 1000 if oldest is not None else 0)


def _label(name: str, found: ConsumerStats) -> tuple[str, str]:
    """Return what a consumer counts under: messages are the receiver's, also those that the direct queue holds."""
    if name != "direct":
        return name, found.consumer
    if found.consumer == STORE:
        return "receiver", "store"
    return name, "/".join(labels.SUBSCRIPTIONS.of(destination_of(found.lane), found.consumer))


def _measure_broker(publisher: Publisher, lags: Lags | None) -> Fill:
    return partial(_fill_broker, publisher.name, dict(publisher.conditions()), dict(lags or {}))


def _fill_broker(name: str, clusters: Mapping[str, AnyText], lags: Mapping[tuple[str, str], Lag]) -> None:
    for cluster, trouble in clusters.items():
        metrics.BROKER_UP.labels(cluster).set(not trouble)
    for key, lag in lags.items():
        metrics.BACKLOG.labels(*labels.SUBSCRIPTIONS.of(*key), name, "").inc(lag.records)


def _spool_trouble(spool: Spool) -> AnyText:
    totals = spool.totals()
    if totals.bytes >= totals.limit:
        return localized("full: new messages are refused, nothing stored is lost")
    if totals.damaged:
        return localized("{count} damaged records were set aside", count=totals.damaged)
    return ""
