"""Opens what the settings name, and closes it."""

from __future__ import annotations

import asyncio
import random
import secrets
import shutil
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bus.bootstrap.brokers import open_brokers
from bus.bootstrap.context import Context
from bus.bootstrap.store import check_store, open_store
from bus.clock import SystemClock
from bus.ports.clock import Clock
from bus.ports.spool import Spool
from bus.ports.transport import Transport
from bus.posters.http import HttpPoster
from bus.posters.pool import PoolLimits
from bus.registry import COLLECTIONS, Registry
from bus.security.egress import EgressPolicy
from bus.security.keyring import KEYS, USERS, Keyring
from bus.security.secrets import SecretBox
from bus.settings import Settings
from bus.spool import AsyncSpool
from bus.stores.snapshot import Snapshot
from bus.stores.sqlite import SqliteStore
from bus.telemetry import metrics
from bus.transports.direct import DirectTransport
from bus.transports.quarantine import OPERATOR, SpoolQuarantine
from bus.transports.roads import Roads

VERSION: Final = version("pier-bus")
# Many subscriptions may share a host, each with its own max_concurrency.
_POOL: Final = PoolLimits(per_host=2048, total=8192)
# Each spool with the consumers that every one of its lanes has.
_SPOOLS: Final = {
    "receiver": ("publish", "store"),
    "direct": (),
    "outcomes": ("store",),
    "quarantine": (OPERATOR,),
}


@asynccontextmanager
async def open_context(settings: Settings) -> AsyncIterator[Context]:
    """Open stores, spools and roads under the data directory, and close them in the opposite order.

    Raises
    ------
    SpoolLocked
        Another process works on this data directory.
    """
    clock = SystemClock()
    data = settings.data
    async with AsyncExitStack() as opened:
        store = await open_store(settings, clock)
        opened.push_async_callback(store.close)
        spools: dict[str, Spool] = {}
        for name, consumers in _SPOOLS.items():
            spools[name] = await _open_spool(data / name, settings, consumers)
            opened.push_async_callback(spools[name].close)
        egress = _egress(settings)
        poster = HttpPoster(egress, pool_limits=_POOL)
        opened.push_async_callback(poster.close)
        kept = Snapshot(store, data / "configuration", COLLECTIONS | {KEYS, USERS})
        registry = Registry(kept, SecretBox(settings.secret_key or None), lambda: kept.is_old)
        keyring = Keyring(kept, clock.now)
        node = settings.node or socket.gethostname()
        metrics.BUILD_INFO.labels(VERSION, node).set(1)
        quarantine = SpoolQuarantine(spools["quarantine"], clock)
        transports = [DirectTransport(spools["direct"]), *open_brokers(settings, quarantine, clock)]
        roads = await opened.enter_async_context(_open_roads(transports, clock))
        registry.listen(roads.apply)
        await registry.load()
        await keyring.load()
        yield Context(
            settings=settings,
            node=node,
            owner=_owner(data),
            started_at=clock.now(),
            clock=clock,
            noise=random.random,
            store=store,
            registry=registry,
            keyring=keyring,
            roads=roads,
            poster=poster,
            egress=egress,
            spools=spools,
        )


@asynccontextmanager
async def _open_roads(transports: Sequence[Transport], clock: Clock) -> AsyncIterator[Roads]:
    """Keep the roads up while this is open."""
    roads = Roads(transports, clock)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(roads.run())
        try:
            yield roads
        finally:
            running.cancel()
    for transport in transports:
        await transport.close()


@asynccontextmanager
async def open_offline_keyring(data: Path) -> AsyncIterator[Keyring]:
    """Open the keys and users of a data directory without its bus, for ``bus key create --data``."""
    store = await SqliteStore.open(data / "store")
    try:
        keyring = Keyring(store, SystemClock().now)
        await keyring.load()
        yield keyring
    finally:
        await store.close()


def _owner(data: Path) -> str:
    """Return the name under which this data directory's process leases, made once and kept there."""
    path = data / "owner"
    if not path.exists():
        path.write_text(secrets.token_hex(16), "ascii")
    return path.read_text("ascii")


def _egress(settings: Settings) -> EgressPolicy:
    """Return the policy: on a loopback bind address subscribers may be on loopback as well."""
    return EgressPolicy(
        _entries(settings.egress_allow), _entries(settings.egress_deny), allow_loopback=settings.is_loopback
    )


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _reserve(settings: Settings) -> int:
    """Return the free disk kept for outcomes."""
    settings.data.mkdir(parents=True, exist_ok=True)
    return settings.reserve(shutil.disk_usage(settings.data).total)


async def _open_spool(directory: Path, settings: Settings, consumers: tuple[str, ...]) -> AsyncSpool:
    return await AsyncSpool.open(directory, consumers=consumers, limit=settings.spool_limit, reserve=_reserve(settings))


def check_settings(settings: Settings) -> None:
    """Raise ``ConfigurationError`` for what a start would refuse; opens and makes nothing."""
    check_store(settings)
    _egress(settings)
