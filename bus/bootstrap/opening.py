"""Opens what the settings name, and closes it."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bus.bootstrap.brokers import open_brokers, open_groups
from bus.bootstrap.common import SharedResources
from bus.bootstrap.context import Context
from bus.bootstrap.coordinator import open_coordinator
from bus.bootstrap.data_format import note_format, refuse_newer
from bus.bootstrap.events import check_events, open_events
from bus.bootstrap.feeding import make_feed
from bus.bootstrap.identity import claim_name, former_of, gone_from
from bus.bootstrap.introspection import Introspection
from bus.bootstrap.restored import refuse_half_restored
from bus.bootstrap.role_services import RoleServices, offers_of
from bus.bootstrap.spans import check_spans, open_spans
from bus.bootstrap.spools import open_spools
from bus.bootstrap.store import check_store, is_new, open_store
from bus.clock import SystemClock
from bus.cluster.cluster_backlog import holds_any, unstored
from bus.cluster.configuration import ConfigurationFollower
from bus.cluster.handover_publisher import HandoverPublisher
from bus.cluster.leaders import Leaders
from bus.cluster.member import Member, node_of
from bus.cluster.members import Members
from bus.cluster.peers import LONGEST_ANSWER, PeerKey, Peers
from bus.cluster.saved_views import ViewsFile
from bus.cluster.writing_again import WritingAgain
from bus.domain.catalog import Catalog
from bus.domain.ordering.chain import Role
from bus.domain.ordering.tenure import terms_of
from bus.domain.own_events import CODE
from bus.errors import ConfigurationError, StoreError, StoreUnavailable
from bus.events.emitter import Emitter
from bus.files import make_directory, most_open_files
from bus.network.descriptors import Descriptors
from bus.ports.clock import Clock
from bus.ports.concurrency_slots import OWN_SLOTS
from bus.ports.quarantine import Quarantine
from bus.ports.spans import NO_SPANS
from bus.ports.spool import Spool
from bus.ports.store import Store
from bus.ports.transport import Transport
from bus.posters.answer import AnswerLimits
from bus.posters.connection import Limits
from bus.posters.http import HttpPoster
from bus.posters.pool import PoolLimits
from bus.registry import COLLECTIONS, MARK, Listener, Registry
from bus.security.egress import EgressPolicy
from bus.security.keyring import KEYS, USERS, Keyring
from bus.security.secrets import SecretBox
from bus.settings import Settings
from bus.stores.own_events import OwnEvents
from bus.stores.rollups import Rollups
from bus.stores.snapshot import Snapshot, read_kept
from bus.telemetry import metrics
from bus.transports.chains.chains import Chains
from bus.transports.chains.transport import ChainTransport
from bus.transports.direct import DirectTransport
from bus.transports.quarantine import NoQuarantine, SpoolQuarantine
from bus.transports.router import TransportRouter

_log = logging.getLogger(__name__)
VERSION: Final = version("pier-bus")
_PERMITS: Final = "permits.json"
# Many subscriptions may share a host, each with its own max_concurrency.
_POOL: Final = PoolLimits(per_host=2048, total=8192)
_REACHED_WITHIN: Final = 1.0


@asynccontextmanager
async def open_context(
    settings: Settings,
    roles: Sequence[str],
    url: str,
    left: Sequence[Path] = (),
    common: SharedResources | None = None,
) -> AsyncIterator[Context]:
    """Open stores, spools and transports under the data directory, and close them in the opposite order.

    Parameters
    ----------
    roles
        What this process does; spools that none of them needs are not opened.
    url
        Where other processes of the bus reach this one.
    left
        Data directories of processes that do not come back.
    common
        What several processes of one port have together; None for a process alone.

    Raises
    ------
    ConfigurationError
        Other machines could reach the bus, and there is no key yet; a restore into the data directory has not ended; or
        a newer bus wrote there. Nothing was made, and no process joined.
    SpoolLocked
        Another process works on this data directory in one of the roles.
    """
    refuse_half_restored(settings.data)
    refuse_newer(settings)
    clock = SystemClock()
    async with AsyncExitStack() as opened:
        store, kept, keyring = await _open_store(settings, clock, opened)
        note_format(settings.data, VERSION)
        reserve = _reserve(settings)
        spools = await open_spools(settings.data, roles, settings.spool_limit, reserve, opened, left)
        for gone in left:  # whoever gets this directory again begins anew
            (gone / _PERMITS).unlink(missing_ok=True)
        egress = _egress(settings)
        descriptors = Descriptors(most_open_files(), clock.monotonic)
        poster = HttpPoster(egress, pool_limits=_POOL, descriptors=descriptors)
        opened.push_async_callback(poster.close)
        peer_key = PeerKey(kept, clock)
        to_peers = peer_poster()
        opened.push_async_callback(to_peers.close)
        peers = Peers(peer_key, to_peers)
        box = SecretBox(settings.secret_key or None, settings.secret_key_old or None)
        registry = Registry(kept, box, lambda: kept.is_old)
        owner = opened.enter_context(claim_name(settings.data, roles))
        me = _member(settings, roles, url, owner, common.group if common else "", clock)
        tracing = open_spans(settings, me, clock)
        own_events = OwnEvents(store, lambda: CODE in registry.catalog.destinations)
        former = {name for gone in left for name in gone_from(gone)} | former_of(settings.data, roles)
        rollups = Rollups(store, clock, me.owner, partial(unstored, spools))
        directory = common.directory if common else settings.data
        permits = ViewsFile((directory if me.group else settings.data) / _PERMITS)
        members = Members(store, clock, me, peers.lives, peers.promise, permits)
        leaders = Leaders(store, members, partial(holds_any, spools), clock)
        quarantine = SpoolQuarantine(spools["quarantine"], clock) if "quarantine" in spools else NoQuarantine()
        groups = open_groups(settings, quarantine, clock)
        coordinator = await opened.enter_async_context(open_coordinator(settings, store))
        again = WritingAgain(members, peers)
        chains = Chains(
            coordinator,
            groups,
            me.owner,
            me.url,
            _chain_roles(roles),
            again.ask,
            clock,
            terms_of(settings.strict_takeover),
            is_apart=bool(settings.zookeeper),
        )
        carriers = [ChainTransport(name, found, chains) for name, found in groups.items()]
        context = Context(
            settings=settings,
            node=me.node,
            owner=me.owner,
            clock=clock,
            noise=random.random,
            store=store,
            registry=registry,
            keyring=keyring,
            router=_router(
                settings, spools, HandoverPublisher(members, peers, leaders), registry, quarantine, carriers, clock
            ),
            poster=poster,
            descriptors=descriptors,
            egress=egress,
            spools=spools,
            members=members,
            configuration=(follower := ConfigurationFollower(registry, members, clock)),
            leaders=leaders,
            chains=chains,
            peer_key=peer_key,
            peers=peers,
            rollups=rollups,
            own_events=own_events,
            claims=common.claims(me.owner, former, clock, opened) if common else None,
            slots=common.pool(clock, opened) if common else OWN_SLOTS,
            feed=make_feed(spools, store, registry, rollups, own_events, clock),
            events=open_events(settings, directory, me, reserve, clock),
            spans=tracing.recorder if tracing else NO_SPANS,
        )
        # Whatever is opened above may still refuse the start, with an error of its own.
        if tracing:
            await opened.enter_async_context(_running(tracing.exporter.run(), tracing.exporter.close))
        await _begin(context, follower, kept, opened, former)
        yield context


async def _open_store(settings: Settings, clock: Clock, opened: AsyncExitStack) -> tuple[Store, Snapshot, Keyring]:
    """Open the store, the copy of the configuration on this process's disk, and the keys."""
    _refuse_open_bus(
        settings, is_open=is_new(settings) and not any(read_kept(settings.data, name) for name in (KEYS, USERS))
    )
    store = await open_store(settings, clock)
    opened.push_async_callback(store.close)
    kept = Snapshot(store, settings.data, COLLECTIONS | {KEYS, USERS}, MARK)
    with suppress(StoreUnavailable):  # it is looked at again as soon as it answers
        await kept.restore()
    keyring = Keyring(kept, clock.now)
    await keyring.load()
    _refuse_open_bus(settings, is_open=keyring.is_open)
    return store, kept, keyring


def _member(settings: Settings, roles: Sequence[str], url: str, owner: str, group: str, clock: Clock) -> Member:
    """Return this process as the others know it."""
    node = settings.node or node_of(socket.gethostname(), url)
    metrics.BUILD_INFO.labels(VERSION, node).set(1)
    return Member(
        owner=owner,
        group=group,
        node=node,
        url=settings.advertise or url,
        roles=tuple(roles),
        version=VERSION,
        started_at=clock.now(),
    )


async def _begin(
    context: Context,
    follower: ConfigurationFollower,
    kept: Snapshot,
    opened: AsyncExitStack,
    former: Collection[str],
) -> None:
    """Start the background tasks, put the configuration in force, and join the other processes.

    ``former`` are processes whose queues are this one's now.
    """
    members, registry, router, events = context.members, context.registry, context.router, context.events
    await opened.enter_async_context(_running(kept.run(context.clock), kept.write))
    await opened.enter_async_context(_running(router.run(), router.close))
    if isinstance(events, Emitter):
        await opened.enter_async_context(_running(events.run(), events.close))
    introspect(context, offers_of(context))
    registry.listen(context.leaders.apply)
    registry.listen(context.chains.apply)
    registry.listen(_choosing(registry, router))
    registry.listen(router.apply)
    registry.listen(_telling(members))
    # First, so that the snapshot of the configuration, which the registry reads, has the secret.
    await _load(context.peer_key)
    await registry.load()
    await context.leaders.inherit(former)
    await opened.enter_async_context(_running(context.rollups.run(), context.rollups.close))
    await members.join()
    await opened.enter_async_context(_running(members.run(), members.leave))
    # Only now: what was changed before the others saw this process is read here, for later changes they wait for it.
    await opened.enter_async_context(_running(follower.run()))
    await opened.enter_async_context(_running(context.leaders.run(), context.leaders.leave))
    await opened.enter_async_context(_running(context.chains.run(), context.chains.leave))


def _refuse_open_bus(settings: Settings, *, is_open: bool) -> None:
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
    """Return a listener that has messages published to the cluster that a person has chosen."""

    async def listener(_: Catalog) -> None:
        router.preference.prefer(registry.preference.cluster)

    return listener


def _telling(members: Members) -> Listener:
    """Return a listener that tells the other processes at once that the configuration here has changed."""

    async def listener(_: Catalog) -> None:
        members.hurry()

    return listener


@asynccontextmanager
async def _running(
    work: Coroutine[Any, Any, None], end: Callable[[], Awaitable[object]] | None = None
) -> AsyncIterator[None]:
    """Run ``work`` as a task while the block runs, and then ``end``; a failure of the task cancels the block."""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(work)
        try:
            yield
        finally:
            running.cancel()
    if end is not None:
        await end()


def introspect(context: Context, offers: RoleServices) -> Introspection:
    """Have the other processes told what this one offers, and return the introspection that does so."""
    found = Introspection(context, offers)
    context.members.describe = lambda _: found.described()
    return found


def _router(
    settings: Settings,
    spools: Mapping[str, Spool],
    handover: HandoverPublisher,
    registry: Registry,
    quarantine: Quarantine,
    carriers: Sequence[Transport],
    clock: Clock,
) -> TransportRouter:
    """Return all transports; the direct one is a queue here with a dispatcher, else a hand-over to another process."""
    brokers = [*open_brokers(settings, quarantine, clock), *carriers]
    if "direct" not in spools:
        return TransportRouter(brokers, clock, handover)
    return TransportRouter([DirectTransport(spools["direct"], registry.spool_share), *brokers], clock)


def _chain_roles(roles: Sequence[str]) -> set[Role]:
    """Return what this process may do for strictly ordered destinations."""
    return {role for role, name in ((Role.SENDER, "receiver"), (Role.READER, "dispatcher")) if name in roles}


@asynccontextmanager
async def open_offline_keyring(settings: Settings) -> AsyncIterator[Keyring]:
    """Open the keys and users in the store that the settings name, without a bus, for ``bus key create --data``."""
    refuse_half_restored(settings.data)
    refuse_newer(settings)
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


def peer_poster() -> HttpPoster:
    """Return what calls other processes of the bus, wherever they are; to be closed by whoever called."""
    anybody = EgressPolicy(("0.0.0.0/0", "::/0"))
    limits = Limits(dns=_REACHED_WITHIN, connect=_REACHED_WITHIN)
    return HttpPoster(anybody, limits=limits, answer_limits=AnswerLimits(body=LONGEST_ANSWER, kept=LONGEST_ANSWER))


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _reserve(settings: Settings) -> int:
    """Return the free disk kept for outcomes."""
    make_directory(settings.data)
    return settings.reserve(shutil.disk_usage(settings.data).total)


def check_settings(settings: Settings) -> None:
    """Raise ``ConfigurationError`` for what a start would refuse; opens and makes nothing."""
    check_store(settings)
    check_events(settings)
    check_spans(settings)
    _egress(settings)
