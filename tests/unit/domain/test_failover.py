"""Rooms that are lost: where their topics go, and how they come back."""

from __future__ import annotations

import pytest

from bus.domain.routing.failover import Failover, Phase, begin_failover, diverted, following
from bus.domain.routing.rooms import Rooms, Route
from bus.errors import Conflict, InvalidMessage, NotFound


def rooms(*clusters: str) -> Rooms:
    found = dict.fromkeys(clusters, ("h:1",))
    return Rooms("south", found, {"north": frozenset({"a"}), "south": frozenset({"b"})}, {}, Route(("a",), ("a",)))


def lost(phase: Phase = Phase.ACTIVE) -> Failover:
    return Failover(room="north", lost=("a",), to="b", by="ann", began_at=1, at=1, phase=phase)


@pytest.mark.parametrize(
    ("route", "active", "returning"),
    [
        (Route(("a",), ("a",)), Route(("b",), ("b", "a")), Route(("a",), ("a", "b"))),
        (Route(("a",), ("c", "a", "b")), Route(("b",), ("b", "c", "a")), Route(("a",), ("c", "a", "b"))),
        (Route(("b",), ("a", "b")), Route(("b",), ("a", "b")), Route(("b",), ("a", "b"))),
        (Route((), ("a",)), Route((), ("a",)), Route((), ("a",))),
    ],
)
def test_topics_of_a_lost_room_are_produced_elsewhere_and_consumed_everywhere(
    route: Route, active: Route, returning: Route
) -> None:
    assert diverted(route, [lost()]) == active
    assert diverted(route, [lost(Phase.RETURNING)]) == returning
    assert diverted(route, [lost(Phase.ENDED)]) == route


def test_a_room_or_a_cluster_is_named_and_the_only_other_cluster_need_not_be() -> None:
    assert begin_failover(rooms("a", "b"), "north", "", "ann", 5).to == "b"
    assert begin_failover(rooms("a", "b", "c"), "c", "a", "ann", 5).lost == ("c",)
    for to in ("", "a", "x"):
        with pytest.raises(InvalidMessage, match="b, c"):
            begin_failover(rooms("a", "b", "c"), "north", to, "ann", 5)
    with pytest.raises(NotFound, match="'east'"):
        begin_failover(rooms("a", "b"), "east", "", "ann", 5)


def test_it_returns_and_ends_once() -> None:
    back = following(lost(), 7)
    assert (back.phase, back.at, back.began_at) == (Phase.RETURNING, 7, 1)
    ended = following(back, 8)
    assert ended.phase is Phase.ENDED
    with pytest.raises(Conflict, match="has ended"):
        following(ended, 9)
