"""The route of a destination's transports, and of its progress in a switch from one to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import APIRouter

from admin.deps import Reader, ServicesDep
from admin.models.base import Code, optional_time
from admin.models.responses.configuration import (
    ReceiversView,
    ReceiverView,
    TransportLineView,
    TransportsView,
    TransportView,
)
from admin.services import AdminServices
from bus.bootstrap import Context
from bus.cluster.member import Member
from bus.cluster.report import Answer
from bus.domain.destination import Destination, FormerTransport, TransportName, is_drained
from bus.domain.lanes import STORE, destination_of
from bus.domain.times import format_time
from bus.localized_text import AnyText, joined, localized, localized_text_of

router = APIRouter(prefix="/destinations/{code}", tags=["destinations"])
_DIRECT_QUEUE = "direct"


@router.get("/transports")
async def get_transports(code: Code, services: ServicesDep, principal: Reader) -> TransportsView:
    """Return the transports of a destination: the one in use, those that it has left, and the fallback.

    Of each subscription what still waits there; null where that is not known, since a broker does not answer, is not
    set up here, or a dispatcher does not say what its direct queue holds. A transport that was left stays attached
    until ``attached_until`` and until it is ``drained``, whichever is later; then it is given up and listed no more.
    ``complete`` is true once every receiver publishes by the configuration of now and all transports that were left are
    drained, null when that is not known. ``receivers`` have their URLs for those who may see the whole bus.
    """
    context = services.context
    destination = context.registry.destination(code)
    queued = _queued(code, await _dispatchers(services))
    transports = [_transport(context, destination, transport, queued) for transport in destination.transports]
    receivers = [member for member in context.members.all if "receiver" in member.roles]
    late = [member for member in receivers if not _has_confirmed(context, member)]
    unpublished = [member.unpublished[code] for member in services.introspection.members if code in member.unpublished]
    drained = [transport.drained for transport in transports if transport.role == "former"]
    return TransportsView(
        transport=destination.transport,
        since=optional_time(max((transport.left_at for transport in destination.former), default=0)),
        complete=False if late or False in drained else (None if None in drained else True),
        unpublished_since=optional_time(min(unpublished, default=0)),
        receivers=ReceiversView(
            alive=len(receivers),
            confirmed=len(receivers) - len(late),
            items=[_receiver(context, member) for member in receivers] if principal.may("read", None) else None,
        ),
        items=transports,
    )


def _transport(
    context: Context,
    destination: Destination,
    transport: str,
    queued: Mapping[str, tuple[int, int | None]] | None,
) -> TransportView:
    former = next((left for left in destination.former if left.transport == transport), None)
    lines = [
        _line(context, destination, found.name, transport, queued)
        for found in context.registry.catalog.of(destination.code)
    ]
    trouble = _trouble(context, destination, transport)
    return TransportView(
        transport=transport,
        role=_role(destination, transport, former),
        left_at=optional_time(former.left_at) if former is not None else None,
        attached_until=optional_time(former.until) if former is not None else None,
        drained=is_drained(line.waiting for line in lines),
        trouble=str(trouble),
        trouble_text=localized_text_of(trouble),
        subscriptions=lines,
    )


def _role(destination: Destination, transport: str, former: FormerTransport | None) -> str:
    if transport == destination.carrier:
        return "present"
    return "former" if former is not None else "fallback"


def _trouble(context: Context, destination: Destination, name: str) -> AnyText:
    publisher = context.router.publishers.get(name)
    if publisher is None:
        return localized("its servers are not in the configuration of this process")
    trouble = context.router.trouble(destination.code) if name == destination.carrier else None
    conditions = [
        localized("{name}: {trouble}", name=cluster, trouble=said)
        for cluster, said in publisher.conditions().items()
        if said
    ]
    return joined([*conditions, *([trouble.said] if trouble is not None else [])])


def _line(
    context: Context,
    destination: Destination,
    name: str,
    transport: str,
    queued: Mapping[str, tuple[int, int | None]] | None,
) -> TransportLineView:
    """Return what waits on a transport for one subscription; for the direct one that is in the dispatchers' queues."""
    waiting: int | None = None
    oldest: int | None = None
    if transport == TransportName.DIRECT:
        if queued is not None:
            waiting, oldest = queued.get(name, (0, None))
    elif (lag := context.router.lag(destination, name, transport)) is not None:
        waiting, oldest = lag
    return TransportLineView(subscription=name, waiting=waiting, oldest=optional_time(oldest or 0))


async def _dispatchers(services: AdminServices) -> list[Answer]:
    dispatchers = [member for member in services.context.members.all if member.is_dispatcher]
    return await services.introspection.reports.of(dispatchers)


def _queued(code: str, answers: Sequence[Answer]) -> dict[str, tuple[int, int | None]] | None:
    """Return the backlog of the direct queues of all dispatchers, by subscription; None if one does not report."""
    found: dict[str, tuple[int, int | None]] = {}
    for answer in answers:
        if answer.report is None:
            return None
        for lane in answer.report.lanes:
            if lane.spool == _DIRECT_QUEUE and destination_of(lane.lane) == code and lane.consumer != STORE:
                records, oldest = found.get(lane.consumer, (0, None))
                times = [time for time in (oldest, lane.oldest) if time is not None]
                found[lane.consumer] = (records + lane.records, min(times, default=None))
    return found


def _has_confirmed(context: Context, member: Member) -> bool:
    is_me = member.owner == context.members.me.owner
    return is_me or member.revision >= context.registry.latest


def _receiver(context: Context, member: Member) -> ReceiverView:
    return ReceiverView(
        owner=member.owner,
        node=member.node,
        url=member.url,
        started_at=format_time(member.started_at),
        confirmed=_has_confirmed(context, member),
    )
