"""Opens what the settings name, and closes it."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from bus.bootstrap.brokers import open_brokers
from bus.bootstrap.context import Context
from bus.bootstrap.events import check_events, open_events
from bus.bootstrap.identity import claim_name
from bus.bootstrap.store import check_store, is_new, open_store
from bus.clock import SystemClock
from bus.cluster.handover import HandoverTransport, RemoteDispatching
from bus.cluster.kept import ViewFile
from bus.cluster.member import Member, node_of
from bus.cluster.members import Members
from bus.cluster.peers import PeerKey, Peers
from bus.cluster.waiting import unstored
from bus.domain.catalog import Catalog
from bus.errors import ConfigurationError, StoreError, StoreUnavailable
from bus.events.emitter import Emitter
from bus.files import make_directory
from bus.ports.clock import Clock
from bus.ports.spool import Spool
from bus.ports.transport import Transport
from bus.posters.http import HttpPoster
from bus.posters.pool import PoolLimits
from bus.registry import COLLECTIONS, MARK, Listener, Registry
from bus.security.egress import EgressPolicy
from bus.security.keyring import KEYS, USERS, Keyring
from bus.security.secrets import SecretBox
from bus.settings import Settings
from bus.spool import AsyncSpool
from bus.stores.rollups import Rollups
from bus.stores.snapshot import Snapshot, read_kept
from bus.telemetry import metrics
from bus.transports.direct import DirectTransport
from bus.transports.quarantine import OPERATOR, NoQuarantine, SpoolQuarantine
from bus.transports.router import TransportRouter

_log = logging.getLogger(__name__)
VERSION: Final = version("pier-bus")
# Many subscriptions may share a host, each with its own max_concurrency.
_POOL: Final = PoolLimits(per_host=2048, total=8192)


class _Queue(NamedTuple):
    """A spool: whose it is, and the consumers that every one of its lanes has."""

    role: str
    consumers: tuple[str, ...]


_SPOOLS: Final = {
    "receiver": _Queue("receiver", ("publish", "store")),
    "direct": _Queue("dispatcher", ()),
    "outcomes": _Queue("dispatcher", ("store",)),
    "quarantine": _Queue("dispatcher", (OPERATOR,)),
}


@asynccontextmanager
async def open_context(settings: Settings, roles: Sequence[str], url: str) -> AsyncIterator[Context]:
    """Open stores, spools and transports under the data directory, and close them in the opposite order.

    Parameters
    ----------
    roles
        What this process does; spools that none of them needs are left to others.
    url
        Where other processes of the bus reach this one.

    Raises
    ------
    ConfigurationError
        Others than this machine could reach the bus, and nobody has a key; nothing was made, and no process joined.
    SpoolLocked
        Another process works on this data directory in one of the roles.
    """
    clock = SystemClock()
    _refuse_strangers(
        settings, is_open=is_new(settings) and not any(read_kept(settings.data, name) for name in (KEYS, USERS))
    )
    async with AsyncExitStack() as opened:
        store = await open_store(settings, clock)
        opened.push_async_callback(store.close)
        kept = Snapshot(store, settings.data, COLLECTIONS | {KEYS, USERS}, MARK)
        with suppress(StoreUnavailable):  # it is looked at again as soon as it answers
            await kept.restore()
        keyring = Keyring(kept, clock.now)
        await keyring.load()
        _refuse_strangers(settings, is_open=keyring.is_open)
        spools = await _open_spools(settings, roles, opened)
        egress = _egress(settings)
        poster = HttpPoster(egress, pool_limits=_POOL)
        opened.push_async_callback(poster.close)
        peer_key = PeerKey(kept, clock)
        peers = Peers(peer_key)
        opened.push_async_callback(peers.close)
        box = SecretBox(settings.secret_key or None, settings.secret_key_old or None)
        registry = Registry(kept, box, lambda: kept.is_old)
        me = Member(
            owner=opened.enter_context(claim_name(settings.data, roles)),
            node=settings.node or node_of(socket.gethostname(), url),
            url=settings.advertise or url,
            roles=tuple(roles),
            version=VERSION,
            started_at=clock.now(),
        )
        events = open_events(settings, me, _reserve(settings), clock)
        metrics.BUILD_INFO.labels(VERSION, me.node).set(1)
        members = Members(store, clock, me, peers.lives, ViewFile(settings.data / "permits.json"))
        transports = _transports(settings, spools, HandoverTransport(members, peers), registry, clock)
        # What is opened until here may refuse the start, in its own words.
        await opened.enter_async_context(_keeping(kept, clock))
        router = await opened.enter_async_context(_open_router(transports, clock))
        context = Context(
            settings=settings,
            node=me.node,
            owner=me.owner,
            clock=clock,
            noise=random.random,
            store=store,
            registry=registry,
            keyring=keyring,
            router=router,
            poster=poster,
            egress=egress,
            spools=spools,
            members=members,
            peer_key=peer_key,
            peers=peers,
            dispatching=RemoteDispatching(members, peers, clock),
            rollups=Rollups(store, clock, me.owner, partial(unstored, spools)),
            events=events,
        )
        if isinstance(events, Emitter):
            context.conditions["events"] = lambda: events.trouble
            await opened.enter_async_context(_emitting(events))
        context.conditions["configuration"] = lambda: registry.trouble
        context.conditions["clocks"] = lambda: members.clocks
        if me.is_dispatcher:
            context.conditions["permits"] = lambda: members.trouble
        members.describe = lambda _: context.described()
        registry.listen(_choosing(registry, router))
        registry.listen(router.apply)
        registry.listen(_telling(members))
        # First, so that the secret is in the snapshot of all settings that the registry reads.
        await _load(peer_key)
        await registry.load()
        await opened.enter_async_context(_counting(context.rollups))
        await opened.enter_async_context(_membership(members))
        yield context


def _refuse_strangers(settings: Settings, *, is_open: bool) -> None:
    if is_open and not settings.is_loopback:
        raise ConfigurationError(
            f"binding to {settings.host} needs a key or a user first",
            hint=f"bus key create --role admin --data {settings.data}",
        )


async def _load(peer_key: PeerKey) -> None:
    try:
        await peer_key.load()
    except StoreError as error:
        _log.warning("the secret of the bus's processes is read later: %s", error)


def _choosing(registry: Registry, router: TransportRouter) -> Listener:
    """Return what has messages published to the cluster that a person wants."""

    async def listener(_: Catalog) -> None:
        router.preference.prefer(registry.preference.cluster)

    return listener


def _telling(members: Members) -> Listener:
    """Return what tells the other processes at once that another configuration is in force here."""

    async def listener(_: Catalog) -> None:
        members.hurry()

    return listener


@asynccontextmanager
async def _membership(members: Members) -> AsyncIterator[None]:
    """Be one of the bus while this is open."""
    await members.join()
    async with _beside(members.run()):
        yield
    await members.leave()


@asynccontextmanager
async def _keeping(kept: Snapshot, clock: Clock) -> AsyncIterator[None]:
    """Write changes of the configuration to this process's disk while this is open, and the last of them at the end."""
    async with _beside(kept.run(clock)):
        yield
    await kept.write()


@asynccontextmanager
async def _emitting(events: Emitter) -> AsyncIterator[None]:
    """Write trace events while this is open, and the last of them at the end."""
    async with _beside(events.run()):
        yield
    await events.close()


@asynccontextmanager
async def _counting(rollups: Rollups) -> AsyncIterator[None]:
    """Write statistics while this is open, and the last of them at the end."""
    async with _beside(rollups.run()):
        yield
    await rollups.close()


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have work done while this is open; its failure ends what is inside."""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(work)
        try:
            yield
        finally:
            running.cancel()


def _transports(
    settings: Settings, spools: Mapping[str, Spool], handover: HandoverTransport, registry: Registry, clock: Clock
) -> list[Transport]:
    """Return all transports: with a dispatcher the direct one ends here, without at another process."""
    if "direct" not in spools:
        return [handover, *open_brokers(settings, NoQuarantine(), clock)]
    quarantine = SpoolQuarantine(spools["quarantine"], clock)
    return [DirectTransport(spools["direct"], registry.spool_share), *open_brokers(settings, quarantine, clock)]


async def _open_spools(settings: Settings, roles: Sequence[str], opened: AsyncExitStack) -> dict[str, Spool]:
    spools: dict[str, Spool] = {}
    for name, queue in _SPOOLS.items():
        if queue.role in roles:
            spools[name] = await _open_spool(settings.data / name, settings, queue.consumers)
            opened.push_async_callback(spools[name].close)
    return spools


@asynccontextmanager
async def _open_router(transports: Sequence[Transport], clock: Clock) -> AsyncIterator[TransportRouter]:
    """Keep the transports up while this is open."""
    router = TransportRouter(transports, clock)
    async with _beside(router.run()):
        yield router
    for transport in transports:
        await transport.close()


@asynccontextmanager
async def open_offline_keyring(settings: Settings) -> AsyncIterator[Keyring]:
    """Open the keys and users in the store that the settings name, without a bus, for ``bus key create --data``."""
    clock = SystemClock()
    store = await open_store(settings, clock)
    try:
        keyring = Keyring(store, clock.now)
        await keyring.load()
        yield keyring
    finally:
        await store.close()


def _egress(settings: Settings) -> EgressPolicy:
    """Return the policy: on a loopback bind address subscribers may be on loopback as well."""
    return EgressPolicy(
        _entries(settings.egress_allow), _entries(settings.egress_deny), allow_loopback=settings.is_loopback
    )


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _reserve(settings: Settings) -> int:
    """Return the free disk kept for outcomes."""
    make_directory(settings.data)
    return settings.reserve(shutil.disk_usage(settings.data).total)


async def _open_spool(directory: Path, settings: Settings, consumers: tuple[str, ...]) -> AsyncSpool:
    return await AsyncSpool.open(directory, consumers=consumers, limit=settings.spool_limit, reserve=_reserve(settings))


def check_settings(settings: Settings) -> None:
    """Raise ``ConfigurationError`` for what a start would refuse; opens and makes nothing."""
    check_store(settings)
    check_events(settings)
    _egress(settings)
