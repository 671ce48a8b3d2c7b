"""Failover of lost sites: their topics are produced to another cluster, without evidence, as none can be had."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from bus.domain.routing.rooms import Rooms, Route
from bus.errors import Conflict, InvalidMessage, NotFound
from bus.localized_text import localized


class Phase(enum.StrEnum):
    """Phase of a failover.

    Attributes
    ----------
    ACTIVE
        Producers go elsewhere.
    RETURNING
        Producers are back; what was written elsewhere is still consumed there.
    ENDED
        It has no effect any more.
    """

    ACTIVE = "active"
    RETURNING = "returning"
    ENDED = "ended"


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """One lost site; each change makes a new object.

    Attributes
    ----------
    lost
        The clusters that are produced to in that site.
    to
        The cluster that their topics are produced to instead.
    at
        When it came to its phase, in milliseconds since the epoch.
    """

    room: str
    lost: tuple[str, ...]
    to: str
    by: str
    began_at: int
    at: int
    phase: Phase = Phase.ACTIVE


def begin_failover(rooms: Rooms, room: str, to: str, by: str, now: int) -> Failover:
    """Return the failover of a site, or of one cluster by its name.

    Parameters
    ----------
    to
        A cluster; empty for the only other one.

    Raises
    ------
    NotFound
        There is no such site.
    InvalidMessage
        The other cluster is none, is lost itself, or is to be named.
    """
    lost = tuple(sorted(rooms.rooms.get(room, frozenset({room} & rooms.clusters.keys()))))
    if not lost:
        known = ", ".join(sorted({*rooms.rooms, *rooms.clusters}))
        raise NotFound(
            localized("there is no site or cluster {room}; nothing was changed", room=repr(room)),
            hint=localized("the file has: {known}", known=known),
        )
    others = [name for name in rooms.clusters if name not in lost]
    chosen = to or (others[0] if len(others) == 1 else "")
    if chosen not in others:
        raise InvalidMessage(
            localized("name the cluster to produce to instead: {names}; nothing was changed", names=", ".join(others)),
            hint=localized("one that is not lost itself: {command}", command=f"bus lookup failover {room} --to NAME"),
            field="to",
        )
    return Failover(room=room, lost=lost, to=chosen, by=by, began_at=now, at=now)


def following(failover: Failover, now: int) -> Failover:
    """Return it one phase further; raises ``Conflict`` for one that has ended."""
    if failover.phase is Phase.ENDED:
        raise Conflict(localized("the failover of {room} has ended; nothing was changed", room=failover.room))
    phase = Phase.RETURNING if failover.phase is Phase.ACTIVE else Phase.ENDED
    return msgspec.structs.replace(failover, phase=phase, at=now)


def diverted(route: Route, failovers: Iterable[Failover]) -> Route:
    """Return a route as failovers change it.

    A lost cluster stays among those that consumers get, behind the others: it may come back with its messages.
    """
    for failover in failovers:
        if failover.phase is not Phase.ENDED and not set(failover.lost).isdisjoint(route.produce):
            route = _diverted(route, failover)
    return route


def _diverted(route: Route, failover: Failover) -> Route:
    if failover.phase is Phase.RETURNING:
        consume = route.consume if failover.to in route.consume else (*route.consume, failover.to)
        return Route(route.produce, consume)
    others = tuple(name for name in route.consume if name not in failover.lost and name != failover.to)
    lost = tuple(name for name in route.consume if name in failover.lost)
    return Route((failover.to,), (failover.to, *others, *lost))
