"""Routes of spools, store rates, clusters and health."""

from __future__ import annotations

import asyncio

import msgspec
from fastapi import APIRouter, Response

from admin.deps import Configurer, Reader, ServicesDep
from admin.models.base import optional_time
from admin.models.configuration import EmptiedBody, PreferenceBody, RatesBody
from admin.models.responses.base import Listing, encoded
from admin.models.responses.configuration import StoreRatesView
from admin.models.responses.operations import ClustersView, ClusterView, ConsumerView, HealthView, OwnSpoolView
from admin.requests.audited import AuditedRoute, NotingDep
from admin.services import AdminServices
from bus.bootstrap import Introspection
from bus.localized_text import localized_text_of
from bus.ports.spool import SpoolStats
from bus.registry import Preference, Rates

router = APIRouter(tags=["operations"], route_class=AuditedRoute)


@router.get("/spools", response_model=Listing[OwnSpoolView])
async def list_spools(services: ServicesDep, _: Reader) -> Response:
    """Return the local queues of this process and how far each consumer is behind."""
    found = [(name, spool.stats()) for name, spool in services.context.spools.items()]
    # In a thread, since the queues of thousands of subscriptions would hold up deliveries of this process.
    return await asyncio.to_thread(lambda: encoded(Listing(items=[_spool_view(*one) for one in found])))


@router.get("/rates")
async def get_rates(services: ServicesDep, _: Reader) -> StoreRatesView:
    """Return the store writes a second of each process."""
    rates = services.context.registry.rates
    return StoreRatesView(receiver=rates.receiver, dispatcher=rates.dispatcher)


@router.put("/rates")
async def put_rates(body: RatesBody, services: ServicesDep, noting: NotingDep, _: Configurer) -> StoreRatesView:
    """Change the store rates; in force at once."""
    rates = services.context.registry.rates
    noting.compare({"receiver": rates.receiver, "dispatcher": rates.dispatcher}, body.model_dump())
    await services.context.registry.set_rates(Rates(body.receiver, body.dispatcher))
    await services.settle()
    return StoreRatesView(receiver=body.receiver, dispatcher=body.dispatcher)


@router.get("/clusters")
async def list_clusters(services: ServicesDep, _: Reader) -> ClustersView:
    """Return the clusters of transports that have several, and which receivers publish to which."""
    return _clusters_view(services)


@router.put("/clusters")
async def put_clusters(body: PreferenceBody, services: ServicesDep, noting: NotingDep, _: Configurer) -> ClustersView:
    """Choose the cluster to publish to, in every process; at once if it is well, else as soon as it is."""
    services.context.router.preference.check(body.preferred)
    noting.compare({"preferred": services.context.registry.preference.cluster}, {"preferred": body.preferred})
    await services.context.registry.set_preference(Preference(body.preferred))
    await services.settle()
    return _clusters_view(services)


@router.post("/emptied-store", status_code=204)
async def choose_emptied(body: EmptiedBody, services: ServicesDep, noting: NotingDep, _: Configurer) -> Response:
    """Decide about a store that had lost the configuration: it was emptied on purpose, or was rightly restored.

    If ``accept``, destinations and subscriptions that were put back and not changed since are removed, and what waits
    for those that the configuration lacks is dropped and its deliveries canceled. Keys and users stay.
    """
    context = services.context
    noting.compare({}, {"accept": body.accept})
    if body.accept:
        await context.registry.accept_emptied(_waited_for(services.introspection))
    else:
        await context.registry.keep_put_back()
    await services.settle()
    return Response(status_code=204)


@router.get("/health")
async def get_health(services: ServicesDep, _: Reader) -> HealthView:
    """Return the health of the process, a line for each part."""
    return msgspec.convert(services.introspection.health(), HealthView)


def _waited_for(introspection: Introspection) -> set[str]:
    """Return the destinations and subscriptions for which something waits in the queues of any process."""
    return {name for member in introspection.members for name in (*member.held, *member.unpublished)}


def _clusters_view(services: AdminServices) -> ClustersView:
    context, introspection = services.context, services.introspection
    preference, conditions = context.router.preference, introspection.own_conditions()
    notes = preference.notes()
    preferred, publishers = context.registry.preference.cluster, introspection.publishers()
    told = {name: conditions.get(name) or notes.get(name, "") for name in preference.clusters}
    items = [
        ClusterView(
            name=name,
            transport=transport,
            preferred=name == preferred,
            ok=not conditions.get(name),
            detail=str(told[name]),
            detail_text=localized_text_of(told[name]),
            published_by=[url for url, active in publishers.items() if active.get(transport) == name],
        )
        for name, transport in preference.clusters.items()
    ]
    return ClustersView(preferred=preferred, items=items)


def _spool_view(name: str, stats: SpoolStats) -> OwnSpoolView:
    return OwnSpoolView(
        name=name,
        records=stats.records,
        bytes=stats.bytes,
        limit=stats.limit,
        damaged=stats.damaged,
        consumers=[
            ConsumerView(
                lane=consumer.lane,
                consumer=consumer.consumer,
                records=consumer.records,
                oldest=optional_time(consumer.oldest or 0),
            )
            for consumer in stats.consumers
        ],
    )
